"""What `ActorCritic.normalize` does, for all runs at once and in NumPy's double precision.

Between two steps of a simulator a call of a compiled program is expensive (see `numpy_program`),
and doubles need no compensated sums as float32 does. Observations and rewards are one row
here: the last entry is the reward, and its statistics are those of its discounted trace.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from eligrad import normalize
from eligrad.agents.ppo import OBSERVATION_CLIP, REWARD_CLIP
from eligrad.agents.streaming import Normalizer
from eligrad.envs.host import HostTransition

_Rows = Float32[np.ndarray, "runs envs entries"]
_MOST_SAMPLES = np.iinfo(np.int32).max


class HostNormalizer:
    """The statistics of all runs, [runs, entries], while a rollout lasts."""

    def __init__(self, normalizer: Normalizer, gamma: np.ndarray) -> None:
        observations, rewards = normalizer
        runs, envs = rewards.trace.shape
        self._shape = observations.mean.shape[1:]
        size = int(np.prod(self._shape, dtype=int))
        stats = ((observations, size), (rewards.stats, 1))
        self._samples = np.concatenate(
            [np.repeat(np.asarray(s.samples, float)[:, None], n, axis=1) for s, n in stats], axis=1
        )
        self._mean = np.concatenate([_double(s.mean, s.mean_rest) for s, _ in stats], axis=1)
        variance = [_double(s.population_variance, s.population_variance_rest) for s, _ in stats]
        self._squares = np.concatenate(variance, axis=1) * self._samples
        self._young = True
        self._trace = np.array(rewards.trace, float).reshape(-1)
        self._gamma = np.repeat(np.asarray(gamma, float), envs)
        self._limit = np.append(np.full(size, OBSERVATION_CLIP), REWARD_CLIP)
        self._least = -self._limit
        self._row = np.empty((runs, envs, size + 1))
        self._copies = self._row.reshape(runs * envs, size + 1)

    def normalize(self, reached: HostTransition, row: _Rows) -> _Rows | None:
        """Updates the statistics with a transition, and writes observation and reward to `row`.

        Where an episode ended, returns the same with the observations that the actions led to.
        """
        ended = reached.terminated | reached.truncated
        some_ended = np.count_nonzero(ended) > 0
        self._trace *= self._gamma
        if some_ended:
            self._trace[ended] = 0.0
        self._trace += reached.reward
        self._copies[:, :-1] = reached.observation.reshape(len(ended), -1)
        self._copies[:, -1] = self._trace
        deviation = self._count()
        self._write(row, reached.reward, deviation)
        if not some_ended:
            return None
        self._copies[:, :-1] = reached.next_observation.reshape(len(ended), -1)
        following = np.empty_like(row)
        self._write(following, reached.reward, deviation)
        # The clip would turn an infinity into a number, and the fault would not be seen.
        following[~np.isfinite(self._row)] = np.nan
        return following

    def _count(self) -> np.ndarray:
        """Adds the row to the statistics; returns its deviation, 1 of a single sample."""
        centred = self._row - self._mean[:, None]
        envs = centred.shape[1]
        self._samples += envs
        step = centred[:, 0] if envs == 1 else centred.mean(axis=1)
        moved = step * (envs / self._samples)
        self._mean += moved
        squares = (step - moved) * step
        if envs > 1:
            squares += centred.var(axis=1)
            squares *= envs
        self._squares += squares
        variance = self._squares / (self._samples - 1.0)
        if self._young:
            variance[self._samples < 2.0] = 1.0
            self._young = bool((self._samples < 2.0).any())
        variance += normalize.EPSILON
        return np.sqrt(variance)[:, None]

    def _write(self, out: _Rows, reward: np.ndarray, deviation: np.ndarray) -> None:
        """The row within its limits; rewards are not centred. NaN stays NaN."""
        row = self._row - self._mean[:, None]
        row[..., -1] = reward.reshape(row.shape[:2])
        row /= deviation
        np.maximum(row, self._least, out=row)
        np.minimum(row, self._limit, out=row)
        out[...] = row

    def observations(
        self, rows: Float32[np.ndarray, "*axes entries"]
    ) -> Float32[np.ndarray, "*axes ..."]:
        """Those of many rows."""
        return rows[..., :-1].reshape(*rows.shape[:-1], *self._shape)

    def state(self) -> Normalizer:
        """The statistics as an agent has them."""
        samples = np.minimum(self._samples, _MOST_SAMPLES).astype(np.int32)
        variance = self._squares / self._samples
        observations, rewards = (
            normalize.RunningStats(
                jnp.asarray(samples[:, place]),
                *_single(self._mean[:, part].reshape(-1, *shape)),
                *_single(variance[:, part].reshape(-1, *shape)),
            )
            for place, part, shape in ((0, slice(0, -1), self._shape), (-1, -1, ()))
        )
        trace = self._trace.reshape(self._row.shape[:2]).astype(np.float32)
        return Normalizer(observations, normalize.RewardScale(jnp.asarray(trace), rewards))


def _double(number: Array, rest: Array) -> np.ndarray:
    """A number and its rest as one, [runs, entries]."""
    total = np.asarray(number, float) + np.asarray(rest, float)
    return total.reshape(len(total), -1)


def _single(number: np.ndarray) -> tuple[Array, Array]:
    """The inverse of `_double`."""
    leading = number.astype(np.float32)
    return jnp.asarray(leading), jnp.asarray((number - leading).astype(np.float32))
