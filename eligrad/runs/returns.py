"""Numbers of one run's episodes: learning curve, area under it, mean return of the last ones.

Episodes are arrays of one length: the `step` that ended each, its return, its length. All numbers
that the library makes from episodes are made here; `eligrad.analysis.frames` does it for all runs
of a data frame. An episode of a run that diverged counts like any other.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Shaped

LAST = 0.1
"""`return_last` counts the episodes in this last share of the steps."""
POINTS = 60
"""Points of a curve."""


def even_grid(steps: int, points: int = POINTS) -> Float[np.ndarray, "points"]:
    """Ends of as many equal stretches of the steps 1 to `steps`; no more of them than steps."""
    return np.linspace(0.0, steps, min(points, steps) + 1)[1:]


def align(
    step: Shaped[np.ndarray, "episodes"],
    returns: Shaped[np.ndarray, "episodes"],
    grid: Shaped[np.ndarray, "points"],
    reached: int | float = np.inf,
) -> Float[np.ndarray, "points"]:
    """The learning curve on a grid of steps.

    The value at a grid point is the mean return of the episodes that ended after the point before
    it (after 0, for the first) and up to it, so that each episode counts once. Where none ended,
    the value before is kept; before the first end, and beyond the step that the run has `reached`,
    the value is NaN.
    """
    grid = np.asarray(grid, np.float64)
    if np.any(np.diff(grid, prepend=0.0) <= 0):
        raise ValueError(f"grid is {grid}; steps above 0, each above the one before, are accepted")
    place = np.searchsorted(grid, step, side="left")
    within = place < len(grid)
    counts = np.bincount(place[within], minlength=len(grid))
    sums = np.bincount(place[within], weights=returns[within], minlength=len(grid))
    newest = np.maximum.accumulate(np.where(counts > 0, np.arange(len(grid)), -1))
    means = sums / np.maximum(counts, 1)
    return np.where((newest >= 0) & (grid <= reached), means[newest], np.nan)


def have_a_value(rows: Float[np.ndarray, "runs points"]) -> Bool[np.ndarray, "runs"]:
    """Which runs have a curve; a run that never ended an episode has none."""
    return np.asarray(~np.isnan(rows).all(axis=1))


def area(returns: Shaped[np.ndarray, "episodes"], lengths: Shaped[np.ndarray, "episodes"]) -> float:
    """Area under the learning curve, per step: each step has the return of its episode.

    Only steps of episodes that ended count; NaN without any.
    """
    return float(np.average(_double(returns), weights=lengths)) if np.sum(lengths) else np.nan


def final(
    step: Shaped[np.ndarray, "episodes"],
    returns: Shaped[np.ndarray, "episodes"],
    reached: int | float,
) -> float:
    """Mean return of the episodes that ended in the last tenth of the steps reached, or NaN."""
    return mean(returns[step > (1 - LAST) * reached])


def mean(values: Shaped[np.ndarray, "values"]) -> float:
    """The mean in double precision; NaN of nothing."""
    return float(np.mean(_double(values))) if values.size else np.nan


def mean_and_error(
    values: Shaped[np.ndarray, "runs *rest"],
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Mean over runs, the first axis, and its standard error; NaN where too few runs are there."""
    runs, values = len(values), _double(values)
    unknown = np.full(values.shape[1:], np.nan)
    # Runs that diverge may have returns whose squares overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        means = values.mean(axis=0) if runs else unknown
        errors = values.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else unknown
    return np.asarray(means), np.asarray(errors)


def _double(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float64)
