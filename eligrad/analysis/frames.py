"""Data frames of runs: their columns, settings, scores, learning curves and configurations.

A frame of runs has one row for each run (one configuration, one seed) and the columns `COLUMNS`.
All others hold settings, under the setting's name, and `env_params.NAME` holds a parameter of the
environment that was changed. A column that has several values within a configuration, such as a
score of your own, is not a setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from eligrad._base.errors import UnknownName
from eligrad.runs.configuration import ENV_PARAMS
from eligrad.runs.returns import POINTS, align, area, even_grid, final, mean

if TYPE_CHECKING:
    # For type checkers: pandas says only what a column might be.
    Table = Any
else:
    Table = pd.DataFrame

COLUMNS = (
    "run", "agent", "title", "env", "seed", "steps", "step", "finished", "config_hash",
    "max_episode_steps", "diverged_step", "return_last", "return_all", "return_area", "seconds",
    "steps_per_second", "stage", "label",
)  # fmt: skip
"""What is known of every run; `load_runs` says what they mean. The last two are added later."""
SETTINGS = "settings."
"""Begins the column of a setting whose own name is one of `COLUMNS`."""
EXPLORATION = ("exploration_steps", "exploration_fraction")
"""Two columns for one setting: the second is the first as a share of the steps."""
MEANINGS = {
    "return_last": "the mean return of the episodes in the last tenth of the steps",
    "return_all": "the mean return of all episodes",
    "return_area": "the area under the learning curve, per step",
}
"""Scores of a run, as a sentence names them."""

Scores = dict[str, Float[np.ndarray, "_"]]
"""For each environment, by name, the scores of its runs."""

_EPISODE = ("step", "return", "length")
_NONE = np.zeros(0, np.int64)


def require(frame: Table, columns: Iterable[str], what: str) -> None:
    """Refuses a frame without rows, or without one of these columns."""
    for column in columns:
        if column not in frame.columns:
            raise UnknownName(f"column of {what}", column, map(str, frame.columns))
    if frame.empty:
        raise ValueError(f"{what} holds no rows")


def setting_columns(runs: Table) -> list[str]:
    """The columns that hold settings: beside `COLUMNS`, with one value in each configuration."""
    require(runs, ["config_hash"], "runs")
    others = [name for name in map(str, runs.columns) if name not in COLUMNS]
    settings = [name for name in others if not name.startswith(ENV_PARAMS)]
    return [name for name in settings if not _varies(runs, name, within="config_hash")]


def env_columns(runs: Table) -> list[str]:
    """The columns of what was changed in an environment: its parameters, its limit of steps."""
    params = [name for name in map(str, runs.columns) if name.startswith(ENV_PARAMS)]
    return [*params, *(name for name in runs.columns if name == "max_episode_steps")]


def fixed_columns(runs: Table) -> list[str]:
    """The columns of all that was set for a configuration, but for agent and environment."""
    settings = setting_columns(runs)
    derived = EXPLORATION[:1] if EXPLORATION[1] in settings else ()
    return [*(name for name in settings if name not in derived), *env_columns(runs), "steps"]


def differing_settings(runs: Table) -> list[str]:
    """The settings in which runs of one agent differ within an environment.

    The length of exploration counts if it differs in steps and as a share of the steps: runs of
    other lengths with one share, or with one number of steps, were given the same.
    """
    require(runs, ["agent", "env"], "runs")
    settings = setting_columns(runs)
    found = {
        name: None
        for _, group in runs.groupby("agent", observed=True)
        for name in differing(group, settings)
    }
    derived = EXPLORATION[:1] if set(EXPLORATION) <= set(found) else EXPLORATION
    return [name for name in found if name not in derived]


def differing(runs: Table, columns: Iterable[str]) -> list[str]:
    """Those columns with several values within an environment; a missing value counts as one."""
    return [column for column in columns if _varies(runs, column, within="env")]


def _varies(runs: Table, column: str, within: str) -> bool:
    # As text, since a value may be a list.
    text = runs[column].map(str).where(runs[column].notna(), "")
    return bool((text.groupby(runs[within]).nunique() > 1).any())


def repeated(runs: Table) -> Any:
    """Which runs have the configuration and seed of one before them: they are no further evidence.

    Agents and environments of the user's own, whose name is empty, may differ in what is not saved.
    """
    known = (runs["agent"] != "") & (runs["env"] != "")
    return known & runs.duplicated(["config_hash", "seed"])


def _check_repeated(runs: Table) -> None:
    if {"config_hash", "seed", "agent", "env", "run"} <= set(runs.columns):
        twice = runs[repeated(runs)]
        if len(twice):
            row = twice.iloc[0]
            raise ValueError(
                f"{row['run']} has the configuration and the seed {row['seed']} of a run before "
                "it; each is accepted once: runs.drop_duplicates(['config_hash', 'seed'])"
            )


def scores(runs: Table, column: str = "return_last") -> Scores:
    """The scores of each environment, environments in order of name.

    A run without a score (no episode ended) is refused: leaving it out is the caller's decision.
    """
    require(runs, ["env", column], "runs")
    _check_repeated(runs)
    unknown = int(runs[column].isna().sum())
    if unknown:
        raise ValueError(
            f"{unknown} of {len(runs)} runs have no {column}: no episode ended there; leave them "
            f"out, and say so, or give them a score"
        )
    return {
        str(env): group[column].to_numpy(np.float64)
        for env, group in runs.groupby("env", sort=True)
    }


def configurations(runs: Table, column: str = "return_last") -> Table:
    """One row for each configuration: mean and standard error of a score, runs, divergences.

    Columns: config_hash, agent, title, env, steps, the settings, mean, error, scored, runs,
    diverged. Runs that are not finished, or in which no episode ended, have no score: `runs` counts
    them, mean and `scored` do not.
    """
    same = ["agent", "title", "env", "steps", *setting_columns(runs)]
    require(runs, [*same, column, "diverged_step", "finished"], "runs")
    _check_repeated(runs)
    counted = runs[column].where(runs["finished"].astype(bool))
    groups = runs.groupby("config_hash", sort=False)
    table = groups[same].first()
    scored = counted.groupby(runs["config_hash"], sort=False)
    table["mean"], table["error"], table["scored"] = scored.mean(), scored.sem(), scored.count()
    table["runs"], table["diverged"] = groups.size(), groups["diverged_step"].count()
    return table.reset_index()


def best_configurations(runs: Table, column: str = "return_last") -> Table:
    """The best configuration of each agent on each environment, by the mean score of its runs.

    It was chosen by these runs, so its mean is too high. Report it by fresh seeds, as
    `eligrad two-stage` does.

    Args:
        runs: A frame as `load_runs` gives it. Unfinished runs are left out; runs of different
            lengths are not compared with each other.
        column: The score of a run: return_last, return_all or return_area; higher is better.

    Returns:
        One row for each: env, agent, title, steps, the settings that were varied, mean, error (the
        standard error), scored (runs with a score), runs, diverged, config_hash.
    """
    require(runs, ["finished"], "runs")
    finished = runs[runs["finished"].astype(bool)]
    if finished.empty:
        raise ValueError(f"none of the {len(runs)} runs is finished")
    table = configurations(finished, column)
    best = table[table["mean"].notna()].groupby(["env", "agent", "steps"])["mean"].idxmax()
    shown = ["env", "agent", "title", "steps", *differing_settings(finished)]
    numbers = ["mean", "error", "scored", "runs", "diverged", "config_hash"]
    return table.loc[best, [*shown, *numbers]].reset_index(drop=True)


def learning_curves(runs: Table, episodes: Table, points: int = POINTS) -> Table:
    """One row for each run and point of its learning curve: run, env, step, return.

    All runs of an environment have one grid: as many `points`, evenly spaced, up to the most steps
    that any of them was planned for. `eligrad.runs.returns.align` defines the value at a point; it
    is NaN before the first episode's end and beyond the step that the run has reached.
    """
    require(runs, ["run", "env", "steps", "step"], "runs")
    if points < 1:
        raise ValueError(f"points is {points}; 1 or more is accepted")
    planned = runs.groupby("env")["steps"].max()
    parts = []
    for run, step, returns, _ in _with_episodes(runs, episodes):
        grid = even_grid(int(planned[run.env]), points)
        values = align(step, returns, grid, reached=int(run.step))
        parts.append(pd.DataFrame({"run": run.run, "env": run.env, "step": grid, "return": values}))
    return pd.concat(parts, ignore_index=True)


def scores_so_far(runs: Table, episodes: Table) -> Table:
    """return_last, return_all and return_area of each run, up to the step that it has reached.

    `load_runs` has them only of runs with a summary. NaN where no episode ended.
    """
    require(runs, ["run", "step"], "runs")
    return pd.DataFrame(
        [
            {
                "return_last": final(step, returns, int(run.step)),
                "return_all": mean(returns),
                "return_area": area(returns, length),
            }
            for run, step, returns, length in _with_episodes(runs, episodes)
        ],
        index=runs.index,
    )


def _with_episodes(runs: Table, episodes: Table) -> Iterator[tuple[Any, ...]]:
    """Each row of `runs` with the steps, returns and lengths of its episodes.

    A run that never ended an episode is in no frame of episodes, and is still a run.
    """
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
