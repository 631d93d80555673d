"""The learning curve of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eligrad.train.files import replacing
from eligrad.train.metrics import Tables

POINTS = 60
"""Stretches of steps that a curve is averaged over."""


def curves(tables: Tables, seeds: Sequence[int], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps [points] and mean returns [seeds, points] of the episodes that ended around them.

    A stretch in which no episode ended keeps the value before it; NaN before the first end.
    """
    edges = np.linspace(0, steps, min(POINTS, steps) + 1)
    seed, step, returns = (np.asarray(tables.episodes[name]) for name in ("seed", "step", "return"))
    rows = []
    for one in seeds:
        mine = seed == one
        # An episode that ends with the last step of a stretch belongs to it.
        place = np.clip(np.searchsorted(edges, step[mine], side="left") - 1, 0, len(edges) - 2)
        counts = np.bincount(place, minlength=len(edges) - 1)
        sums = np.bincount(place, weights=returns[mine], minlength=len(edges) - 1)
        known = np.maximum.accumulate(np.where(counts > 0, np.arange(len(counts)), -1))
        means = sums / np.maximum(counts, 1)
        rows.append(np.where(known >= 0, means[known], np.nan))
    return edges[1:], np.stack(rows)


def draw(tables: Tables, seeds: Sequence[int], steps: int, title: str, path: Path) -> None:
    """Mean over the seeds, its standard error shaded, and every seed as a thin line."""
    # Not pyplot, which would meddle with the figures of whoever called.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    at, each = curves(tables, seeds, steps)
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    for row in each:
        axis.plot(at, row, color=_COLOUR, linewidth=0.7, alpha=0.35)
    known = ~np.isnan(each).any(axis=0)
    mean = each[:, known].mean(axis=0)
    several = len(seeds) > 1
    label = f"mean of {len(seeds)} seeds, ± standard error" if several else f"seed {seeds[0]}"
    axis.plot(at[known], mean, color=_COLOUR, linewidth=2.2, label=label)
    if several:
        error = each[:, known].std(axis=0, ddof=1) / np.sqrt(len(seeds))
        axis.fill_between(
            at[known], mean - error, mean + error, color=_COLOUR, alpha=0.25, linewidth=0
        )
    axis.set(title=title, xlabel="environment steps", ylabel="return of an episode")
    axis.set_xlim(0, steps)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", frameon=False)
    with replacing(path) as partial:
        canvas.print_figure(partial, format="png", dpi=130)


_COLOUR = "#0072B2"
