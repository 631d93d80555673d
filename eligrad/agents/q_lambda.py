"""Streaming control with eligibility traces: QRC(λ), QC(λ), GQ2(λ), Q(λ), StreamQ, SARSA(λ).

One agent. The rule decides how the value parameters w and the auxiliary θ move ("tdrc" gives
QRC(λ), "tdc" QC(λ), "gtd2" GQ2(λ), "td" Watkins' Q(λ)); the target, what is bootstrapped from: the
best action ("max"), the next one taken ("sarsa"), or the policy's mean ("expected"); the
optimiser, how far they move ("obgd" with the rule "td" gives StreamQ, "trace-adam" Adaptive Q(λ)).
`registry.py` names them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from eligrad import normalize, optim, rules
from eligrad._base.array_checks import Number
from eligrad.agents import auxiliary
from eligrad.agents.critic import Critic, columns
from eligrad.agents.network import Network, check_network, default_network
from eligrad.agents.policies import over_batch
from eligrad.agents.protocol import Inspection, Metrics, StreamingAgent, Transition
from eligrad.agents.settings import STATIC, QLambdaConfig
from eligrad.agents.streaming import (
    Choice,
    NormalizedTransition,
    Normalizer,
    best_action,
    emptied,
    epsilon_greedy,
    epsilon_greedy_probabilities,
    init_normalizer,
    linear_epsilon,
    normalize_transition,
    restart_normalizer,
)
from eligrad.envs.spaces import Box, Discrete, Space

_LAST_STEP = np.iinfo(np.int32).max

jax.tree_util.register_dataclass(QLambdaConfig)


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
    def _critic(self) -> Critic:
        c, rule = self.config, rules.get(self.config.rule)
        if self.optimizer is None and optim.uses_trace(c.optimizer):
            # GTD2 keeps no trace of w; this optimiser needs one.
            rule = dataclasses.replace(rule, traces_w=True)
        optimizers = (self._optimizer(size) for size in (c.step_size, c.h_scale * c.step_size))
        return Critic(self.network, rule, c, c.lam, *optimizers)

    def _optimizer(self, step_size: Number) -> optax.GradientTransformationExtraArgs:
        c = self.config
        if self.optimizer is not None:
            return optim.ascend(self.optimizer(step_size))
        return optim.ascend(
            optim.make(c.optimizer, optim.Settings(step_size, c.kappa, c.gamma * c.lam))
        )

    def init(self, key: PRNGKeyArray, observation: Array) -> QLambdaState:
        """The state at the first observation, before the first action."""
        self.config.check()
        normalizer, seen = init_normalizer(observation)
        return QLambdaState(
            **self._critic.init(key, self.config.sparsity, seen),
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
        normalizer, seen = restart_normalizer(state.normalizer, observation)
        return state._replace(
            traces=emptied(state.traces),
            normalizer=normalizer,
            observation=seen,
            planned=jnp.zeros_like(state.planned),
        )

    def greedy_action(self, state: QLambdaState, observation: Array) -> Int[Array, ""]:
        """The best action in a raw observation; the statistics are used and not changed."""
        return best_action(self._values_of(state, observation))

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
        c, critic = self.config, self._critic
        ended = transition.terminated | transition.truncated
        normalizer, seen = normalize_transition(state.normalizer, transition, c.gamma)
        before = critic.evaluate(state.w, state.observation)
        after = critic.evaluate(state.w, seen.next_observation)
        next_step = jnp.minimum(state.step, _LAST_STEP - 1) + 1
        following = epsilon_greedy(key, after.values, self.epsilon(next_step))
        rho, reset = jnp.ones((), jnp.float32), ended
        if c.target == "max":
            rho, reset = rules.trace_cut(c.trace_cut, state.greedy, ended)
        gradient = None
        if self.auxiliary_loss is not None:
            gradient = jax.grad(self.auxiliary_loss)(state.w, state.observation, seen)
        state, metrics = critic.learn(
            state,
            (before, _one_hot(state.action, before.values)),
            (after, self._target_weights(after.values, following.action, next_step)),
            seen.reward,
            jnp.where(transition.terminated, 0.0, jnp.asarray(c.gamma, jnp.float32)),
            values="action",
            reset=reset,
            rho=rho,
            further_gradient=gradient,
        )
        state = state._replace(
            normalizer=normalizer, observation=seen.observation, planned=~ended, step=next_step
        )
        if c.target == "sarsa":
            state = state._replace(action=following.action, greedy=following.greedy)
        return state, metrics | {"epsilon": self.epsilon(next_step)}

    def report(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The columns of a chunk: TD errors, values, whether h is active, and ε at its end."""
        return columns(metrics) | {"epsilon": metrics["epsilon"][:, -1]}

    def remarks(self, columns: dict[str, np.ndarray]) -> list[str]:
        """Whether the gradient correction was still active in the end."""
        return auxiliary.remarks(self.config, columns)

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Raises ValueError for continuous actions, and for a network that does not fit."""
        actions = _number_of_actions(action_space)
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
            return _one_hot(best_action(q_t), q_t)
        if self.config.target == "sarsa":
            return _one_hot(next_action, q_t)
        return epsilon_greedy_probabilities(q_t, self.epsilon(step))


def _one_hot(action: Int[Array, ""], q: Float[Array, " actions"]) -> Float[Array, " actions"]:
    return (jnp.arange(q.size, dtype=jnp.int32) == action).astype(q.dtype)


def _number_of_actions(action_space: Space) -> int:
    """Returns the number of actions; raises ValueError for continuous ones, or several at once."""
    if isinstance(action_space, Discrete):
        return action_space.n
    kind = "continuous actions" if isinstance(action_space, Box) else "several choices at once"
    raise ValueError(
        f"it has {kind}, of shape {action_space.shape}; this agent chooses among finitely "
        "many (a Discrete action space). stream-ac, gradient-ac, ppo and gradient-ppo take such "
        "actions"
    )


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
    actions = _number_of_actions(action_space)
    if network is None:
        network = default_network(observation_space.shape, actions)
    return QLambda(config, network)
