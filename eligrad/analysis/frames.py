"""Data frames of runs: what they hold, their scores, and what to call them.

A frame of runs has one row for each run (one configuration, one seed) and the columns `COLUMNS`.
All others hold settings, under the setting's name, and `env_params.NAME` holds a parameter of the
environment that was changed. A column that has several values within a configuration, such as a
score of your own, is no setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from eligrad.envs.names import UnknownName
from eligrad.runs.configuration import shown

if TYPE_CHECKING:
    # pandas tells a type checker of every kind that a column might be, and none that it is.
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
ENV_PARAMS = "env_params."
"""Begins the columns of an environment's parameters."""
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


def require(frame: Table, columns: Iterable[str], what: str) -> None:
    """Refuses a table without rows, or without one of these columns."""
    for column in columns:
        if column not in frame.columns:
            raise UnknownName(f"column of {what}", column, map(str, frame.columns))
    if frame.empty:
        raise ValueError(f"{what} holds no rows")


def scores(runs: Table, column: str = "return_last") -> Scores:
    """The scores of each environment, environments in order of name.

    A run without a score (no episode ended) is refused: leaving it out is the caller's decision.
    """
    require(runs, ["env", column], "runs")
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

    Columns: config_hash, agent, title, env, the settings, mean, error, scored, runs, diverged. Runs
    in which no episode ended have no score: `runs` counts them, mean and `scored` do not.
    """
    same = ["agent", "title", "env", *setting_columns(runs)]
    require(runs, ["config_hash", *same, column, "diverged_step"], "runs")
    groups = runs.groupby("config_hash", sort=False)
    table = groups[same].first()
    scored = groups[column]
    table["mean"], table["error"], table["scored"] = scored.mean(), scored.sem(), scored.count()
    table["runs"], table["diverged"] = groups.size(), groups["diverged_step"].count()
    return table.reset_index()


def labelled(runs: Table) -> Table:
    """`runs` with a column `label`: the agent's title, and what tells its runs apart.

    Runs with one label in one environment are of one configuration, so that they may be averaged.
    Named are the settings in which an agent's runs differ, and the parameters and the limit in
    which an environment does; steps, and at last the hash, where those leave several together.
    What differs only from one environment to the next is not named.
    """
    require(runs, ["agent", "title", "env", "steps", "config_hash"], "runs")
    world = differing(runs, world_columns(runs))
    named = {agent: [*differing_settings(group), *world] for agent, group in runs.groupby("agent")}
    label = pd.Series(
        [
            ", ".join([row["title"], *(_named(row, each) for each in named[row["agent"]])])
            for row in runs.to_dict("records")
        ]
    )
    table = runs.reset_index(drop=True)
    for column, words in (
        ("steps", "steps " + table["steps"].map(shown)),
        ("config_hash", "configuration " + table["config_hash"].str[:6]),
    ):
        several = table[column].groupby([table["env"], label]).transform("nunique") > 1
        label = label.mask(several, label + ", " + words)
    return runs.assign(label=label.to_numpy())


def setting_columns(runs: Table) -> list[str]:
    """The columns that hold settings: beside `COLUMNS`, with one value in each configuration."""
    require(runs, ["config_hash"], "runs")
    others = [name for name in map(str, runs.columns) if name not in COLUMNS]
    settings = [name for name in others if not name.startswith(ENV_PARAMS)]
    return [name for name in settings if not _varies(runs, name, within="config_hash")]


def differing_settings(runs: Table) -> list[str]:
    """The settings that have several values within an environment.

    The length of exploration counts if it differs in steps and as a share of the steps: runs of
    other lengths with one share, or with one number of steps, were given the same.
    """
    found = differing(runs, setting_columns(runs))
    derived = EXPLORATION[:1] if set(EXPLORATION) <= set(found) else EXPLORATION
    return [name for name in found if name not in derived]


def fixed_columns(runs: Table) -> list[str]:
    """Columns of all that was set for a configuration, but for agent and environment."""
    settings = setting_columns(runs)
    derived = EXPLORATION[:1] if EXPLORATION[1] in settings else ()
    return [*(name for name in settings if name not in derived), *world_columns(runs), "steps"]


def world_columns(runs: Table) -> list[str]:
    """Columns of what was changed in an environment: its parameters and its limit of steps."""
    world = [name for name in map(str, runs.columns) if name.startswith(ENV_PARAMS)]
    return [*world, *(name for name in runs.columns if name == "max_episode_steps")]


def differing(runs: Table, columns: Iterable[str]) -> list[str]:
    """Those with several values within an environment; a missing value counts as one."""
    return [column for column in columns if _varies(runs, column, within="env")]


def _varies(runs: Table, column: str, within: str) -> bool:
    # As text, since a value may be a list.
    text = runs[column].map(str).where(runs[column].notna(), "")
    return bool((text.groupby(runs[within]).nunique() > 1).any())


def _named(row: dict[Any, Any], column: str) -> str:
    value = row[column]
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    name = column.removeprefix(SETTINGS).removeprefix(ENV_PARAMS).replace("_", " ")
    return f"{name} {'default' if missing else shown(value)}"
