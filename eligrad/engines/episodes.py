"""Returns and lengths of episodes, counted in every engine by the two functions here.

`count_step` counts one step inside a compiled program, `count_steps` many steps of NumPy arrays;
both add in the same order, so that they give the same bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped


class Record(NamedTuple):
    """The record of every step for the host, [runs, steps].

    With several environments, step t of environment e is at t · num_envs + e.
    """

    ended: Bool[Array | np.ndarray, "..."]
    """Whether the step ended an episode."""
    episode_return: Float[Array | np.ndarray, "..."]
    """The sum of the episode's raw rewards so far."""
    episode_length: Int[Array | np.ndarray, "..."]
    """Its steps so far."""
    metrics: dict[str, Any]
    """The agent's metrics, [runs, steps] or [runs, rollouts]."""
    info: dict[str, Any] | None = None
    """Means of numbers in the environment's `info`, [runs]; None without any."""


def count_step(
    episode_return: Float[Array, "..."],
    episode_length: Int[Array, "..."],
    reward: Float[Array, "..."],
    ended: Bool[Array, "..."],
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Returns return and length after one more step, and those to continue from: 0 after an end."""
    total, length = episode_return + reward, episode_length + 1
    return (total, length), (jnp.where(ended, 0.0, total), jnp.where(ended, 0, length))


def count_steps(
    episode_return: Float[np.ndarray, "copies"],
    episode_length: Int[np.ndarray, "copies"],
    reward: Float[np.ndarray, "time copies"],
    ended: Bool[np.ndarray, "time copies"],
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The same for many steps of many copies: [time, copies], and [copies] to continue from."""
    total, on_return = _sums(reward, ended, episode_return)
    length, on_length = _sums(np.ones(ended.shape, np.int32), ended, episode_length)
    return (total, length), (on_return, on_length)


def _sums(
    numbers: Shaped[np.ndarray, "time copies"],
    ended: Bool[np.ndarray, "time copies"],
    before: Shaped[np.ndarray, "copies"],
) -> tuple[np.ndarray, np.ndarray]:
    """Sums along each episode, and those of the episodes that have not ended."""
    sums, left = np.empty_like(numbers), np.zeros_like(before)
    for copy in range(len(before)):
        column, out = numbers[:, copy].copy(), sums[:, copy]
        column[0] += before[copy]
        ends = np.flatnonzero(ended[:, copy]) + 1
        for first, last in pairwise([0, *ends, len(column)]):
            np.cumsum(column[first:last], out=out[first:last])
        if not ended[-1, copy]:
            left[copy] = out[-1]
    return sums, left
