"""The interface between agents and engines: everything that an engine uses of an agent.

A streaming agent learns from each transition (`update`), a rollout agent from many at once
(`learn`). Both are pure functions over one pytree of a state, and frozen dataclasses whose numbers
are pytree leaves (`jax.tree_util.register_dataclass`), so that engines run many of them in one
program. A new agent subclasses one of the two classes here and is registered by
`eligrad.agents.register`; no engine, command or file format changes.

Metrics are a dict of scalars. Their names become columns of the run's metrics, and appear in the
report, in `eligrad watch` and in TensorBoard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

DIVERGED = 1e6
"""A run has diverged at its first TD error beyond this, or that is not a number. Rewards are scaled
to unit variance, so TD errors are usually of order 1. Parameters that are not finite show
here in the same step: every value is NaN from then on."""

Metrics = dict[str, Float[Array, ""]]
"""Scalars by name."""


class Transition(NamedTuple):
    """What the environment returns for an action, before any normalisation."""

    reward: Any
    """A float scalar."""
    terminated: Any
    """Whether the episode ended by the rules of the task."""
    truncated: Any
    """Whether it was cut off, by a time limit for example."""
    next_observation: Any
    """The observation that the action led to: bootstrap from this one."""
    observation: Any
    """The observation to act on next: after an end, the first one of the next episode."""

    @classmethod
    def of(cls, reached: Any) -> Transition:
        """The transition fields of an environment's result, which may have others."""
        return cls(*(getattr(reached, name) for name in cls._fields))


class Inspection(NamedTuple):
    """An agent's estimates along an episode of T steps, in units of its scaled rewards."""

    values: Float[np.ndarray, "steps"]
    """q(s_t, a_t) of the action taken, or v(s_t)."""
    next_values: Float[np.ndarray, "steps"]
    """The value of s_{t+1} that the agent bootstraps from, as if the episode went on."""
    h: Float[np.ndarray, "steps"] | None
    """h(s_t, a_t) or h(s_t) of a gradient rule; None without one."""
    rewards: Float[np.ndarray, "steps"]
    """The rewards as the agent scales them."""
    discount: float
    of_actions: bool
    """Whether values and h are those of actions."""


class Agent(ABC):
    """Base of both kinds of agents."""

    config: Any
    """The settings: a frozen dataclass with a method `check`."""
    progress_metrics: ClassVar[tuple[str, ...]] = ()
    """Columns of the metrics that the progress bar shows."""

    @abstractmethod
    def init(self, key: PRNGKeyArray, observation: Any) -> Any:
        """The state before the first action."""

    @abstractmethod
    def interrupt(self, state: Any, observation: Any) -> Any:
        """Continues in another episode, whose first observation this is."""

    @abstractmethod
    def greedy_action(self, state: Any, observation: Any) -> Array:
        """The best action in one raw observation; the state does not change: for evaluation."""

    @abstractmethod
    def sampled_action(self, state: Any, observation: Any, key: PRNGKeyArray) -> Array:
        """An action as in training, in one raw observation; the state does not change."""

    def check_spaces(  # noqa: B027 (an agent that fits everywhere checks nothing)
        self, observation_space: Any, action_space: Any
    ) -> None:
        """Raises ValueError if the agent cannot act in these spaces."""

    def inspect(
        self,
        state: Any,
        observations: Shaped[np.ndarray, "moments ..."],
        actions: Shaped[np.ndarray, "moments ..."],
        rewards: Float[np.ndarray, "steps"],
    ) -> Inspection | None:
        """Returns values, h and scaled rewards along an episode, for a video of it, or None.

        Args:
            state: of one agent; it does not change.
            observations: the raw ones, from the first to the one after the last step.
            actions: those taken, and one more, in the last observation.
            rewards: as the environment gave them.
        """
        del state, observations, actions, rewards

    def report(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns columns [runs] from the metrics of a chunk [runs, steps or rollouts]: means."""
        with np.errstate(over="ignore", invalid="ignore"):
            return {name: values.mean(axis=1) for name, values in metrics.items()}

    def remarks(self, columns: dict[str, np.ndarray]) -> list[str]:
        """Returns remarks for the summary of a run that ends with these columns."""
        del columns
        return []

    def diverged(self, metrics: dict[str, np.ndarray]) -> Bool[np.ndarray, "runs times"]:
        """Where runs diverge: `td_error` beyond `DIVERGED`, or without one any metric NaN."""
        if "td_error" in metrics:
            return ~(np.abs(metrics["td_error"]) <= DIVERGED)
        return np.logical_or.reduce([np.isnan(values) for values in metrics.values()])


class StreamingAgent(Agent):
    """An agent that learns from each transition as it comes."""

    @abstractmethod
    def act(self, state: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Chooses an action in the current observation, and remembers it.

        Engines may call it again in the same step, with the same key: it then returns the same.
        """

    @abstractmethod
    def update(self, state: Any, transition: Transition, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """Learns from the transition; the metrics include `td_error`."""


class Rollout(NamedTuple):
    """The transitions of a rollout, normalised; leading axes [time, envs]."""

    observation: Float[Array, "time envs ..."]
    action: Shaped[Array, "time envs ..."]
    """As the policy sampled it."""
    reward: Float[Array, "time envs"]
    terminated: Bool[Array, "time envs"]
    truncated: Bool[Array, "time envs"]
    next_observation: Float[Array, "time envs ..."]
    """The observation that the action led to: bootstrapped from."""


class RolloutAgent(Agent):
    """An agent that learns from rollouts of `config.rollout` steps in `config.num_envs` copies.

    Its state is a NamedTuple with at least the fields `normalizer`, running statistics with a
    reward trace for each copy, and `observation`, the current observations, normalised.
    `config.gamma` is the discount.
    """

    @abstractmethod
    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """The random numbers for `shape` actions."""

    @abstractmethod
    def actor(self, state: Any) -> Any:
        """The part of the state that `act` needs."""

    @abstractmethod
    def act(
        self, actor: Any, observation: Float[Array, "envs ..."], noise: Shaped[Array, "envs ..."]
    ) -> tuple[Array, Array]:
        """Actions in all copies: as the policy sampled them, and as the environment takes them."""

    @abstractmethod
    def normalize(self, normalizer: Any, transition: Transition) -> tuple[Any, Any]:
        """Updates the statistics with a transition; returns them and it, normalised."""

    @abstractmethod
    def learn(self, state: Any, rollout: Rollout, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """Learns from a rollout; the caller updates `normalizer` and `observation`."""


def observation_struct(agent: Agent, space: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the observations that `agent.init` takes in an environment."""
    copies = (agent.config.num_envs,) if isinstance(agent, RolloutAgent) else ()
    return jax.ShapeDtypeStruct((*copies, *space.shape), jnp.dtype(space.dtype))
