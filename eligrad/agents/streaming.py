"""What all streaming agents do alike: see normalised observations, explore, choose an action."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eligrad import normalize
from eligrad._number import Number


class Experience(NamedTuple):
    """What the world answers to an action, before any normalisation."""

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


class Signals(NamedTuple):
    """What an update tells of itself."""

    td_error: Float[Array, ""]
    value: Float[Array, ""]
    """Estimate of the state and action that were left."""
    auxiliary: Float[Array, ""]
    """h of the same pair; 0 for an agent without h."""


class Perception(NamedTuple):
    """The statistics by which observations and rewards are normalised."""

    observations: normalize.RunningStats
    rewards: normalize.RewardScale


class Seen(NamedTuple):
    """An `Experience` as the agent sees it."""

    reward: Float[Array, ""]
    next_observation: Float[Array, "..."]
    observation: Float[Array, "..."]


def first_sight(observation: Shaped[Array, "..."]) -> tuple[Perception, Float[Array, "..."]]:
    """Statistics that have seen one observation, and that observation normalised."""
    stats = normalize.update(normalize.init_stats(observation.shape), observation)
    seen = normalize.normalize(stats, observation)
    return Perception(stats, normalize.init_reward_scale()), seen


def perceive(
    perception: Perception, experience: Experience, gamma: Number
) -> tuple[Perception, Seen]:
    """Takes in what happened: every observation counts once, before it is normalised."""
    ended = experience.terminated | experience.truncated
    rewards = normalize.update_reward_scale(perception.rewards, experience.reward, ended, gamma)
    arrived = normalize.update(perception.observations, experience.next_observation)
    next_observation = normalize.normalize(arrived, experience.next_observation)
    # After an end a second observation came in, the first one of the next episode.
    restarted = normalize.update(arrived, experience.observation)
    stats = jax.tree.map(lambda a, b: jnp.where(ended, a, b), restarted, arrived)
    observation = normalize.normalize(stats, experience.observation)
    seen = Seen(
        reward=normalize.scale_reward(rewards, experience.reward),
        next_observation=next_observation,
        observation=observation,
    )
    return Perception(stats, rewards), seen


def linear_epsilon(
    step: Int[Array, ""], start: Number, end: Number, over_steps: Number
) -> Float[Array, ""]:
    """Exploration rate at a step: linear from `start` to `end`, then constant."""
    progress = jnp.clip(step.astype(jnp.float32) / jnp.maximum(over_steps, 1.0), 0.0, 1.0)
    return start + (end - start) * progress


class Choice(NamedTuple):
    """An action, and whether it is the greedy one."""

    action: Int[Array, ""]
    greedy: Bool[Array, ""]


def epsilon_greedy(
    key: PRNGKeyArray, q: Float[Array, " actions"], epsilon: Float[Array, ""]
) -> Choice:
    """The first best action, or with probability ε one of all at random.

    A random draw that happens to hit the best action is greedy.
    """
    explore, which = jax.random.uniform(key, (2,), jnp.float32)
    best = jnp.argmax(q).astype(jnp.int32)
    random = jnp.minimum((which * q.size).astype(jnp.int32), q.size - 1)
    action = jnp.where(explore < epsilon, random, best)
    return Choice(action, action == best)


def epsilon_greedy_probabilities(
    q: Float[Array, " actions"], epsilon: Float[Array, ""]
) -> Float[Array, " actions"]:
    """How likely `epsilon_greedy` is to take each action."""
    best = jnp.arange(q.size, dtype=jnp.int32) == jnp.argmax(q).astype(jnp.int32)
    return epsilon / q.size + jnp.where(best, 1.0 - epsilon, 0.0)


@runtime_checkable
class StreamingAgent(Protocol):
    """The contract between agents and engines: pure functions over one pytree of a state."""

    def init(self, key: PRNGKeyArray, observation: Any) -> Any:
        """The state before the first action."""
        ...

    def act(self, state: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Chooses an action in the present observation, and remembers it."""
        ...

    def update(self, state: Any, experience: Experience, key: PRNGKeyArray) -> tuple[Any, Signals]:
        """Learns from what the chosen action led to."""
        ...

    def interrupt(self, state: Any, observation: Any) -> Any:
        """Goes on in another episode, of which this is the first observation."""
        ...

    def greedy_action(self, state: Any, observation: Any) -> Array:
        """The best action in a raw observation, with statistics as they are: for evaluation."""
        ...
