"""Tables and a figure of what `benchmarks.mujoco_learning` measured.

    python -m benchmarks.mujoco_table results/mujoco

Prints Markdown tables, final returns and areas under the curves with standard errors, and writes
`curves.png`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mujoco_learning import TASKS, VARIANTS
from eligrad.runs.plot import blank, draw_mean, save

RULES = {"tdrc": "TDRC(λ)", "tdc": "TDC(λ)", "gtd2": "GTD2(λ)"}
COLOURS = {"ppo": "#000000", "tdrc": "#0072B2", "tdc": "#009E73", "gtd2": "#CC79A7"}
"""They stay apart for the colour-blind (Okabe and Ito)."""

Results = dict[tuple[str, str], dict[str, Any]]


def load(folder: Path) -> Results:
    """Results by task and variant."""
    loaded = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    if not loaded:
        raise FileNotFoundError(
            f"{folder} holds no results; python -m benchmarks.mujoco_learning makes them"
        )
    return {(result["task"], result["variant"]): result for result in loaded}


def title(variant: str) -> str:
    if variant == "ppo":
        return "PPO"
    rule, advantage = variant.split("-")
    return f"Gradient PPO, {RULES[rule]}, {advantage}"


def mean_and_error(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def table(results: Results, name: str) -> str:
    """Mean ± standard error over the seeds."""
    tasks = [task for task in TASKS if any(key[0] == task for key in results)]
    lines = ["|  | " + " | ".join(tasks) + " |", "| --- " * (len(tasks) + 1) + "|"]
    for variant in VARIANTS:
        cells = []
        for task in tasks:
            result = results.get((task, variant))
            cells.append(
                "{:,.0f} ± {:,.0f}".format(*mean_and_error(result[name])) if result else ""
            )
        lines.append(f"| {title(variant)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: Results, path: Path) -> None:
    """A panel for each task: mean over the seeds, standard error shaded, `stale` dashed."""
    figure = blank(11.0, 7.4)
    for panel, task in enumerate(TASKS):
        axis = figure.add_subplot(2, 2, panel + 1)
        for variant in VARIANTS:
            result = results.get((task, variant))
            if result is None:
                continue
            rule, _, advantage = variant.partition("-")
            rows = np.array(result["curves"], np.float64)
            draw_mean(
                axis,
                np.array(result["curve_steps"]),
                rows,
                color=COLOURS[rule],
                linestyle="--" if advantage == "stale" else "-",
                linewidth=1.6,
                label=title(variant),
            )
        axis.set(title=task, xlabel="environment steps", ylabel="return of an episode")
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_formatter("{x:,.0f}")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    results = load(folder)
    for name, meaning in (("final", "Return in the last tenth of the steps"), ("area", "Area")):
        print(f"{meaning}:\n\n{table(results, name)}\n")
    draw(results, folder / "curves.png")


if __name__ == "__main__":
    main()
