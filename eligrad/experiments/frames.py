"""Tables of runs: what they must hold, their scores, and what to call them.

A table of runs is a pandas DataFrame with one row for each run (one configuration, one seed) and at
least the columns run, agent, title, env, seed, steps, step, finished, config_hash, diverged_step,
the scores (return_last, return_all, return_area) and `settings.<name>` for each setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from eligrad.envs.names import UnknownName
from eligrad.experiments.configuration import shown

if TYPE_CHECKING:
    # pandas tells a type checker of every kind that a column might be, and none that it is.
    Table = Any
else:
    Table = pd.DataFrame

SETTINGS = "settings."
"""What the columns of settings begin with."""

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
    settings = [name for name in map(str, runs.columns) if name.startswith(SETTINGS)]
    same = ["agent", "title", "env", *settings]
    require(runs, ["config_hash", *same, column, "diverged_step"], "runs")
    groups = runs.groupby("config_hash", sort=False)
    table = groups[same].first()
    scored = groups[column]
    table["mean"], table["error"], table["scored"] = scored.mean(), scored.sem(), scored.count()
    table["runs"], table["diverged"] = groups.size(), groups["diverged_step"].count()
    return table.reset_index()


def labelled(runs: Table) -> Table:
    """`runs` with a column `label`: the agent's title, and the settings in which its runs differ.

    Settings that differ only from one environment to the next are not named.
    """
    require(runs, ["agent", "title", "env"], "runs")
    differing = {agent: differing_settings(group) for agent, group in runs.groupby("agent")}
    labels = [
        ", ".join([row["title"], *(_named(row, name) for name in differing[row["agent"]])])
        for row in runs.to_dict("records")
    ]
    return runs.assign(label=labels)


def differing_settings(runs: Table) -> list[str]:
    """Names of the settings that have several values within an environment."""
    return [
        str(column).removeprefix(SETTINGS)
        for column in runs.columns
        if str(column).startswith(SETTINGS)
        # As text, since a setting may be a list.
        and (runs[column].map(str).groupby(runs["env"]).nunique() > 1).any()
    ]


def _named(row: dict[Any, Any], setting: str) -> str:
    return f"{setting.replace('_', ' ')} {shown(row[SETTINGS + setting])}"
