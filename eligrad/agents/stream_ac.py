"""Streaming actor-critic with eligibility traces: Stream AC(λ) and Gradient AC(λ).

One agent. The actor climbs log π(A|S) along its trace by ObGD, an optimiser that bounds each step
(Elsayed et al., 2024). The critic is v, which follows a rule: "td" gives Stream AC(λ), "tdrc"
Gradient AC(λ), whose critic has an h beside it. `registry.py` names them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from eligrad import optim, rules
from eligrad._base.array_checks import Number
from eligrad.agents.critic import Critic, columns, follow
from eligrad.agents.network import Network, default_network
from eligrad.agents.policies import SoftplusGaussianPolicy
from eligrad.agents.policy_agent import PolicyAgent
from eligrad.agents.protocol import Metrics, StreamingAgent, Transition
from eligrad.agents.settings import StreamACConfig
from eligrad.agents.streaming import (
    Normalizer,
    emptied,
    init_normalizer,
    normalize_transition,
    restart_normalizer,
)

jax.tree_util.register_dataclass(StreamACConfig)


class StreamACState(NamedTuple):
    """The whole state of the agent, as a checkpoint holds it."""

    actor: Any
    actor_traces: rules.Traces
    w: Any
    theta: Any
    traces: rules.Traces
    """Of the critic."""
    optimizer_w: Any
    optimizer_theta: Any
    normalizer: Normalizer
    observation: Float[Array, "..."]
    """The current observation, normalised."""
    action: Shaped[Array, "..."]
    """The action last chosen, as the policy sampled it."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StreamAC(PolicyAgent, StreamingAgent):
    """The agent: pure `init`, `act` and `update` over `StreamACState`."""

    progress_metrics = ("entropy",)
    gaussian = SoftplusGaussianPolicy

    config: StreamACConfig

    @staticmethod
    def _default_network(shape: tuple[int, ...], values: int, output_gain: float) -> Network:
        del output_gain  # its weights are sparse, not small
        return default_network(shape, values)

    def actor(self, state: StreamACState) -> PyTree:
        """The policy's parameters."""
        return state.actor

    def _value_params(self, state: StreamACState) -> tuple[PyTree, PyTree]:
        return state.w, state.theta

    @property
    def _critic(self) -> Critic:
        c, rule = self.config, rules.get(self.config.rule)
        rule = dataclasses.replace(rule, traces_w=True)  # ObGD needs this trace
        sizes = (c.critic_step_size, c.h_scale * c.critic_step_size)
        optimizers = (_obgd(size, c.critic_kappa) for size in sizes)
        return Critic(self.critic, rule, c, c.lam, *optimizers)

    def init(self, key: PRNGKeyArray, observation: Shaped[Array, "..."]) -> StreamACState:
        """The state at the first observation, before the first action."""
        self.config.check()
        actor_key, critic_key = jax.random.split(key)
        normalizer, seen = init_normalizer(observation)
        actor = self.policy.init(actor_key, self.config.sparsity)
        return StreamACState(
            actor=actor,
            actor_traces=rules.TD.init(actor, None),
            **self._critic.init(critic_key, self.config.sparsity, seen),
            normalizer=normalizer,
            observation=seen,
            action=self.policy(actor, seen).mode(),
        )

    def act(self, state: StreamACState, key: PRNGKeyArray) -> tuple[StreamACState, Array]:
        """Samples an action in the current observation."""
        policy = self.policy(state.actor, state.observation)
        action = policy.sample(self.policy.noise(key, ()))
        return state._replace(action=action), self.policy.to_environment(action)

    def update(
        self, state: StreamACState, transition: Transition, key: PRNGKeyArray
    ) -> tuple[StreamACState, Metrics]:
        """One step of learning from the transition that `state.action` led to."""
        del key
        c, critic = self.config, self._critic
        ended = transition.terminated | transition.truncated
        normalizer, seen = normalize_transition(state.normalizer, transition, c.gamma)
        discount = jnp.where(transition.terminated, 0.0, jnp.asarray(c.gamma, jnp.float32))
        observations = (state.observation, seen.next_observation)
        before, after = (critic.evaluate(state.w, each) for each in observations)
        learned, metrics = critic.learn(
            state,
            (before, jnp.ones_like(before.values)),
            (after, jnp.ones_like(after.values)),
            seen.reward,
            discount,
            values="state",
            reset=ended,
        )
        delta = metrics["td_error"]
        gradient, entropy = self._actor_gradient(state, delta)
        # δ z: TD(λ)'s update, of another function.
        step, actor_traces = rules.TD.update(
            state.actor_traces, delta, discount, grad_v_tm1=gradient, lam=c.lam, reset=ended
        )
        actor, _ = follow(
            _obgd(c.actor_step_size, c.actor_kappa), step.w, optax.EmptyState(), state.actor,
            td_error=delta, trace=actor_traces.w,
        )  # fmt: skip
        learned = learned._replace(
            actor=actor,
            actor_traces=actor_traces,
            normalizer=normalizer,
            observation=seen.observation,
        )
        return learned, metrics | {"entropy": entropy}

    def _actor_gradient(
        self, state: StreamACState, delta: Float[Array, ""]
    ) -> tuple[PyTree, Float[Array, ""]]:
        """∇(log π(A|S) + τ sign(δ) entropy) in the policy's parameters; and the entropy.

        The sign makes δ times this raise the entropy whether δ is positive or not.
        """

        def objective(actor: PyTree) -> tuple[Float[Array, ""], Float[Array, ""]]:
            policy = self.policy(actor, state.observation)
            entropy = policy.entropy()
            weight = self.config.entropy_bonus * jnp.sign(delta)
            return policy.log_prob(state.action) + weight * entropy, entropy

        return jax.grad(objective, has_aux=True)(state.actor)

    def interrupt(self, state: StreamACState, observation: Shaped[Array, "..."]) -> StreamACState:
        """Continues in another episode, whose first observation this is; traces end here."""
        normalizer, seen = restart_normalizer(state.normalizer, observation)
        return state._replace(
            traces=emptied(state.traces),
            actor_traces=emptied(state.actor_traces),
            normalizer=normalizer,
            observation=seen,
        )

    def report(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of a chunk: TD errors, values, whether h is active, and the mean entropy."""
        return columns(metrics) | {"entropy": metrics["entropy"].mean(axis=1)}

    def diverged(self, metrics: dict[str, np.ndarray]) -> Bool[np.ndarray, "runs times"]:
        """Where TD errors exceed `DIVERGED`, or the entropy is NaN."""
        return super().diverged(metrics) | np.isnan(metrics["entropy"])


def _obgd(step_size: Number, kappa: Number) -> optax.GradientTransformationExtraArgs:
    return optim.ascend(optim.obgd(step_size, kappa))
