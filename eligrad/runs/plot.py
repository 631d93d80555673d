"""Draws the learning curve of a run folder; makes and saves matplotlib figures.

Figures of many runs: `eligrad.analysis.figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from eligrad._base.files import check_target, replacing
from eligrad.runs.metrics import Tables
from eligrad.runs.returns import align, even_grid, have_a_value, mean_and_error

SUFFIXES = (".png", ".svg", ".pdf")
"""Formats that a figure can be saved in."""


def curves(tables: Tables, seeds: Sequence[int], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps [points] and mean returns [seeds, points] of the episodes that ended around them."""
    grid = even_grid(steps)
    run, step, returns = (np.asarray(tables.episodes[name]) for name in ("run", "step", "return"))
    rows = [align(step[run == one], returns[run == one], grid) for one in range(len(seeds))]
    return grid, np.stack(rows)


def draw(tables: Tables, seeds: Sequence[int], steps: int, title: str, path: Path) -> None:
    """Mean over the seeds, its standard error shaded, and every seed as a thin line."""
    at, each = curves(tables, seeds, steps)
    figure = blank(7.5, 4.6)
    axis = figure.add_subplot()
    for row in each:
        axis.plot(at, row, color=_COLOUR, linewidth=0.7, alpha=0.35)
    known = each[have_a_value(each)]
    several, silent = len(seeds) > 1, len(seeds) - len(known)
    label = f"mean of {len(seeds)} seeds, ± standard error" if several else f"seed {seeds[0]}"
    label += f"; without {silent} that ended no episode" if silent else ""
    draw_mean(axis, at, known, color=_COLOUR, label=label)
    axis.set(title=title, xlabel="environment steps", ylabel="return of an episode")
    axis.set_xlim(0, steps)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", frameon=False)
    save(figure, path)


def draw_mean(
    axis: Any, at: Float[np.ndarray, "points"], rows: Float[np.ndarray, "runs points"], **line: Any
) -> Any:
    """The mean of the runs where all of them have a value, its standard error shaded."""
    known = ~np.isnan(rows).any(axis=0)
    mean, error = mean_and_error(rows[:, known])
    (drawn,) = axis.plot(at[known], mean, **{"linewidth": 2.2, **line})
    if len(rows) > 1:
        axis.fill_between(
            at[known], mean - error, mean + error, color=line["color"], alpha=0.25, linewidth=0
        )
    return drawn


def blank(width: float, height: float) -> Any:
    """An empty figure of that many inches, with automatic layout."""
    # Not pyplot, which keeps figures for the whole process.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: str | Path) -> None:
    """Writes a figure in the format that the name ends in; the same figure gives the same file."""
    import matplotlib

    path = Path(path).expanduser()
    check_target(path, SUFFIXES)
    # Both formats would hold the time of day.
    date = {".svg": "Date", ".pdf": "CreationDate"}.get(path.suffix)
    with matplotlib.rc_context({"svg.hashsalt": "eligrad"}), replacing(path) as partial:
        figure.savefig(
            partial, format=path.suffix[1:], dpi=130, metadata={date: None} if date else None
        )


_COLOUR = "#0072B2"
