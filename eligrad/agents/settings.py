"""The settings of the agents, a class for each kind; importable without JAX, for quick help.

Numbers are pytree leaves, so that a `vmap` can run over them: the module of each agent registers
its settings with JAX.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

from eligrad import optim, rules
from eligrad._base import checks as check
from eligrad._base.checks import Leaf

STATIC = {"static": True}
"""Marks a field that is static: it shapes the program, and is not a leaf."""
Target = Literal["max", "sarsa", "expected"]
"""What is bootstrapped from."""
H = Literal["network", "features"]
Advantage = Literal["fresh", "stale"]
"""What h is."""


@dataclasses.dataclass(frozen=True)
class HSettings:
    """The settings of h, of a streaming agent or of Gradient PPO."""

    beta: Leaf = 1.0
    """Regularisation of h; only a rule that has one, such as tdrc, uses it."""
    rule: str = dataclasses.field(default="tdrc", metadata=STATIC)
    """How the values move: td, gtd2, tdc or tdrc."""
    regularize: rules.Regularize = dataclasses.field(default="parameters", metadata=STATIC)
    """What β acts on: all parameters of h (as in the paper), those of its head, or its output."""
    h: H = dataclasses.field(default="network", metadata=STATIC)
    """What h is: a separate network (as in the paper), or linear in the features of the values."""


@dataclasses.dataclass(frozen=True)
class StreamingConfig:
    """The settings that all streaming agents have, beside those of h."""

    lam: Leaf = 0.8
    """Trace parameter λ, in [0, 1]."""
    gamma: Leaf = 0.99
    """Discount."""
    h_scale: Leaf = 1.0
    """Step size of h, as a multiple of that of the values."""
    sparsity: Leaf = 0.9
    """Share of each unit's incoming weights that start at 0."""


def check_h(settings: HSettings) -> None:
    """Raises ValueError for bad settings of h.

    A rule that does not regularise h ignores `beta` and `regularize`, which have defaults.
    """
    check.one_of("rule", settings.rule, rules.names())
    check.one_of("regularize", settings.regularize, get_args(rules.Regularize))
    check.one_of("h", settings.h, get_args(H))
    if settings.h == "network":
        return  # every rule accepts it; to know the rule, JAX is imported
    if not rules.get(settings.rule).has_auxiliary:
        raise ValueError(f"h is {settings.h!r} and rule {settings.rule!r}, which has no h")


@dataclasses.dataclass(frozen=True)
class QLambdaConfig(HSettings, StreamingConfig):
    """Settings; all numbers are pytree leaves, so that a `vmap` can run over them."""

    step_size: Leaf = 1e-4
    """Step size of the value parameters w."""
    epsilon_start: Leaf = 1.0
    """Exploration at the first step."""
    epsilon_end: Leaf = 0.01
    """Exploration from the end of the schedule on."""
    exploration_steps: Leaf = 200_000
    """Length of the linear exploration schedule, in environment steps."""
    kappa: Leaf = 2.0
    """κ of ObGD: a larger one makes smaller steps; no other optimiser uses it."""
    optimizer: str = dataclasses.field(default="sgd", metadata=STATIC)
    """How w and θ are moved: sgd, adam, rmsprop, obgd, adaptive-obgd or trace-adam."""
    target: Target = dataclasses.field(default="max", metadata=STATIC)
    """What is bootstrapped from: max, sarsa or expected."""
    trace_cut: rules.TraceCut = dataclasses.field(default="after", metadata=STATIC)
    """Where the traces of a max target end at a non-greedy action: after or watkins."""

    def check(self) -> None:
        """Raises ValueError for a bad setting, by its name. Traced numbers are not checked."""
        for name in ("lam", "gamma", "sparsity", "epsilon_start", "epsilon_end"):
            check.within(name, getattr(self, name), 0.0, 1.0)
        for name in ("step_size", "h_scale", "beta", "exploration_steps"):
            check.within(name, getattr(self, name), 0.0, math.inf)
        check.positive("kappa", self.kappa)
        check.one_of("target", self.target, get_args(Target))
        check.one_of("trace_cut", self.trace_cut, get_args(rules.TraceCut))
        check.one_of("optimizer", self.optimizer, optim.names())
        check_h(self)


@dataclasses.dataclass(frozen=True)
class StreamACConfig(HSettings, StreamingConfig):
    """Settings; all numbers are pytree leaves, so that a `vmap` can run over them."""

    beta: Leaf = 0.0
    """Regularisation of h; only a rule that has one, such as tdrc, uses it."""
    rule: str = dataclasses.field(default="td", metadata=STATIC)
    """How the critic moves: td, gtd2, tdc or tdrc."""
    actor_step_size: Leaf = 1.0
    """ObGD's step size for the policy, before it is bounded."""
    critic_step_size: Leaf = 1.0
    """ObGD's step size for the value function, before it is bounded."""
    actor_kappa: Leaf = 3.0
    """How cautious ObGD is with the policy."""
    critic_kappa: Leaf = 2.0
    """How cautious ObGD is with the value function and h."""
    entropy_bonus: Leaf = 0.01
    """Weight τ of the policy's entropy."""

    def check(self) -> None:
        """Raises ValueError for a bad setting, by its name. Traced numbers are not checked."""
        for name in ("lam", "gamma", "sparsity"):
            check.within(name, getattr(self, name), 0.0, 1.0)
        for name in ("actor_step_size", "critic_step_size", "h_scale", "entropy_bonus", "beta"):
            check.within(name, getattr(self, name), 0.0, math.inf)
        for name in ("actor_kappa", "critic_kappa"):
            check.positive(name, getattr(self, name))
        check_h(self)


@dataclasses.dataclass(frozen=True)
class ActorCriticConfig:
    """Settings; the numbers are pytree leaves, so that runs may differ in them."""

    gamma: Leaf = 0.99
    """Discount."""
    lam: Leaf = 0.95
    """λ of the advantage estimates."""
    actor_step_size: Leaf = 3e-4
    """Adam's step size for the policy."""
    critic_step_size: Leaf = 3e-4
    """Adam's step size for the value function."""
    clip: Leaf = 0.2
    """The ratio of new to old action probabilities is clipped to 1 ± this."""
    entropy_bonus: Leaf = 0.0
    """Weight of the policy's entropy."""
    max_gradient_norm: Leaf = 0.5
    """Largest norm of each network's gradient, which is scaled down to it; 0: no limit."""
    target_kl: Leaf = 0.0
    """An update ends at the first minibatch whose approximate KL is larger; 0: no limit."""
    anneal_steps: Leaf = 0.0
    """Environment steps over which step sizes fall linearly to 0; 0: they are constant."""
    rollout: int = dataclasses.field(default=2048, metadata=STATIC)
    """Environment steps between two updates, those of all `num_envs` together."""
    num_envs: int = dataclasses.field(default=1, metadata=STATIC)
    """Environments that each agent acts in at once."""
    epochs: int = dataclasses.field(default=4, metadata=STATIC)
    """Passes over a rollout."""
    minibatch_size: int = dataclasses.field(default=64, metadata=STATIC)
    """Transitions in a minibatch."""

    @property
    def unit(self) -> int:
        """Transitions that stay together in a minibatch."""
        return 1

    def check(self) -> None:
        """Raises ValueError for a bad setting, by its name. Traced numbers are not checked."""
        for name in ("gamma", "lam"):
            check.within(name, getattr(self, name), 0.0, 1.0)
        for name in (
            "actor_step_size", "critic_step_size", "clip", "entropy_bonus", "max_gradient_norm",
            "target_kl", "anneal_steps",
        ):  # fmt: skip
            check.within(name, getattr(self, name), 0.0, math.inf)
        for name in ("rollout", "num_envs", "epochs", "minibatch_size"):
            check_count(name, getattr(self, name))
        check_divides("num_envs", self.num_envs, "rollout", self.rollout)
        check_divides("minibatch_size", self.minibatch_size, "rollout", self.rollout)
        if self.minibatch_size < 2:
            raise ValueError(
                f"minibatch_size is {self.minibatch_size}; at least 2 are accepted, since a "
                "minibatch's advantages are divided by their deviation"
            )


@dataclasses.dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """The settings of PPO."""

    value_clip: Leaf = 0.2
    """The change of a value is clipped to ± this; 0: it is not clipped."""

    def check(self) -> None:
        """Raises ValueError for a bad setting, by its name. Traced numbers are not checked."""
        super().check()
        check.within("value_clip", self.value_clip, 0.0, math.inf)


@dataclasses.dataclass(frozen=True)
class GradientPPOConfig(HSettings, ActorCriticConfig):
    """The settings of Gradient PPO."""

    critic_step_size: Leaf = 3e-3
    """Adam's step size for the value function."""
    h_step_size: Leaf = 3e-3
    """Adam's step size for h."""
    minibatch_size: int = dataclasses.field(default=256, metadata=STATIC)
    """Transitions in a minibatch, a multiple of `sequence`."""
    sequence: int = dataclasses.field(default=32, metadata=STATIC)
    """Transitions along which a TD(λ) error looks ahead."""
    advantage: Advantage = dataclasses.field(default="fresh", metadata=STATIC)
    """Where the policy's advantage comes from: TD(λ) errors of the minibatch (fresh), or of the
    whole rollout, computed once (stale)."""
    importance_sampling: bool = dataclasses.field(default=False, metadata=STATIC)
    """Whether TD(λ) errors weigh actions by how likely the current policy is to take them."""

    @property
    def unit(self) -> int:
        """Transitions that stay together in a minibatch."""
        return self.sequence

    def check(self) -> None:
        """Raises ValueError for a bad setting, by its name. Traced numbers are not checked."""
        super().check()
        for name in ("h_step_size", "beta"):
            check.within(name, getattr(self, name), 0.0, math.inf)
        check_h(self)
        check.one_of("advantage", self.advantage, get_args(Advantage))
        check_count("sequence", self.sequence)
        check_divides(
            "sequence", self.sequence, "rollout / num_envs", self.rollout // self.num_envs
        )
        check_divides("sequence", self.sequence, "minibatch_size", self.minibatch_size)


def check_count(name: str, value: Any) -> None:
    """Raises ValueError for anything but an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value}; a whole number of at least 1 is accepted")


def check_divides(name: str, value: int, whole_name: str, whole: int) -> None:
    """Raises ValueError if `value` does not divide `whole`."""
    if value > whole or whole % value:
        raise ValueError(
            f"{name} is {value} and {whole_name} {whole}; {name} must divide {whole_name}"
        )
