"""Figures of sweeps: how a score depends on one setting, or on two.

Where other settings were swept too, a value is shown with the best of them. The best of many is
partly luck: such a figure shows where a sweep did well, not how well the winner would do again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from eligrad.analysis import palette
from eligrad.analysis.figures import add_legend, wrapped
from eligrad.analysis.frames import (
    MEANINGS,
    Table,
    configurations,
    differing,
    differing_settings,
    setting_columns,
    world_columns,
)
from eligrad.envs.names import UnknownName
from eligrad.runs.configuration import shown
from eligrad.runs.plot import blank, save

__all__ = ["heat_maps", "save", "sensitivity_curves"]

FEW = 12
"""Values of a setting up to which each has its tick; more were drawn at random."""


def sensitivity_curves(
    runs: Table, settings: Sequence[str] = (), column: str = "return_last"
) -> Any:
    """A row for each environment, a column for each setting, a line for each agent.

    A point of a line is the best configuration with that value: mean over its runs and standard
    error. All configurations are faint dots; only they are shown of a setting with very many
    values. Without `settings`, those that vary are shown.
    """
    table = configurations(runs, column)
    settings = list(settings) or differing_settings(runs)
    _check(runs, settings)
    envs = sorted(table["env"].unique())
    agents = sorted(table["agent"].unique(), key=palette.order)
    figure = blank(max(3.4 * len(settings), 6.0), 2.9 * len(envs) + 0.9)
    panels = figure.subplots(len(envs), len(settings), squeeze=False, sharey="row")
    for (row, number), panel in np.ndenumerate(panels):
        setting = settings[number]
        values = _values(table[setting])
        for place, agent in enumerate(agents):
            mine = table[(table["env"] == envs[row]) & (table["agent"] == agent)]
            # Side by side, so that no agent's whiskers hide another's.
            aside = 0.06 * (place - (len(agents) - 1) / 2)
            _draw_sensitivity(panel, mine, setting, values, aside)
        _label_values(panel.xaxis, values)
        panel.set_xlabel(settings[number])
        panel.grid(alpha=0.3)
    for env, panel in zip(envs, panels[:, 0], strict=True):
        panel.set_ylabel(f"{env}\n{column}")
    note = f"{MEANINGS.get(column, column)}; dots: all configurations"
    if any(len(_values(table[setting])) <= FEW for setting in settings):
        note += f"; lines: the best one with that value{_others(runs, settings)}, ± standard error"
    add_legend(figure, panels.ravel(), note)
    return figure


def _draw_sensitivity(panel: Any, table: Table, setting: str, values: list, aside: float) -> None:
    table = table[table[setting].notna() & table["mean"].notna()]
    if table.empty:
        return
    agent = table["agent"].iloc[0]
    style = palette.style(agent)
    numeric = len(values) > FEW
    at = table[setting] if numeric else table[setting].map(values.index) + aside
    panel.scatter(
        at, table["mean"], s=18, color=style.colour, alpha=0.6 if numeric else 0.3, linewidth=0,
        label=table["title"].iloc[0] if numeric else None,
    )  # fmt: skip
    if numeric:
        if _spans_decades(values):
            panel.set_xscale("log")
        return
    best = best_of_others(table, [setting])
    panel.errorbar(
        best[setting].map(values.index) + aside,
        best["mean"],
        best["error"].fillna(0.0),
        color=style.colour,
        linestyle=style.dash,
        marker="o",
        markersize=5,
        capsize=3,
        label=best["title"].iloc[0],
    )


def heat_maps(runs: Table, x: str, y: str, column: str = "return_last") -> Any:
    """How a score depends on two settings: a row for each agent, a column for each environment.

    A cell is the best configuration with those two values, mean over its runs, and below it how
    many of them diverged, if any. The best cell of a panel is framed. An environment's panels share
    one scale of colours.
    """
    table = configurations(runs, column)
    _check(runs, [x, y])
    grids = {name: _values(table[name]) for name in (x, y)}
    for name, values in grids.items():
        if len(values) > FEW:
            raise ValueError(f"{name} has {len(values)} values; up to {FEW} are accepted")
    envs = sorted(table["env"].unique())
    agents = sorted(table["agent"].unique(), key=palette.order)
    width, height = 1.6 + 0.75 * len(grids[x]), 1.3 + 0.55 * len(grids[y])
    figure = blank(max(width * len(envs), 5.0), max(height * len(agents), 3.0) + 0.5)
    panels, image = figure.subplots(len(agents), len(envs), squeeze=False), None
    best = best_of_others(table, [x, y])
    for number, env in enumerate(envs):
        here = best[best["env"] == env]
        limits = (here["mean"].min(), here["mean"].max())
        for row, agent in enumerate(agents):
            panel, mine = panels[row, number], here[here["agent"] == agent]
            image = _draw_heat_map(panel, mine, grids, limits)
            panel.set_title(f"{palette.style(agent).title}\n{env}", fontsize=10)
            panel.set(xlabel=x, ylabel=y)
        figure.colorbar(image, ax=panels[:, number], label=column, shrink=0.8)
    others = _others(runs, [x, y])
    note = wrapped(f"{MEANINGS.get(column, column)}{others}; the best one framed", figure)
    figure.suptitle(note, fontsize="small")
    return figure


def _draw_heat_map(
    panel: Any, table: Table, grids: dict[str, list], limits: tuple[float, float]
) -> Any:
    (x, across), (y, upwards) = grids.items()
    cells = np.full((len(upwards), len(across)), np.nan)
    image = panel.imshow(cells, cmap="viridis", vmin=limits[0], vmax=limits[1], origin="lower")
    middle = (limits[0] + limits[1]) / 2
    for row in table.to_dict("records"):
        place = upwards.index(row[y]), across.index(row[x])
        cells[place] = row["mean"]
        diverged = f"\n{row['diverged']}/{row['runs']} div." if row["diverged"] else ""
        panel.text(
            place[1], place[0], f"{row['mean']:.3g}{diverged}", ha="center", va="center",
            fontsize=8, color="white" if row["mean"] < middle else "black",
        )  # fmt: skip
    image.set_data(cells)
    panel.set_aspect("auto")
    if not np.isnan(cells).all():
        _frame(panel, *np.unravel_index(np.nanargmax(cells), cells.shape))
    _label_values(panel.xaxis, across)
    _label_values(panel.yaxis, upwards)
    return image


def _frame(panel: Any, row: Any, number: Any) -> None:
    from matplotlib.patches import Rectangle

    panel.add_patch(
        Rectangle((number - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=palette.VERMILLION, lw=3)
    )


def _others(runs: Table, settings: Sequence[str]) -> str:
    """Names what else was swept, parameters of environments too: the best of it is shown."""
    swept = {*differing_settings(runs), *differing(runs, world_columns(runs))}
    others = sorted(swept - {*settings})
    return f", with the best of the other settings ({', '.join(others)})" if others else ""


def best_of_others(table: Table, settings: list[str]) -> Table:
    """Of the configurations that agree in these settings, agent and environment, the best one."""
    known = table[table["mean"].notna()].dropna(subset=settings)
    best = known.groupby(["env", "agent", *settings], sort=True)["mean"].idxmax()
    return known.loc[best]


def _check(runs: Table, settings: Sequence[str]) -> None:
    known = setting_columns(runs)
    for name in settings:
        if name not in known:
            raise UnknownName("setting", name, known)
    if not settings:
        raise ValueError("no setting varies among these runs; nothing can be shown")


def _values(column: Any) -> list:
    """The values that a setting has, in order."""
    values = list(pd.unique(column.dropna()))
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _spans_decades(values: list) -> bool:
    return bool(values[0] > 0 and values[-1] / values[0] >= 10)


def _label_values(axis: Any, values: list) -> None:
    if len(values) <= FEW:
        axis.set_ticks(range(len(values)), [shown(value) for value in values])
