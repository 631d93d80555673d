"""Figures of many runs: learning curves, sensitivity to settings, speed, performance profiles.

Each function takes data frames as `load_runs` and `load_episodes` give them and returns a
matplotlib figure; `save` writes it as PNG, SVG or PDF.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from eligrad._base.errors import UnknownName
from eligrad.analysis import frames, palette
from eligrad.analysis.bootstrap import STANDARD, Bootstrap
from eligrad.analysis.frames import MEANINGS, Table, require, scores
from eligrad.analysis.lines import Line, lines_of
from eligrad.analysis.statistics import Bounds, bounds_of, normalise, performance_profile
from eligrad.runs.configuration import by_size, shown
from eligrad.runs.plot import blank, draw_mean, save
from eligrad.runs.returns import POINTS, have_a_value, mean_and_error

__all__ = ["learning_curves", "performance_profiles", "save", "sensitivity_curves", "speed_bars"]

FEW = 12
"""Values of a setting up to which each has its tick; more were drawn at random."""

_PANELS = 3
"""Panels side by side."""
_THRESHOLDS = 101
"""Points of a performance profile."""
_HATCHES: dict[str, str] = dict(zip(palette.DASHES, ("", "//", "..", "xx"), strict=True))


def learning_curves(runs: Table, episodes: Table, points: int = POINTS) -> Any:
    """A panel for each environment: mean return over the runs, its standard error shaded.

    The mean is drawn where all runs of a line have a value. Runs that never ended an episode have
    none; they, and those that diverged, are counted above the panel.
    """
    require(runs, ["diverged_step"], "runs")
    aligned = frames.learning_curves(runs, episodes, points)
    lines = lines_of(runs)
    figure, panels = _panels_of(aligned["env"].unique())
    for env, panel in panels.items():
        here = aligned[aligned["env"] == env].pivot(index="run", columns="step", values="return")
        at, notes = here.columns.to_numpy(np.float64), []
        for line in lines:
            mine = line.runs[line.runs["env"] == env]
            rows = here.loc[list(mine["run"])].to_numpy()
            known = rows[have_a_value(rows)]
            if len(known):
                draw_mean(panel, at, known, **_look(lines, line), linewidth=1.8)
            for what, count in (
                ("diverged", mine["diverged_step"].notna().sum()),
                ("without an episode", len(rows) - len(known)),
            ):
                if count:
                    notes.append(f"{line.label}: {count} of {len(rows)} {what}")
        _add_title(panel, env, notes)
        panel.set(xlabel="environment steps", ylabel="return of an episode", xlim=(0, at[-1]))
        _short_numbers(panel.xaxis)
    counts = [count for line in lines for count in line.runs.groupby("env").size()]
    fewest, most = min(counts), max(counts)
    seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
    _add_legend(figure, panels.values(), f"mean of {seeds} runs, standard error shaded")
    return figure


def sensitivity_curves(
    runs: Table, settings: Sequence[str] = (), column: str = "return_last"
) -> Any:
    """A row for each environment, a column for each setting, a line for each agent.

    A point of a line is the best configuration with that value: mean over its runs and standard
    error. The best of many is partly luck: the figure shows where a sweep did well, not how well
    the winner would do again. All configurations are faint dots; a setting with very many values
    has only them. Runs of different lengths have separate lines. Without `settings`, those that
    vary are shown.
    """
    table = frames.configurations(runs, column)
    settings = list(settings) or frames.differing_settings(runs)
    _check_settings(runs, settings)
    envs = sorted(table["env"].unique())
    lines = [
        (key, each) for key, each in table.groupby(["agent", "steps"]) if each["mean"].notna().any()
    ]
    lines.sort(key=lambda line: (palette.order(line[0][0]), line[0][1]))
    styles = palette.styles([agent for (agent, _), _ in lines])
    lengths = table.groupby("agent")["steps"].nunique()
    figure = blank(max(3.4 * len(settings), 6.0), 2.9 * len(envs) + 0.9)
    panels = figure.subplots(len(envs), len(settings), squeeze=False, sharey="row")
    for (row, number), panel in np.ndenumerate(panels):
        values = _values(table[settings[number]])
        for place, (((agent, steps), each), style) in enumerate(zip(lines, styles, strict=True)):
            label = each["title"].iloc[0]
            label += f", steps {shown(steps)}" if lengths[agent] > 1 else ""
            # Side by side, so that no line's whiskers hide another's.
            aside = 0.06 * (place - (len(lines) - 1) / 2)
            mine = each[(each["env"] == envs[row]) & each["mean"].notna()]
            _draw_sensitivity(panel, mine, settings[number], values, aside, style, label)
        if len(values) <= FEW:
            panel.set_xticks(range(len(values)), [shown(value) for value in values])
        panel.set_xlabel(settings[number])
        panel.grid(alpha=0.3)
    for env, panel in zip(envs, panels[:, 0], strict=True):
        panel.set_ylabel(f"{env}\n{column}")
    note = f"{MEANINGS.get(column, column)}; dots: all configurations"
    if any(len(_values(table[setting])) <= FEW for setting in settings):
        note += f"; lines: the best one with that value{_others(runs, settings)}, ± standard error"
    _add_legend(figure, panels.ravel(), note)
    return figure


def _draw_sensitivity(
    panel: Any,
    table: Table,
    setting: str,
    values: list,
    aside: float,
    style: palette.Style,
    label: str,
) -> None:
    table = table[table[setting].notna()]
    if table.empty:
        return
    many = len(values) > FEW
    at = table[setting] if many else table[setting].map(values.index) + aside
    panel.scatter(
        at, table["mean"], s=18, color=style.colour, alpha=0.6 if many else 0.3, linewidth=0,
        label=label if many else None,
    )  # fmt: skip
    if many:
        if values[0] > 0 and values[-1] / values[0] >= 10:
            panel.set_xscale("log")
        return
    best = table.loc[table.groupby(setting, sort=True)["mean"].idxmax()]
    panel.errorbar(
        best[setting].map(values.index) + aside,
        best["mean"],
        best["error"].fillna(0.0),
        color=style.colour,
        linestyle=style.dash,
        marker="o",
        markersize=5,
        capsize=3,
        label=label,
    )


def _others(runs: Table, settings: Sequence[str]) -> str:
    """Names what else was swept, parameters of environments too: the best of it is shown."""
    of_env = frames.differing(runs, frames.env_columns(runs))
    others = sorted({*frames.differing_settings(runs), *of_env} - {*settings})
    return f", with the best of the other settings ({', '.join(others)})" if others else ""


def _check_settings(runs: Table, settings: Sequence[str]) -> None:
    known = frames.setting_columns(runs)
    for name in settings:
        if name not in known:
            raise UnknownName("setting", name, known)
    if not settings:
        raise ValueError("no setting varies among these runs; nothing can be shown")


def _values(column: Any) -> list:
    """The values that a setting has, in order."""
    return sorted(pd.unique(column.dropna()), key=by_size)


def speed_bars(runs: Table) -> Any:
    """Bars of speed by environment and agent: mean over the runs, with its standard error.

    Runs of one program share its time: where all do, there is no error to show.
    """
    require(runs, ["env", "steps_per_second"], "runs")
    lines, envs = lines_of(runs), sorted(runs["env"].unique())
    names = [env.replace("/", "/\n") for env in envs]
    longest = max(len(row) for name in names for row in name.split("\n"))
    # Room for the bars, and for the names under them.
    figure = blank(max(4.8, 1.2 + max(0.5 * len(lines), 0.1 * longest) * len(envs)), 4.2)
    panel = figure.add_subplot()
    width = 0.8 / len(lines)
    for place, line in enumerate(lines):
        for number, env in enumerate(envs):
            speeds = line.runs["steps_per_second"][line.runs["env"] == env].dropna().to_numpy()
            if not len(speeds):
                continue
            mean, error = mean_and_error(speeds)
            bars = panel.bar(
                number + (place - (len(lines) - 1) / 2) * width,
                mean,
                0.92 * width,
                yerr=error if np.ptp(speeds) > 0 else None,
                capsize=3,
                color=line.style.colour,
                # White, since it is drawn in the colour of the edge.
                edgecolor="white",
                hatch=_HATCHES[line.style.dash],
                label=line.label,
            )
            panel.bar_label(bars, [_engineering(float(mean))], padding=2, fontsize=8)
    panel.set(ylabel="environment steps per second of a run", ylim=(0, 1.08 * panel.get_ylim()[1]))
    panel.set_xticks(range(len(envs)), names)
    _short_numbers(panel.yaxis)
    panel.grid(axis="y", alpha=0.3)
    panel.set_axisbelow(True)
    _add_legend(figure, [panel], "mean over runs, whiskers: standard error")
    return figure


def performance_profiles(
    runs: Table,
    column: str = "return_last",
    bounds: Bounds | None = None,
    bootstrap: Bootstrap = STANDARD,
) -> Any:
    """The share of runs above each score, over all environments; intervals shaded, of each point.

    Scores are normalised by `bounds`; without them, 0 and 1 are the worst and the best
    configuration of each environment. Where all are equal, that is 1.
    """
    scale = "given bounds" if bounds else "worst and best configuration of each environment"
    lines = lines_of(runs)
    raw = [scores(line.runs, column) for line in lines]
    for line, one in zip(lines, raw, strict=True):
        if set(one) != set(raw[0]):
            raise ValueError(
                f"{lines[0].label} has runs on {sorted(raw[0])} and {line.label} on "
                f"{sorted(one)}; profiles of the same environments are accepted"
            )
    if bounds is None:
        found = bounds_of(runs, column).items()
        bounds = {env: (low if low < high else low - 1, high) for env, (low, high) in found}
    normal = [normalise(one, bounds) for one in raw]
    values = np.concatenate([each for one in normal for each in one.values()])
    margin = 0.02 * (np.ptp(values) or 1.0)
    at = np.linspace(values.min() - margin, values.max() + margin, _THRESHOLDS)
    figure = blank(6.4, 4.6)
    panel = figure.add_subplot()
    for line, one in zip(lines, normal, strict=True):
        profile = performance_profile(one, at, bootstrap)
        panel.plot(at, profile.share, **_look(lines, line), linewidth=2, drawstyle="steps-post")
        panel.fill_between(
            at, profile.low, profile.high, color=line.style.colour, alpha=0.18, step="post",
            linewidth=0,
        )  # fmt: skip
    panel.set(
        xlabel=f"score τ (0 and 1: {scale})",
        ylabel="share of runs with a score above τ",
        xlim=(at[0], at[-1]),
        ylim=(-0.02, 1.02),
    )
    panel.grid(alpha=0.3)
    note = f"{len(normal[0])} environments, {100 * bootstrap.level:g} % intervals shaded"
    _add_legend(figure, [panel], note)
    return figure


def _look(lines: list[Line], line: Line) -> dict[str, Any]:
    """A line's style as matplotlib names it; the first line lies on top."""
    return {
        "label": line.label,
        "color": line.style.colour,
        "linestyle": line.style.dash,
        "zorder": 3 - [each.label for each in lines].index(line.label) / len(lines),
    }


def _panels_of(names: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """A figure with a panel for each name, in rows."""
    names = sorted(names)
    columns = min(_PANELS, len(names))
    rows = -(-len(names) // columns)
    figure = blank(max(4.0 * columns, 6.0), 3.2 * rows + 0.7)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(names) :]:
        axis.axis("off")
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure, dict(zip(names, axes, strict=False))


def _add_title(panel: Any, title: str, notes: list[str]) -> None:
    """A title with remarks in small letters below it."""
    panel.set_title(title, fontsize=11, pad=6 + 10 * len(notes))
    remarks = "\n".join(notes)
    panel.annotate(
        remarks, (0.5, 1.0), (0, 2), "axes fraction", "offset points", ha="center", va="bottom",
        fontsize=8, color="#555555",
    )  # fmt: skip


def _add_legend(figure: Any, panels: Iterable[Any], note: str) -> None:
    """One legend below all panels, each line once, under a note."""
    handles: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    inches = 0.9 + 0.09 * max(map(len, handles), default=0)
    legend = figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(handles), int(figure.get_figwidth() // inches))),
        frameon=False,
        title=textwrap.fill(note, int(12 * figure.get_figwidth())),
        title_fontsize="small",
        handlelength=2.6,
    )
    legend.get_title().set_multialignment("center")


def _short_numbers(axis: Any) -> None:
    """Ticks of large numbers as 500k and 1M."""
    axis.set_major_formatter(lambda value, _: _engineering(value))


def _engineering(value: float) -> str:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="").format_eng(float(f"{value:.3g}"))
