"""Running statistics, and the normalisation of observations and rewards with them.

One concept serves every agent: `RunningStats`, a mean and a variance that count each sample
exactly once. Streaming agents feed it one observation at a time, PPO a batch at a time:

    stats = init_stats(observation.shape)
    stats = update(stats, observation)            # first the update, then the normalisation
    observation = normalize(stats, observation)

    scale = init_reward_scale()
    scale = update_reward_scale(scale, reward, done, gamma)
    reward = scale_reward(scale, reward)

Evaluation freezes the statistics by not calling `update`. The states are pytrees of arrays, to be
carried through a scan and saved in a checkpoint.

A float32 mean stops moving after some million samples: a sample's share of it is then smaller
than its last digit. Here each of mean and variance is kept as the unevaluated sum of two float32
numbers, the second holding what the first cannot. That costs a few additions per entry, and stays
within 1e-5 of float64 (in fact 1e-6) over millions of samples at float32 speed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, Shaped

EPSILON = 1e-8
"""Added to a variance before its root is taken."""

_MAX_COUNT = np.iinfo(np.int32).max


class RunningStats(NamedTuple):
    """Mean and variance of all samples seen, each the sum of a number and its rest."""

    samples: Int32[Array, ""]
    """Samples seen; stays at 2^31 - 1 from there on, after which old samples slowly fade."""
    mean: Float32[Array, "*shape"]
    mean_rest: Float32[Array, "*shape"]
    population_variance: Float32[Array, "*shape"]
    """Squared deviations over n; `variance` gives the sample variance."""
    population_variance_rest: Float32[Array, "*shape"]


class RewardScale(NamedTuple):
    """The deviation of a discounted sum of rewards, by which rewards are divided."""

    trace: Float32[Array, "*environments"]
    """The discounted sum of the rewards so far, one per environment."""
    stats: RunningStats


def init_stats(shape: tuple[int, ...]) -> RunningStats:
    """Returns statistics of no samples yet."""
    zeros = jnp.zeros(shape, jnp.float32)
    return RunningStats(jnp.zeros((), jnp.int32), zeros, zeros, zeros, zeros)


def update(stats: RunningStats, sample: Shaped[Array, "*shape"]) -> RunningStats:
    """The statistics with one more sample."""
    return _merge(stats, deviation=_centre(stats, sample), variance=None, size=1)


def update_batch(stats: RunningStats, samples: Shaped[Array, "batch *shape"]) -> RunningStats:
    """The statistics with a batch of samples, all of one weight (Chan et al., 1979)."""
    # Centred on what is known already, so that a mean far from zero costs no digits; the second
    # mean takes back the rounding error of the first.
    centred = _centre(stats, samples)
    guess = jnp.mean(centred, axis=0)
    residual = centred - guess[None]
    correction = jnp.mean(residual, axis=0)
    variance = jnp.mean(jnp.square(residual), axis=0) - jnp.square(correction)
    return _merge(
        stats,
        deviation=guess + correction,
        variance=jnp.maximum(variance, 0.0),
        size=samples.shape[0],
    )


def variance(stats: RunningStats) -> Float32[Array, "*shape"]:
    """The sample variance, of divisor n - 1; 1 while fewer than two samples were seen."""
    degrees_of_freedom = jnp.maximum(stats.samples - 1, 1).astype(jnp.float32)
    bessel = stats.samples.astype(jnp.float32) / degrees_of_freedom
    return jnp.where(stats.samples < 2, 1.0, stats.population_variance * bessel)


def normalize(
    stats: RunningStats, value: Shaped[Array, "*batch_and_shape"], clip: float | None = None
) -> Float32[Array, "*batch_and_shape"]:
    """`(value - mean) / sqrt(variance + 1e-8)`, kept within ±`clip` where that is given.

    `value` may have leading batch axes. The streaming agents do not clip; PPO clips at 10.
    """
    if clip is not None and not clip > 0:
        raise ValueError(f"clip is {clip}; a positive number or None (no clipping) is accepted")
    deviation = jnp.sqrt(variance(stats) + EPSILON)
    normalized = _centre(stats, value) / _expand(deviation, jnp.ndim(value))
    return normalized if clip is None else jnp.clip(normalized, -clip, clip)


def init_reward_scale(environments: tuple[int, ...] = ()) -> RewardScale:
    """Returns the scale before the first reward; `environments` is the shape of the rewards."""
    return RewardScale(jnp.zeros(environments, jnp.float32), init_stats(()))


def update_reward_scale(
    scale: RewardScale,
    reward: Float[Array, "*environments"],
    done: Bool[Array, "*environments"],
    gamma: float | Float[Array, ""],
) -> RewardScale:
    """Returns the scale after one more reward: statistics of `u = gamma u (1 - done) + r`.

    Args:
        scale: the scale before it.
        reward: the reward, one for each environment.
        done: whether this transition ended its episode, by termination or truncation.
        gamma: the discount.
    """
    carried = jnp.where(done, 0.0, gamma * scale.trace)
    trace = carried + reward.astype(jnp.float32)
    if trace.ndim == 0:
        stats = update(scale.stats, trace)
    else:
        stats = update_batch(scale.stats, trace.reshape(-1))
    return RewardScale(trace, stats)


def scale_reward(
    scale: RewardScale, reward: Float[Array, "*environments"]
) -> Float32[Array, "*environments"]:
    """Divides the reward by the standard deviation of the trace; the mean is not subtracted."""
    return reward.astype(jnp.float32) / jnp.sqrt(variance(scale.stats) + EPSILON)


def _centre(stats: RunningStats, value: Array) -> Array:
    """`value - mean`; the difference to the leading part comes first and is nearly exact."""
    rank = jnp.ndim(value)
    return (value.astype(jnp.float32) - _expand(stats.mean, rank)) - _expand(stats.mean_rest, rank)


def _expand(array: Array, rank: int) -> Array:
    """Leading axes of size 1, up to `rank` axes."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _merge(
    stats: RunningStats, deviation: Array, variance: Array | None, size: int
) -> RunningStats:
    """Adds `size` samples, given their mean less the old mean, and their population variance.

    Both statistics are averages and move by `weight` of their distance to the new value, so that
    every rounding error made in a step fades like a sample does.
    """
    count = jnp.minimum(stats.samples, _MAX_COUNT - size) + size
    weight = size / count.astype(jnp.float32)
    spread = (1.0 - weight) * deviation * deviation
    if variance is not None:
        spread = spread + variance
    excess = (spread - stats.population_variance) - stats.population_variance_rest
    return RunningStats(
        count,
        *_add(stats.mean, stats.mean_rest, weight * deviation),
        *_add(stats.population_variance, stats.population_variance_rest, weight * excess),
    )


def _add(number: Array, rest: Array, step: Array) -> tuple[Array, Array]:
    """`(number + rest) + step` as a number and its rest (Dekker's fast two-sum).

    The rest is exact where the step is the smaller part, and otherwise off by no more than the
    step's own rounding.
    """
    step = rest + step
    total = number + step
    return total, step - (total - number)
