"""Tables and a figure of what `benchmarks.minatar_learning` measured.

    python -m benchmarks.minatar_table results/minatar

Prints two Markdown tables, final returns and their differences from QRC(λ), and writes
`curves.png` into the folder. `--agents qrc qc --picture two.png` shows these alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.minatar_learning import GAMES
from eligrad.agents import TITLES

NAMES = {
    **{preset: TITLES[preset] for preset in ("qrc", "stream-q", "q-lambda", "qc", "gq2")},
    "qrc-h0.1": "QRC(λ), h scale 0.1",
    "qrc-beta0.1": "QRC(λ), β = 0.1",
    "qrc-beta0.01": "QRC(λ), β = 0.01",
    "qrc-watkins": "QRC(λ), Watkins' cut",
    "q-lambda-sparse": "Q(λ), sparse initialisation",
    "random": "random actions",
}
# Colours that stay apart for the colour-blind (Okabe and Ito); variants of QRC(λ) are not solid.
LINES: dict[str, tuple[str, str]] = {
    "qrc": ("#0072B2", "-"),
    "qrc-h0.1": ("#56B4E9", "--"),
    "qrc-beta0.1": ("#56B4E9", "-."),
    "qrc-beta0.01": ("#CC79A7", "--"),
    "qrc-watkins": ("#000000", ":"),
    "stream-q": ("#E69F00", "-"),
    "q-lambda": ("#D55E00", "-"),
    "q-lambda-sparse": ("#D55E00", "--"),
    "qc": ("#009E73", "-"),
    "gq2": ("#CC79A7", "-"),
    "random": ("#999999", "-."),
}
"""Also the order of rows and of the legend."""
REFERENCE = "qrc"
LEVEL = 0.05
JOINED = 2
"""Neighbouring points of a curve that are drawn as one, to calm it."""

Results = dict[tuple[str, str], dict[str, Any]]


def load(folder: Path) -> Results:
    """Results by game and agent."""
    loaded = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not loaded:
        raise FileNotFoundError(
            f"{folder} holds no results; python -m benchmarks.minatar_learning makes them"
        )
    return {(result["game"], result["variant"]): result for result in loaded}


def games_of(results: Results) -> list[str]:
    return [game for game in GAMES if any(game == key[0] for key in results)]


def agents_of(results: Results) -> list[str]:
    return [agent for agent in LINES if any(agent == key[1] for key in results)]


def returns_table(results: Results) -> str:
    """Mean ± standard error of the final return; in brackets how many runs diverged, if any."""

    def cell(game: str, agent: str) -> str:
        result = results[game, agent]
        diverged = sum(step >= 0 for step in result["diverged_at"])
        note = f" ({diverged} of {result['seeds']} diverged)" if diverged else ""
        return f"{result['final_mean']:.2f} ± {result['final_standard_error']:.2f}{note}"

    return _table(results, agents_of(results), cell)


def differences_table(results: Results) -> str:
    """Each agent less the reference, ± standard error of the difference.

    Bold: Welch's t-test rejects equal means at 0.05, divided by the number of differences shown.
    """
    others = [agent for agent in agents_of(results) if agent not in (REFERENCE, "random")]
    shown = sum((game, agent) in results for game in games_of(results) for agent in others)

    def cell(game: str, agent: str) -> str:
        ours, theirs = (_finals(results[game, name]) for name in (agent, REFERENCE))
        difference = ours.mean() - theirs.mean()
        error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
        text = f"{difference:+.2f} ± {error:.2f}".replace("-", "−")
        welch: Any = stats.ttest_ind(ours, theirs, equal_var=False)
        return f"**{text}**" if welch.pvalue < LEVEL / shown else text

    return _table(results, others, cell)


def _finals(result: dict[str, Any]) -> np.ndarray:
    """Final returns of the seeds that finished an episode in the last tenth of their steps."""
    finals = np.asarray(result["final_per_seed"], float)
    return finals[~np.isnan(finals)]


def _table(results: Results, agents: list[str], cell: Callable[[str, str], str]) -> str:
    games = games_of(results)
    lines = [["", *games], ["---"] * (len(games) + 1)]
    for agent in agents:
        cells = [cell(game, agent) if (game, agent) in results else "" for game in games]
        lines.append([NAMES[agent], *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(results: Results, path: Path) -> None:
    """One panel for each game: the mean over the seeds, its standard error shaded."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    games, agents = games_of(results), agents_of(results)
    columns = min(3, len(games) + 1)
    rows = -(-(len(games) + 1) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    handles = {}
    for panel, game in zip(panels, games, strict=False):
        for agent in agents:
            if (game, agent) in results:
                handles[agent] = _draw_curve(panel, results[game, agent])
        panel.set(title=game, xlabel="thousand steps", ylabel="return of an episode")
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    for panel in panels[len(games) :]:
        panel.axis("off")
    seeds = " or ".join(sorted({str(result["seeds"]) for result in results.values()}))
    panels[len(games)].legend(
        [handles[agent] for agent in agents],
        [NAMES[agent] for agent in agents],
        title=f"mean of {seeds} seeds\n± standard error",
        loc="center",
        frameon=False,
        handlelength=3,
    )
    canvas.print_figure(path, format="png", dpi=110)


def _draw_curve(panel: Any, result: dict[str, Any]) -> Any:
    colour, style = LINES[result["variant"]]
    curves = np.ma.masked_invalid(np.asarray(result["curve_per_seed"], float))
    curves = curves.reshape(len(curves), -1, JOINED).mean(axis=2)
    mean = curves.mean(axis=0)
    error = curves.std(axis=0, ddof=1) / np.sqrt(curves.count(axis=0))
    # An episode may end anywhere in its stretch of steps: drawn in the middle.
    width = result["steps"] / curves.shape[1]
    at = (np.arange(curves.shape[1]) + 0.5) * width / 1000
    panel.fill_between(at, mean - error, mean + error, color=colour, alpha=0.18, linewidth=0)
    return panel.plot(at, mean, color=colour, linestyle=style, linewidth=1.7)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results/minatar"))
    parser.add_argument("--agents", nargs="+", choices=LINES, help="these and no others")
    parser.add_argument("--picture", default="curves.png", help="its name in the folder")
    given = parser.parse_args()
    wanted = given.agents or list(LINES)
    results = {key: each for key, each in load(given.folder).items() if key[1] in wanted}
    print(returns_table(results), differences_table(results), sep="\n\n")
    draw(results, given.folder / given.picture)


if __name__ == "__main__":
    main()
