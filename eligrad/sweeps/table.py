"""The results of a sweep as a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eligrad._base.text import in_columns
from eligrad.agents import TITLES
from eligrad.runs.configuration import ENV_PARAMS, Configuration, Run, shown
from eligrad.runs.returns import mean_and_error

if TYPE_CHECKING:
    from eligrad.sweeps.driver import Report

_MEASURES = {"return_last": "last 10 %", "return_area": "area"}
MOST_ROWS = 60


def as_text(report: Report) -> str:
    """A table with a row for each configuration: means over finished seeds, and its own speed."""
    from eligrad.sweeps.store import Store

    groups: dict[str, list[Run]] = {}
    for run in report.runs:
        groups.setdefault(run.configuration.hash, []).append(run)
    rows = [("agent", "environment", "seeds", *_MEASURES.values(), "steps/s a run", "settings")]
    configurations = [runs[0].configuration for runs in groups.values()]
    summaries = Store(report.store).summaries(report.runs)
    for runs in groups.values():
        known = [summaries[run.name] for run in runs if run.name in summaries]
        configuration = runs[0].configuration
        rows.append(
            (
                TITLES[str(configuration.agent)],
                str(configuration.env),
                f"{len(known)}/{len(runs)}",
                *(_cell([each[name] for each in known]) for name in _MEASURES),
                _rate(known),
                differences(configuration, configurations),
            )
        )
    lines = in_columns(rows)
    left_out = len(lines) - 1 - MOST_ROWS
    if left_out > 0:
        lines = [*lines[: MOST_ROWS + 1], f"… and {left_out} more: eligrad runs ls {report.store}"]
    return "\n".join(["", lines[0], "-" * len(lines[0]), *lines[1:]])


def differences(one: Configuration, configurations: list[Configuration]) -> str:
    """The settings in which a configuration differs from others of its agent."""
    mine = own_fields(one)
    others = [own_fields(each) for each in configurations if each.agent == one.agent]
    return ", ".join(
        f"{name}={shown(value)}"
        for name, value in mine.items()
        if any(each.get(name) != value for each in others)
    )


def own_fields(configuration: Configuration) -> dict[str, Any]:
    """All fields of a configuration but agent and environment, by name."""
    return {
        **configuration.settings,
        **{ENV_PARAMS + name: value for name, value in configuration.env_params.items()},
        "max_episode_steps": configuration.max_episode_steps,
        "steps": configuration.steps,
    }


def _cell(values: list[float | None]) -> str:
    """Mean and standard error of the values that are known."""
    known = np.array([value for value in values if value is not None])
    mean, error = mean_and_error(known)
    spread = f" ± {error:.2g}" if len(known) > 1 else ""
    return f"{mean:.4g}{spread}" if len(known) else "–"


def _rate(summaries: list[dict[str, Any]]) -> str:
    rates = [each["steps_per_second"] for each in summaries if each["steps_per_second"]]
    return f"{np.mean(rates):,.0f}" if rates else "–"
