"""The lines of a figure or report: which runs each is made of, its name, colour and dash."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from eligrad.analysis import palette
from eligrad.analysis.frames import (
    SETTINGS,
    Table,
    differing,
    differing_settings,
    env_columns,
    fixed_columns,
    require,
)
from eligrad.runs.configuration import ENV_PARAMS, by_size, shown


class Line(NamedTuple):
    """An agent, or one of its variants; in each environment its runs are of one configuration."""

    agent: str
    label: str
    style: palette.Style
    runs: Table


def lines_of(runs: Table) -> list[Line]:
    """The lines in the order in which they are shown: by agent, then by the size of settings."""
    groups = dict(list(labelled(runs).groupby(["agent", "label"], observed=True)))
    fixed = fixed_columns(runs)

    def order(key: tuple[str, str]) -> tuple[Any, ...]:
        first = groups[key].iloc[0]
        return palette.order(key[0]), [by_size(first[column]) for column in fixed], key[1]

    ordered = sorted(groups, key=order)
    styles = palette.styles([agent for agent, _ in ordered])
    return [
        Line(agent, label, style, groups[agent, label])
        for (agent, label), style in zip(ordered, styles, strict=True)
    ]


def labelled(runs: Table) -> Table:
    """`runs` with a column `label`: the agent's title, and the settings in which its runs differ.

    Runs with one label in one environment are of one configuration, so that they may be averaged.
    A label names the settings in which the agent's runs differ, and the parameters and the limit of
    steps in which an environment does; steps, and at last the hash, where those leave several
    together. It does not name what differs only from one environment to the next.
    """
    require(runs, ["agent", "title", "env", "steps", "config_hash"], "runs")
    of_env = differing(runs, env_columns(runs))
    named = {
        agent: [*differing_settings(group), *of_env]
        for agent, group in runs.groupby("agent", observed=True)
    }
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


def _named(row: dict[Any, Any], column: str) -> str:
    value = row[column]
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    name = column.removeprefix(SETTINGS).removeprefix(ENV_PARAMS).replace("_", " ")
    return f"{name} {'default' if missing else shown(value)}"
