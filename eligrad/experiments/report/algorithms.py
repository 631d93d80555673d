"""What a report calls an algorithm: an agent, and those of its settings that were varied."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from eligrad.experiments.frames import SETTINGS, Table, differing_settings, labelled


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One line of a learning curve."""

    agent: str
    label: str
    settings: dict[str, Any]
    """Those that all runs of it agree in."""


def group(runs: Table) -> tuple[list[Algorithm], Any]:
    """The algorithms, agent by agent, and for each run the place of its own among them."""
    label = _distinct(labelled(runs))
    first = runs.loc[~label.duplicated()].assign(label=label)
    # Agents as they come; of one agent, the settings that were varied in order of size.
    agents = {agent: place for place, agent in enumerate(first["agent"].unique())}
    rows = sorted(first.to_dict("records"), key=lambda row: (agents[row["agent"]], _order(row)))
    labels = [row["label"] for row in rows]
    algorithms = [
        Algorithm(row["agent"], row["label"], _agreed(runs[label == row["label"]])) for row in rows
    ]
    return algorithms, label.map(labels.index)


def _distinct(runs: Table) -> Any:
    """Labels that tell apart what settings do not: other steps, other numbers of an environment."""
    label = runs["label"]
    for column, suffix in (
        ("steps", runs["steps"].map("steps {:,}".format)),
        ("config_hash", "configuration " + runs["config_hash"].str[:6]),
    ):
        values = runs[column].groupby([runs["env"], label]).transform("nunique")
        label = label.where(values == 1, label + ", " + suffix)
    return label


def _agreed(runs: Table) -> dict[str, Any]:
    """Settings with one value in all of these runs."""
    return {
        name: values.iloc[0]
        for name, values in _settings(runs).items()
        if len(values) == len(runs) and values.map(str).nunique() == 1
    }


def _settings(runs: Table) -> dict[str, Any]:
    columns = [str(column) for column in runs if str(column).startswith(SETTINGS)]
    return {column.removeprefix(SETTINGS): runs[column].dropna() for column in columns}


def _order(row: dict[Any, Any]) -> list[tuple[bool, float, str]]:
    """Numbers by size, then words by alphabet."""
    values = [value for name, value in row.items() if str(name).startswith(SETTINGS)]
    return [
        (False, value, "") if isinstance(value, (int, float)) else (True, 0.0, str(value))
        for value in values
    ]


def varied(runs: Table) -> list[str]:
    """Settings in which runs of one agent differ within an environment."""
    found = (name for _, each in runs.groupby("agent") for name in differing_settings(each))
    return list(dict.fromkeys(found))


def differing(algorithms: Sequence[Algorithm]) -> list[str]:
    """Settings in which algorithms differ; one that has no such setting counts."""
    names = dict.fromkeys(name for each in algorithms for name in each.settings)
    return [n for n in names if len({str(each.settings.get(n)) for each in algorithms}) > 1]
