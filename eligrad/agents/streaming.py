"""What all streaming agents share: normalised observations, exploration, choice of actions."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eligrad import normalize
from eligrad._base import kernels
from eligrad._base.array_checks import Number
from eligrad.agents.protocol import Transition
from eligrad.rules import Traces


class Normalizer(NamedTuple):
    """The statistics by which observations and rewards are normalised."""

    observations: normalize.RunningStats
    rewards: normalize.RewardScale


class NormalizedTransition(NamedTuple):
    """A `Transition` with reward and observations normalised."""

    reward: Float[Array, ""]
    next_observation: Float[Array, "..."]
    observation: Float[Array, "..."]


def init_normalizer(observation: Shaped[Array, "..."]) -> tuple[Normalizer, Float[Array, "..."]]:
    """Returns statistics of one observation, and that observation normalised."""
    stats = normalize.update(normalize.init_stats(observation.shape), observation)
    seen = normalize.normalize(stats, observation)
    return Normalizer(stats, normalize.init_reward_scale()), seen


def normalize_transition(
    normalizer: Normalizer, transition: Transition, gamma: Number
) -> tuple[Normalizer, NormalizedTransition]:
    """Counts a transition, every observation once, and returns it normalised."""
    shape = jnp.shape(transition.observation)
    # As vectors: compilers for CPUs vectorise the last axis alone, and channels are few.
    normalizer, transition = jax.tree.map(
        lambda x: jnp.ravel(x) if jnp.ndim(x) else x, (normalizer, transition)
    )
    given = kernels.apart((normalizer, transition, jnp.asarray(gamma, jnp.float32)))
    # Else a compiler normalises again for each use of the results.
    normalized = jax.lax.optimization_barrier(_normalize_flat(*given))
    return jax.tree.map(lambda x: x.reshape(shape) if jnp.ndim(x) else x, normalized)


@kernels.one_kernel
def _normalize_flat(
    normalizer: Normalizer, transition: Transition, gamma: Number
) -> tuple[Normalizer, NormalizedTransition]:
    ended = transition.terminated | transition.truncated
    rewards = normalize.update_reward_scale(normalizer.rewards, transition.reward, ended, gamma)
    arrived = normalize.update(normalizer.observations, transition.next_observation)
    next_observation = normalize.normalize(arrived, transition.next_observation)
    # After an end a second observation came in, the first one of the next episode.
    restarted = normalize.update(arrived, transition.observation)
    stats = jax.tree.map(lambda a, b: jnp.where(ended, a, b), restarted, arrived)
    observation = normalize.normalize(stats, transition.observation)
    seen = NormalizedTransition(
        reward=normalize.scale_reward(rewards, transition.reward),
        next_observation=next_observation,
        observation=observation,
    )
    return Normalizer(stats, rewards), seen


def restart_normalizer(
    normalizer: Normalizer, observation: Shaped[Array, "..."]
) -> tuple[Normalizer, Float[Array, "..."]]:
    """The statistics in another episode, and its first observation, counted and normalised."""
    stats = normalize.update(normalizer.observations, observation)
    rewards = normalizer.rewards._replace(trace=jnp.zeros_like(normalizer.rewards.trace))
    return Normalizer(stats, rewards), normalize.normalize(stats, observation)


def emptied(traces: Traces) -> Traces:
    """Traces that are empty from the next step on."""
    return traces._replace(discount=jnp.zeros_like(traces.discount))


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


MOST_COMPARED = 32
"""Actions: beyond this a loop finds the best one, which GPUs run as a kernel of its own."""


def best_action(q: Float[Array, " actions"]) -> Int[Array, ""]:
    """The first best action, as `argmax` has it; the first NaN, if there is one."""
    if q.size > MOST_COMPARED:
        return jnp.argmax(q).astype(jnp.int32)
    best, value = jnp.zeros((), jnp.int32), q[0]
    for action in range(1, q.size):
        better = (q[action] > value) | (jnp.isnan(q[action]) & ~jnp.isnan(value))
        best = jnp.where(better, jnp.int32(action), best)
        value = jnp.where(better, q[action], value)
    return best


def epsilon_greedy(
    key: PRNGKeyArray, q: Float[Array, " actions"], epsilon: Float[Array, ""]
) -> Choice:
    """The first best action, or with probability ε one of all at random.

    A random draw that happens to hit the best action is greedy.
    """
    explore, which = jax.random.uniform(key, (2,), jnp.float32)
    best = best_action(q)
    random = jnp.minimum((which * q.size).astype(jnp.int32), q.size - 1)
    action = jnp.where(explore < epsilon, random, best)
    return Choice(action, action == best)


def epsilon_greedy_probabilities(
    q: Float[Array, " actions"], epsilon: Float[Array, ""]
) -> Float[Array, " actions"]:
    """How likely `epsilon_greedy` is to take each action."""
    best = jnp.arange(q.size, dtype=jnp.int32) == best_action(q)
    return epsilon / q.size + jnp.where(best, 1.0 - epsilon, 0.0)
