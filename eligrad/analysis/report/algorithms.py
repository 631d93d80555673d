"""What a report calls an algorithm: an agent, and those of its settings that were varied."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from eligrad.analysis.frames import Table, differing_settings, fixed_columns, labelled


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One line of a learning curve."""

    agent: str
    label: str
    settings: dict[str, Any]
    """Those that all runs of it agree in."""


def group(runs: Table) -> tuple[list[Algorithm], Any]:
    """The algorithms, agent by agent, and for each run the place of its own among them."""
    label = labelled(runs)["label"]
    first = runs.loc[~label.duplicated()].assign(label=label)
    # Agents as they come; of one agent, the settings that were varied in order of size.
    agents = {agent: place for place, agent in enumerate(first["agent"].unique())}
    fixed = fixed_columns(runs)
    rows = sorted(
        first.to_dict("records"),
        key=lambda row: (agents[row["agent"]], [_order(row[column]) for column in fixed]),
    )
    labels = [row["label"] for row in rows]
    algorithms = [
        Algorithm(row["agent"], row["label"], _agreed(runs[label == row["label"]])) for row in rows
    ]
    return algorithms, label.map(labels.index)


def _agreed(runs: Table) -> dict[str, Any]:
    """Settings with one value in all of these runs."""
    return {
        name: values.tolist()[0]
        for name, values in _settings(runs).items()
        if len(values) == len(runs) and values.map(str).nunique() == 1
    }


def _settings(runs: Table) -> dict[str, Any]:
    return {name: runs[name].dropna() for name in fixed_columns(runs)}


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then words by alphabet, and what is missing among them."""
    # A missing number is unequal to itself, and in no order with others.
    number = isinstance(value, (int, float)) and value == value
    return (False, float(value), "") if number else (True, 0.0, str(value))


def varied(runs: Table) -> list[str]:
    """Settings in which runs of one agent differ within an environment."""
    found = (name for _, each in runs.groupby("agent") for name in differing_settings(each))
    return list(dict.fromkeys(found))


def differing(algorithms: Sequence[Algorithm]) -> list[str]:
    """Settings in which algorithms differ; one that has no such setting counts."""
    names = dict.fromkeys(name for each in algorithms for name in each.settings)
    return [n for n in names if len({str(each.settings.get(n)) for each in algorithms}) > 1]
