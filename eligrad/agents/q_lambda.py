"""Streaming control with eligibility traces: QRC(λ), QC(λ), GQ2(λ), Q(λ), StreamQ, SARSA(λ).

One agent. The rule decides how the value parameters w and the auxiliary θ move ("tdrc" gives
QRC(λ), "tdc" QC(λ), "gtd2" GQ2(λ), "td" Watkins' Q(λ)); the target, what is bootstrapped from: the
best action ("max"), the next one taken ("sarsa"), or the policy's mean ("expected"); the
optimiser, how far they move ("obgd" with the rule "td" gives StreamQ, "trace-adam" Adaptive Q(λ)).
`presets.py` names them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from eligrad import normalize, optim, rules
from eligrad._base import array_checks as check
from eligrad._base.array_checks import Leaf, Number
from eligrad.agents import auxiliary
from eligrad.agents.fit import check_network, number_of_actions
from eligrad.agents.network import Network, default_network
from eligrad.agents.policies import over_batch
from eligrad.agents.protocol import Inspection, Metrics, StreamingAgent, Transition
from eligrad.agents.streaming import (
    Choice,
    NormalizedTransition,
    Normalizer,
    epsilon_greedy,
    epsilon_greedy_probabilities,
    init_normalizer,
    linear_epsilon,
    normalize_transition,
)

_LAST_STEP = np.iinfo(np.int32).max

Target = Literal["max", "sarsa", "expected"]


STATIC = {"static": True}
"""Marks a field that is static: it shapes the program, and is not a leaf."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QLambdaConfig:
    """Settings; all numbers are pytree leaves, so that a `vmap` can run over them."""

    lam: Leaf = 0.8
    """Trace parameter λ, in [0, 1]."""
    gamma: Leaf = 0.99
    """Discount."""
    step_size: Leaf = 1e-4
    """Step size of the value parameters w."""
    h_scale: Leaf = 1.0
    """Step size of the auxiliary parameters θ, as a multiple of `step_size`."""
    beta: Leaf = 1.0
    """Regularisation of h; only a rule that has one, such as tdrc, uses it."""
    sparsity: Leaf = 0.9
    """Share of each unit's incoming weights that start at 0."""
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
    rule: str = dataclasses.field(default="tdrc", metadata=STATIC)
    """How parameters move: td, gtd2, tdc or tdrc."""
    regularize: rules.Regularize = dataclasses.field(default="parameters", metadata=STATIC)
    """What β acts on: all parameters of h (as in the paper), those of its head, or its output."""
    h: auxiliary.H = dataclasses.field(default="network", metadata=STATIC)
    """What h is: a separate network (as in the paper), or linear in the features of q's network."""
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
        check.one_of("target", self.target, ("max", "sarsa", "expected"))
        check.one_of("trace_cut", self.trace_cut, ("after", "watkins"))
        check.one_of("optimizer", self.optimizer, optim.names())
        auxiliary.check_settings(self)


class QLambdaState(NamedTuple):
    """The whole state of the agent, as a checkpoint holds it."""

    w: Any
    theta: Any
    traces: rules.Traces
    optimizer_w: Any
    optimizer_theta: Any
    normalizer: Normalizer
    observation: Float[Array, "..."]
    """The current observation, normalised."""
    action: Int[Array, ""]
    """The action last chosen; with the target "sarsa" after an update, the next one."""
    greedy: Bool[Array, ""]
    planned: Bool[Array, ""]
    """Whether `action` is the one to take next, chosen in the course of the last update."""
    step: Int[Array, ""]
    """Updates made; stays at 2^31 - 1 from there on."""


AuxiliaryLoss = Callable[[PyTree, Float[Array, "..."], NormalizedTransition], Float[Array, ""]]
"""From w, the observation acted on and what followed it to a scalar, minimised beside the rule."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QLambda(StreamingAgent):
    """The agent: pure `init`, `act` and `update` over `QLambdaState`."""

    progress_metrics = ("epsilon",)

    config: QLambdaConfig
    network: Network = dataclasses.field(metadata=STATIC)
    """Action values q; the auxiliary h has its shape or is linear in its features."""
    optimizer: Callable[[Number], optax.GradientTransformation] | None = dataclasses.field(
        default=None, metadata=STATIC
    )
    """An optax optimiser of your own, from its step size, in place of the one the config names."""
    auxiliary_loss: AuxiliaryLoss | None = dataclasses.field(default=None, metadata=STATIC)
    """A further loss on the shared features of q; its gradient joins the update of w."""

    @property
    def _rule(self) -> rules.Rule:
        """The rule; one without a trace of w, GTD2, keeps it for an optimiser that needs it."""
        rule = rules.get(self.config.rule)
        if self.optimizer is None and optim.uses_trace(self.config.optimizer):
            return dataclasses.replace(rule, traces_w=True)
        return rule

    def _optimizer(self, step_size: Number) -> optax.GradientTransformationExtraArgs:
        c = self.config
        if self.optimizer is not None:
            return optim.ascend(self.optimizer(step_size))
        return optim.ascend(
            optim.make(c.optimizer, optim.Settings(step_size, c.kappa, c.gamma * c.lam))
        )

    def _optimizers(
        self,
    ) -> tuple[optax.GradientTransformationExtraArgs, optax.GradientTransformationExtraArgs]:
        c = self.config
        return self._optimizer(c.step_size), self._optimizer(c.h_scale * c.step_size)

    def init(self, key: PRNGKeyArray, observation: Array) -> QLambdaState:
        """The state at the first observation, before the first action."""
        self.config.check()
        key_w, key_theta = jax.random.split(key)
        normalizer, seen = init_normalizer(observation)
        sparsity = self.config.sparsity
        w = self.network.make_params(key_w, sparsity)
        theta: Any = None
        if self._rule.has_auxiliary:
            theta = auxiliary.init(self.config, self.network, key_theta, sparsity, w, seen)
        optimizer_w, optimizer_theta = self._optimizers()
        return QLambdaState(
            w=w,
            theta=theta,
            traces=self._rule.init(w, theta),
            optimizer_w=optimizer_w.init(w),
            optimizer_theta=optimizer_theta.init(theta),
            normalizer=normalizer,
            observation=seen,
            action=jnp.zeros((), jnp.int32),
            greedy=jnp.zeros((), bool),
            planned=jnp.zeros((), bool),
            step=jnp.zeros((), jnp.int32),
        )

    def epsilon(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Exploration at a step."""
        c = self.config
        return linear_epsilon(step, c.epsilon_start, c.epsilon_end, c.exploration_steps)

    def act(self, state: QLambdaState, key: PRNGKeyArray) -> tuple[QLambdaState, Int[Array, ""]]:
        """Chooses ε-greedily in the current observation, unless the action is chosen already."""
        q = self.network.apply(state.w, state.observation)
        choice = epsilon_greedy(key, q, self.epsilon(state.step))
        if self.config.target == "sarsa":
            planned = Choice(state.action, state.greedy)
            choice = jax.tree.map(lambda a, b: jnp.where(state.planned, a, b), planned, choice)
        return state._replace(action=choice.action, greedy=choice.greedy), choice.action

    def interrupt(self, state: QLambdaState, observation: Array) -> QLambdaState:
        """Continues in another episode, whose first observation this is; traces end here."""
        stats = normalize.update(state.normalizer.observations, observation)
        rewards = state.normalizer.rewards
        rewards = rewards._replace(trace=jnp.zeros_like(rewards.trace))
        return state._replace(
            traces=state.traces._replace(discount=jnp.zeros_like(state.traces.discount)),
            normalizer=Normalizer(stats, rewards),
            observation=normalize.normalize(stats, observation),
            planned=jnp.zeros_like(state.planned),
        )

    def greedy_action(self, state: QLambdaState, observation: Array) -> Int[Array, ""]:
        """The best action in a raw observation; the statistics are used and not changed."""
        return jnp.argmax(self._values_of(state, observation)).astype(jnp.int32)

    def sampled_action(
        self, state: QLambdaState, observation: Array, key: PRNGKeyArray
    ) -> Int[Array, ""]:
        """An action as in training, ε-greedy, in a raw observation."""
        q = self._values_of(state, observation)
        return epsilon_greedy(key, q, self.epsilon(state.step)).action

    def _values_of(self, state: QLambdaState, observation: Array) -> Float[Array, " actions"]:
        seen = normalize.normalize(state.normalizer.observations, observation)
        return self.network.apply(state.w, seen)

    def update(
        self, state: QLambdaState, transition: Transition, key: PRNGKeyArray
    ) -> tuple[QLambdaState, Metrics]:
        """One step of learning from the transition that `state.action` led to."""
        c, rule = self.config, self._rule
        ended = transition.terminated | transition.truncated
        # The barrier keeps the compiler from normalising again for each of the uses that follow.
        normalizer, seen = jax.lax.optimization_barrier(
            normalize_transition(state.normalizer, transition, c.gamma)
        )

        evaluate = auxiliary.evaluation(c, self.network)
        q_tm1, pull_tm1, features = jax.vjp(
            lambda w: evaluate(w, state.observation), state.w, has_aux=True
        )
        q_t, pull_t = jax.vjp(lambda w: self.network.apply(w, seen.next_observation), state.w)
        next_step = jnp.minimum(state.step, _LAST_STEP - 1) + 1
        following = epsilon_greedy(key, q_t, self.epsilon(next_step))
        weights_t = self._target_weights(q_t, following.action, next_step)
        weights_tm1 = _one_hot(state.action, q_tm1)

        discount = jnp.where(transition.terminated, 0.0, jnp.asarray(c.gamma, jnp.float32))
        value = jnp.sum(weights_tm1 * q_tm1)
        delta = rules.td_error(value, seen.reward, discount, jnp.sum(weights_t * q_t))
        of_h: dict[str, Any] = {}
        if rule.has_auxiliary:
            h_tm1, pull_h = jax.vjp(
                lambda theta: auxiliary.apply(self.network, theta, state.observation, features),
                state.theta,
            )
            of_h = {
                "h_tm1": jnp.sum(weights_tm1 * h_tm1),
                "grad_h_tm1": pull_h(weights_tm1)[0],
                **auxiliary.rule_options(c, self.network, state.theta),
            }
        rho, reset = jnp.ones((), jnp.float32), ended
        if c.target == "max":
            rho, reset = rules.trace_cut(c.trace_cut, state.greedy, ended)
        (grad_v,) = pull_tm1(weights_tm1)
        step, traces = rule.update(
            state.traces,
            delta,
            discount,
            grad_v_tm1=grad_v,
            grad_v_t=pull_t(weights_t)[0],
            lam=c.lam,
            rho_tm1=rho,
            reset=reset,
            values="action",
            **of_h,
        )
        direction = step.w
        if self.auxiliary_loss is not None:
            gradient = jax.grad(self.auxiliary_loss)(state.w, state.observation, seen)
            direction = jax.tree.map(jnp.subtract, direction, gradient)

        optimizer_w, optimizer_theta = self._optimizers()
        moved_w, optimizer_w = optimizer_w.update(
            direction,
            state.optimizer_w,
            state.w,
            td_error=delta,
            trace=traces.w,
            grad_output=grad_v,
        )
        state = state._replace(
            w=optax.apply_updates(state.w, moved_w),
            optimizer_w=optimizer_w,
            traces=traces,
            normalizer=normalizer,
            observation=seen.observation,
            planned=~ended,
            step=next_step,
        )
        if rule.has_auxiliary:
            moved_theta, optimizer_theta = optimizer_theta.update(
                step.theta,
                state.optimizer_theta,
                state.theta,
                td_error=delta,
                trace=traces.theta,
                grad_output=of_h["grad_h_tm1"],
            )
            state = state._replace(
                theta=optax.apply_updates(state.theta, moved_theta),
                optimizer_theta=optimizer_theta,
            )
        if c.target == "sarsa":
            state = state._replace(action=following.action, greedy=following.greedy)
        metrics = {"td_error": delta, "value": value, "epsilon": self.epsilon(next_step)}
        if rule.has_auxiliary:
            metrics["h"] = of_h["h_tm1"]
        if rule.has_auxiliary and rule.traces_w:
            metrics["correction_share"] = auxiliary.correction_share(delta, traces.w, step.w)
        return state, metrics

    def report(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of a chunk: TD errors, values, ε at its end, and whether h is active."""
        size = np.abs(metrics["td_error"].astype(np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            columns = {
                "mean_abs_td_error": size.mean(axis=1),
                "max_abs_td_error": size.max(axis=1),
                "epsilon": metrics["epsilon"][:, -1],
                "mean_value": metrics["value"].mean(axis=1),
            }
        if "h" in metrics:
            columns |= auxiliary.health(metrics["h"], metrics["td_error"])
        if "correction_share" in metrics:
            columns["correction_share"] = auxiliary.typical(metrics["correction_share"])
        return columns

    def remarks(self, columns: dict[str, np.ndarray]) -> list[str]:
        """Whether the gradient correction was still active in the end."""
        return auxiliary.remarks(self.config, columns)

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Raises ValueError for continuous actions, and for a network that does not fit."""
        actions = number_of_actions(action_space)
        check_network("network", self.network, observation_space, actions, "one for each action")
        auxiliary.check_network(self.config, self.network)

    def inspect(
        self, state: QLambdaState, observations: Any, actions: Any, rewards: Any
    ) -> Inspection:
        """Action values and h of the actions taken along an episode."""
        stats, taken = state.normalizer.observations, actions[:, None].astype(np.int64)

        def along(function: Callable[..., Array], params: PyTree) -> np.ndarray:
            seen = normalize.normalize(stats, jnp.asarray(observations))
            return np.asarray(jax.jit(over_batch(function, 1))(params, seen), np.float64)

        q = along(self.network.apply, state.w)
        of_taken = np.take_along_axis(q, taken, axis=1)[:, 0]
        if self.config.target == "max":
            following = q.max(axis=1)
        elif self.config.target == "sarsa":
            following = of_taken
        else:
            likely = jax.vmap(epsilon_greedy_probabilities, (0, None))
            weights = likely(jnp.asarray(q, jnp.float32), self.epsilon(state.step))
            following = np.sum(np.asarray(weights) * q, axis=1)
        h = None
        if state.theta is not None:
            h = along(auxiliary.whole(self.config, self.network), (state.w, state.theta))
            h = np.take_along_axis(h, taken, axis=1)[:-1, 0]
        scaled = normalize.scale_reward(state.normalizer.rewards, jnp.asarray(rewards, jnp.float32))
        return Inspection(
            values=of_taken[:-1],
            next_values=following[1:],
            h=h,
            rewards=np.asarray(scaled, np.float64),
            discount=float(np.asarray(self.config.gamma)),
            of_actions=True,
        )

    def _target_weights(
        self, q_t: Float[Array, " actions"], next_action: Int[Array, ""], step: Int[Array, ""]
    ) -> Float[Array, " actions"]:
        """How much each action of the next state counts in the value bootstrapped from."""
        if self.config.target == "max":
            return _one_hot(jnp.argmax(q_t).astype(jnp.int32), q_t)
        if self.config.target == "sarsa":
            return _one_hot(next_action, q_t)
        return epsilon_greedy_probabilities(q_t, self.epsilon(step))


def _one_hot(action: Int[Array, ""], q: Float[Array, " actions"]) -> Float[Array, " actions"]:
    return (jnp.arange(q.size, dtype=jnp.int32) == action).astype(q.dtype)


def make_q_lambda(
    config: QLambdaConfig, observation_space: Any, action_space: Any, network: Any = None
) -> QLambda:
    """The agent for an environment's spaces, with the default network unless one is given.

    Args:
        config: the settings.
        observation_space: of the environment.
        action_space: of the environment; a Discrete one.
        network: action values of your own, or None.
    """
    actions = number_of_actions(action_space)
    if network is None:
        network = default_network(tuple(observation_space.shape), actions)
    return QLambda(config, network)
