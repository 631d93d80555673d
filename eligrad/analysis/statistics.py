"""Statistics of the scores of many runs on several tasks, with confidence intervals.

Scores are given by task: for each environment's name, an array with one score for each run. Scores
of different environments are brought to one scale by `normalise` before they are put together; only
`probability_of_improvement` needs no common scale. Intervals: see `eligrad.analysis.bootstrap`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy import stats

from eligrad._base.errors import UnknownName
from eligrad.analysis.bootstrap import STANDARD, Bootstrap, Estimate, Samples, Values
from eligrad.analysis.frames import Scores, Table, require

Bounds = Mapping[str, tuple[float, float]]
"""For each environment, the scores that become 0 and 1."""


def mean(scores: Scores, bootstrap: Bootstrap = STANDARD) -> Estimate:
    """The mean over tasks of the mean over runs."""
    return bootstrap.estimate(_mean, _samples(scores))


def difference(a: Scores, b: Scores, bootstrap: Bootstrap = STANDARD) -> Estimate:
    """The mean of `a` less that of `b`; means as in `mean`."""
    ours, theirs = _same_tasks(a, b)

    def less(samples: Samples) -> Values:
        return _mean(samples[: len(ours)]) - _mean(samples[len(ours) :])

    return bootstrap.estimate(less, [*ours, *theirs])


def iqm(scores: Scores, bootstrap: Bootstrap = STANDARD) -> Estimate:
    """Interquartile mean: the mean of the runs of all tasks but the best and the worst quarter.

    A quarter is rounded down to whole runs. Robust against single runs, unlike the mean, and less
    wasteful than the median.
    """

    def trimmed(samples: Samples) -> Values:
        return stats.trim_mean(np.concatenate(samples, axis=-1), 0.25, axis=-1)

    return bootstrap.estimate(trimmed, _samples(scores))


def optimality_gap(scores: Scores, goal: float = 1.0, bootstrap: Bootstrap = STANDARD) -> Estimate:
    """By how much runs fall short of `goal` on average; beyond it nothing more is gained."""

    def gap(samples: Samples) -> Values:
        return goal - _over_tasks([np.minimum(sample, goal).mean(axis=-1) for sample in samples])

    return bootstrap.estimate(gap, _samples(scores))


def probability_of_improvement(a: Scores, b: Scores, bootstrap: Bootstrap = STANDARD) -> Estimate:
    """P(X > Y) + P(X = Y) / 2 of a run X of `a` and a run Y of `b`, averaged over the tasks.

    Where on every task all runs of one side beat all of the other, resampling knows no spread. The
    limit is then that of the disjoint pairs of runs, min(n, m) on each task, each an independent
    trial that was won: won all, which has the probability pᴺ, less than (1 - level) / 2 below the
    limit. Close to 0 and 1 the interval is too narrow also without that.
    """
    ours, theirs = _same_tasks(a, b)

    def probability(samples: Samples) -> Values:
        pairs = zip(samples[: len(ours)], samples[len(ours) :], strict=True)
        return _over_tasks([share_of_wins(x, y) for x, y in pairs])

    shares = np.array([share_of_wins(*pair) for pair in zip(ours, theirs, strict=True)])
    if np.isin(shares, (0.0, 1.0)).all():
        pairs = len(a) * min(sample.size for sample in [*ours, *theirs])
        limit = ((1 - bootstrap.level) / 2) ** (1 / pairs)
        won = float(shares.mean())
        return Estimate(won, won * limit, 1 - (1 - won) * limit)
    return bootstrap.estimate(probability, [*ours, *theirs])


@dataclasses.dataclass(frozen=True)
class Profile:
    """For each threshold `at`, the share of runs above it, with the interval of each by itself."""

    at: Float[np.ndarray, "points"]
    share: Float[np.ndarray, "points"]
    low: Float[np.ndarray, "points"]
    high: Float[np.ndarray, "points"]


def performance_profile(
    scores: Scores, at: Float[np.ndarray, "points"], bootstrap: Bootstrap = STANDARD
) -> Profile:
    """The share of runs that score above τ, averaged over the tasks, for each τ in `at`."""

    def shares(samples: Samples) -> np.ndarray:
        # One threshold at a time: all at once would need as many times the memory.
        above = [_over_tasks([(sample > tau).mean(axis=-1) for sample in samples]) for tau in at]
        return np.stack(above, axis=-1)

    samples = _samples(scores)
    low, high = bootstrap.interval(shares, samples)
    return Profile(at, shares(samples), np.asarray(low), np.asarray(high))


def normalise(scores: Scores, bounds: Bounds) -> Scores:
    """Scores on the scale on which the bounds of their environment are 0 and 1."""
    for env in scores:
        if env not in bounds:
            raise UnknownName("environment, without bounds:", env, bounds)
        low, high = bounds[env]
        if not high > low:
            raise ValueError(f"bounds of {env} are {low} and {high}; a low and a high are accepted")
    return {
        env: (values - bounds[env][0]) / (bounds[env][1] - bounds[env][0])
        for env, values in scores.items()
    }


def bounds_of(runs: Table, column: str = "return_last") -> dict[str, tuple[float, float]]:
    """For each environment, the mean score of the worst and of the best configuration there.

    Use better ones if you have them, such as the scores of random actions and of a known agent:
    these bounds, and all that is made with them, change with the runs in the table.
    """
    require(runs, ["env", "config_hash", column], "runs")
    means = runs.groupby(["env", "config_hash"])[column].mean().groupby("env")
    pairs = zip(means.min().items(), means.max(), strict=True)
    return {str(env): (float(low), float(high)) for (env, low), high in pairs}


def holm(p_values: Float[np.ndarray, "tests"]) -> Float[np.ndarray, "tests"]:
    """p-values that account for how many tests there are; NaN is no test.

    The smallest of m is multiplied by m, the next by m - 1, and so on, none below the one before it
    and none above 1 (Holm, 1979). Rejecting those up to α is wrong anywhere with at most
    probability α.
    """
    adjusted = p_values.copy()
    tests = np.flatnonzero(~np.isnan(p_values))
    order = tests[np.argsort(p_values[tests], kind="stable")]
    multiplied = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(multiplied), 1.0)
    return adjusted


def _samples(scores: Scores) -> list[np.ndarray]:
    """The scores of all tasks; none may be missing."""
    if not scores:
        raise ValueError("scores are of no task; one or more is accepted")
    for task, values in scores.items():
        if values.size == 0:
            raise ValueError(f"scores of {task} are of no run; one or more is accepted")
        if not np.isfinite(values).all():
            wrong = int(np.sum(~np.isfinite(values)))
            raise ValueError(f"{wrong} of {values.size} scores of {task} are not finite numbers")
    return list(scores.values())


def _same_tasks(a: Scores, b: Scores) -> tuple[list[np.ndarray], list[np.ndarray]]:
    if set(a) != set(b):
        raise ValueError(f"tasks are {sorted(a)} and {sorted(b)}; the same for both are accepted")
    return _samples(a), _samples({task: b[task] for task in a})


def _mean(samples: Samples) -> Values:
    return _over_tasks([sample.mean(axis=-1) for sample in samples])


def _over_tasks(each: list[Values]) -> Values:
    return np.mean(np.stack(each), axis=0)


def share_of_wins(x: Float[np.ndarray, "... n"], y: Float[np.ndarray, "... m"]) -> Values:
    """The share of the n m pairs that x wins, ties by half: Mann and Whitney's U / (n m)."""
    # One run of x at a time: all pairs of all draws at once would need much memory.
    won_and_not_lost = sum(
        (one > y).mean(axis=-1) + (one >= y).mean(axis=-1)
        for one in np.moveaxis(x, -1, 0)[..., np.newaxis]
    )
    return won_and_not_lost / (2 * x.shape[-1])
