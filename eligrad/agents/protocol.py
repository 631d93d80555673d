"""The contract between agents and engines: all that an engine knows of an agent.

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
to unit variance, so TD errors of a sound run are of order 1. Parameters that are not finite show
here in the same step: every value is NaN from then on."""

Metrics = dict[str, Float[Array, ""]]
"""Scalars by name."""


class Transition(NamedTuple):
    """What the environment answers to an action, before any normalisation."""

    reward: Any
    """A float scalar."""
    terminated: Any
    """Whether the episode ended by the task's own rules."""
    truncated: Any
    """Whether it was cut off from outside."""
    next_observation: Any
    """Where the action led: bootstrap from this one."""
    observation: Any
    """Where to act next: the same, or the first observation of the next episode after an end."""


class Inspection(NamedTuple):
    """What an agent makes of a recorded episode of T steps, in units of its scaled rewards."""

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
    """What both kinds of agents have in common."""

    config: Any
    """The settings: a frozen dataclass with a method `check`."""
    progress_metrics: ClassVar[tuple[str, ...]] = ()
    """Columns of the metrics that the progress bar shows."""

    @abstractmethod
    def init(self, key: PRNGKeyArray, observation: Any) -> Any:
        """The state before the first action."""

    @abstractmethod
    def interrupt(self, state: Any, observation: Any) -> Any:
        """Goes on in another episode, of which this is the first observation."""

    @abstractmethod
    def greedy_action(self, state: Any, observation: Any) -> Array:
        """The best action in one raw observation; the state does not change: for evaluation."""

    @abstractmethod
    def sampled_action(self, state: Any, observation: Any, key: PRNGKeyArray) -> Array:
        """An action as in training, in one raw observation; the state does not change."""

    def check_spaces(  # noqa: B027 (an agent that fits everywhere checks nothing)
        self, observation_space: Any, action_space: Any
    ) -> None:
        """Raises ValueError where the agent cannot act in such spaces, before work starts."""

    def inspect(
        self,
        state: Any,
        observations: Shaped[np.ndarray, "moments ..."],
        actions: Shaped[np.ndarray, "moments ..."],
        rewards: Float[np.ndarray, "steps"],
    ) -> Inspection | None:
        """Values, h and scaled rewards along an episode, for a video of it; None: not known.

        Args:
            state: of one agent; nothing of it changes.
            observations: the raw ones, from the first to the one after the last step.
            actions: those taken, and one more, in the last observation.
            rewards: as the environment gave them.
        """
        del state, observations, actions, rewards

    def report(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """From metrics of a chunk, [runs, steps or rollouts], to its columns, [runs]: the means."""
        with np.errstate(over="ignore", invalid="ignore"):
            return {name: values.mean(axis=1) for name, values in metrics.items()}

    def remarks(self, columns: dict[str, np.ndarray]) -> list[str]:
        """What a user should know of a run that ends with these columns; goes to its summary."""
        del columns
        return []

    def diverged(self, metrics: dict[str, np.ndarray]) -> Bool[np.ndarray, "runs times"]:
        """Where runs show divergence: `td_error` beyond `DIVERGED`; without one, any metric NaN."""
        if "td_error" in metrics:
            return ~(np.abs(metrics["td_error"]) <= DIVERGED)
        return np.logical_or.reduce([np.isnan(values) for values in metrics.values()])


class StreamingAgent(Agent):
    """An agent that learns from each transition as it comes."""

    @abstractmethod
    def act(self, state: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Chooses an action in the present observation, and remembers it."""

    @abstractmethod
    def update(self, state: Any, transition: Transition, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """Learns from what the chosen action led to; `td_error` belongs to the metrics."""


class Rollout(NamedTuple):
    """What was done and seen, normalised as it was seen then: leading axes [time, envs]."""

    observation: Float[Array, "time envs ..."]
    action: Shaped[Array, "time envs ..."]
    """As the policy sampled it."""
    reward: Float[Array, "time envs"]
    terminated: Bool[Array, "time envs"]
    truncated: Bool[Array, "time envs"]
    next_observation: Float[Array, "time envs ..."]
    """Where the action led: bootstrapped from."""


class RolloutAgent(Agent):
    """An agent that learns from rollouts of `config.rollout` steps in `config.num_envs` copies.

    Its state is a NamedTuple with at least the fields `normalizer`, running statistics with a
    reward trace for each copy, and `observation`, the present observations, normalised.
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
        """Counts what all copies answered; returns the statistics, and a `NormalizedTransition`."""

    @abstractmethod
    def learn(self, state: Any, rollout: Rollout, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """Learns from a rollout; the caller renews `normalizer` and `observation`."""


def observation_struct(agent: Agent, space: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the observations that `agent.init` takes in an environment."""
    copies = (agent.config.num_envs,) if isinstance(agent, RolloutAgent) else ()
    return jax.ShapeDtypeStruct((*copies, *space.shape), jnp.dtype(space.dtype))
