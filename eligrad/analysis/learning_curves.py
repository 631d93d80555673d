"""Learning curves, areas and final scores of many runs, from their table of episodes.

`eligrad.runs.returns` defines each of them; this module computes them for every run of a table. The
table of runs says which runs there are: one that never ended an episode is in no table of episodes,
and is still a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from eligrad.analysis.frames import Table, require
from eligrad.runs.returns import LAST, POINTS, align, area, even_grid, final

_EPISODE = ("step", "return", "length")
_NONE = np.zeros(0, np.int64)


def learning_curves(runs: Table, episodes: Table, points: int = POINTS) -> Table:
    """One row for each run and grid point: run, env, step, return.

    All runs of an environment have one grid: as many `points`, evenly spaced, up to the most steps
    that any of them was planned for. The value at a point is the mean return of the episodes that
    ended after the point before it and up to it; the value before where none did; NaN before the
    first end and beyond the step that the run has reached.
    """
    require(runs, ["run", "env", "steps", "step"], "runs")
    if points < 1:
        raise ValueError(f"points is {points}; 1 or more is accepted")
    planned = runs.groupby("env")["steps"].max()
    parts = []
    for run, step, returns, _ in _each(runs, episodes):
        grid = even_grid(int(planned[run.env]), points)
        values = align(step, returns, grid, reached=int(run.step))
        parts.append(pd.DataFrame({"run": run.run, "env": run.env, "step": grid, "return": values}))
    return pd.concat(parts, ignore_index=True)


def final_returns(runs: Table, episodes: Table, share: float = LAST) -> Float[np.ndarray, "runs"]:
    """For each run, the mean return of the episodes that ended in the last `share` of its steps.

    Those are the steps it has reached, so that an unfinished run has a final return too. NaN where
    no episode ended.
    """
    require(runs, ["run", "step"], "runs")
    return np.array(
        [
            final(step, returns, int(run.step), share)
            for run, step, returns, _ in _each(runs, episodes)
        ]
    )


def areas(runs: Table, episodes: Table) -> Float[np.ndarray, "runs"]:
    """For each run, the area under its learning curve per step; NaN where no episode ended."""
    require(runs, ["run"], "runs")
    return np.array([area(returns, length) for _, _, returns, length in _each(runs, episodes)])


def _each(runs: Table, episodes: Table) -> Iterator[tuple[Any, ...]]:
    """Each row of `runs` with the steps, returns and lengths of its episodes."""
    twice = runs["run"][runs["run"].duplicated()]
    if len(twice):
        raise ValueError(f"run {twice.iloc[0]!r} is there twice; each run is accepted once")
    if len(episodes):
        require(episodes, ["run", *_EPISODE], "episodes")
    of_run = episodes.groupby("run", observed=True).indices if len(episodes) else {}
    columns = [episodes[name].to_numpy() if len(episodes) else _NONE for name in _EPISODE]
    for run in runs.itertuples():
        mine = of_run.get(run.run, _NONE)
        yield run, *(column[mine] for column in columns)
