"""How wide is the range of step sizes that works, and how long are ObGD's steps?

    python -m benchmarks.classic_control --envs CartPole-v1 Acrobot-v1 --seeds 10 --out results/step-sizes \
      --agents qrc-output:step_size=1e-5 qrc-output:step_size=3e-5 …
    python -m benchmarks.step_sizes --out results/step-sizes/bound.json
    python -m benchmarks.results

All with QRC(λ), β on the output of h. The second command measures how far ObGD with its presets (α = 1, κ = 2) would move w and θ
in runs of SGD: α / max(α κ max(|δ|, 1) |z|₁, 1), a step size that can be compared with SGD's. `benchmarks.results` draws the figure and
makes the tables.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.learning import Study, title
from benchmarks.questions import ROOT, markdown
from eligrad._base.files import write_json
from eligrad.analysis.frames import Table
from eligrad.runs.plot import blank, save

STUDY = "step-sizes"
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""The steps that were tried, in times of the usual one."""
SERIES: dict[str, tuple[str, str, float, str, str]] = {
    "SGD (α = 1e-4)": ("sgd", "step_size", 1e-4, "#0072B2", "-"),
    "ObGD (α = 1, κ = 2), other α": ("obgd", "step_size", 1.0, "#E69F00", "--"),
    "ObGD (α = 1, κ = 2), other κ": ("obgd", "kappa", 2.0, "#D55E00", "-"),
    "trace-adam (α = 1e-4)": ("trace-adam", "step_size", 1e-4, "#009E73", "-"),
}
"""By name: the optimiser, what is varied, its usual value, colour and style of the line."""
KAPPA = 2.0
AT = {
    "gymnax/CartPole-v1": (2_000, 30_000),
    "gymnax/Acrobot-v1": (2_000, 40_000),
    "MinAtar/Breakout-v1": (2_000, 60_000),
    "MinAtar/SpaceInvaders-v1": (2_000, 60_000),
    "MinAtar/Asterix-v1": (2_000, 60_000),
    "MinAtar/Freeway-v1": (2_000, 60_000),
    "MinAtar/Seaquest-v1": (2_000, 60_000),
}
"""When the bound is looked at, in runs of three times the last of these steps."""
SEEDS, LOOKS = 2, 150


def of_series(runs: Table, name: str) -> Table:
    """The runs of a series, with their step in times of the usual one in the column `times`."""
    optimizer, varied, usual, *_ = SERIES[name]
    mine = runs[(runs["study"] == STUDY) & (runs["optimizer"] == optimizer)]
    fixed, value = ("kappa", KAPPA) if varied == "step_size" else ("step_size", 1.0)
    if optimizer == "obgd":
        mine = mine[np.isclose(mine[fixed].astype(float), value)]
    ratio = mine[varied].astype(float) / usual
    if varied == "kappa":  # a larger κ makes smaller steps
        ratio = 1 / ratio
    distance = np.abs(np.log(ratio.to_numpy()[:, None] / np.array(TIMES)))
    return mine.assign(times=np.array(TIMES)[distance.argmin(axis=1)])


def summaries(mine: Table) -> dict[float, tuple[float, float, int]]:
    """Mean of the final returns, its standard error and the number of seeds, by step."""
    by = {times: rows["final"].dropna() for times, rows in mine.groupby("times")}
    return {times: (x.mean(), x.std(ddof=1) / np.sqrt(len(x)), len(x)) for times, x in by.items()}


def table(runs: Table, envs: Sequence[str], marks: Mapping[str, float]) -> str:
    """Final returns by environment, optimiser and step; in brackets how many seeds reach a mark."""
    lines = [["", "", *(f"× {times:g}" for times in TIMES), "solved in all"]]
    for env in envs:
        for name in SERIES:
            mine = of_series(runs, name)
            mine = mine[mine["env"] == env]
            if mine["times"].nunique() < 2:
                continue
            found, reached = summaries(mine), mine["final"] >= marks.get(env, np.inf)
            cells = []
            for times in TIMES:
                text = ""
                if times in found:
                    text = "{:,.1f} ± {:.1f}".format(*found[times][:2]).replace("-", "−")
                    these = mine["times"] == times
                    if env in marks:
                        text += f" ({reached[these].sum()})"
                    if mine["diverged"][these].any():
                        text += f" ({mine['diverged'][these].sum()} of {these.sum()} diverged)"
                cells.append(text)
            total = f"{reached.sum()} of {len(mine)}" if env in marks else ""
            lines.append([env, name, *cells, total])
    return markdown(lines)


def adam_table(runs: Table) -> str:
    """CartPole with trace-adam: QRC(λ) and Q(λ) by α."""
    mine = runs[runs["study"] == f"{STUDY}/trace-adam"]
    sizes = sorted(mine["step_size"].astype(float).unique())
    lines = [["", *(f"α = {size:.0e}" for size in sizes)]]
    for name, rule in (("QRC(λ), β on the output of h", "tdrc"), ("Q(λ)", "td")):
        found = mine[mine["rule"] == rule].groupby(mine["step_size"].astype(float))["final"]
        cells = {size: f"{x.mean():.1f} ± {x.sem():.1f}" for size, x in found}
        lines.append([name, *(cells.get(size, "") for size in sizes)])
    return markdown(lines)


def draw(runs: Table, envs: Sequence[str], path: Path) -> None:
    """A panel for each environment: the final return by step, a line for each optimiser."""
    envs = [env for env in envs if ((runs["study"] == STUDY) & (runs["env"] == env)).any()]
    figure = blank(4.0 * len(envs), 4.6)
    panels = figure.subplots(1, len(envs), squeeze=False)[0]
    seeds = set[int]()
    for panel, env in zip(panels, envs, strict=True):
        for name, (*_, colour, style) in SERIES.items():
            mine = of_series(runs, name)
            found = sorted(summaries(mine[mine["env"] == env]).items())
            if len(found) < 2:
                continue
            at = [times for times, _ in found]
            mean, error, counts = zip(*(values for _, values in found), strict=True)
            seeds |= set(counts)
            panel.errorbar(
                at, mean, yerr=error, color=colour, linestyle=style, marker="o", markersize=4,
                capsize=3, label=name,
            )  # fmt: skip
        panel.set(title=env, xscale="log", xlabel="step, in times of the usual one")
        panel.set_xticks(TIMES, [f"{times:g}" for times in TIMES])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    of = " or ".join(map(str, sorted(seeds)))
    panels[0].set_ylabel(f"return in the last tenth,\nmean of {of} seeds ± standard error")
    lines = {
        name: line
        for panel in panels
        for line, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    shown = [name for name in SERIES if name in lines]
    figure.legend(
        [lines[name] for name in shown], shown, loc="outside lower center", ncols=2, frameon=False
    )
    figure.suptitle("How wide is the range of step sizes that works?", weight="bold")
    save(figure, path)


def bound_table(root: Path = ROOT) -> str:
    """ObGD's steps in runs of SGD, by environment."""
    lines = [["", "steps made", "of w: median (5 to 95 %)", "of θ: median (5 to 95 %)"]]
    for row in json.loads((root / STUDY / "bound.json").read_text(encoding="utf-8"))["rows"]:
        cells = [
            f"{middle:.1e} ({low:.1e} to {high:.1e})"
            for low, middle, high in (row["w"], row["theta"])
        ]
        lines.append([row["env"], f"{row['step']:,}", *cells])
    return markdown(lines)


def bounded_step(error: np.ndarray, norm: Any) -> np.ndarray:
    """ObGD's step size with α = 1, from the TD error and |z|₁."""
    return 1 / np.maximum(KAPPA * np.maximum(np.abs(error), 1) * norm, 1)


def measure(env: str, at: Sequence[int]) -> list[dict[str, Any]]:
    """How long ObGD's steps would be around these steps of a run of SGD."""
    study = Study(env, ["qrc-output"], 3 * at[-1], range(SEEDS))
    done, rows = 0, []
    for goal in at:
        while done < goal:
            size = min(2_000, goal - done)
            study.runs.advance(size)
            done += size
        steps: dict[str, list[np.ndarray]] = {"w": [], "theta": []}
        for _ in range(LOOKS):
            record = study.runs.advance(3)
            error = np.asarray(record.metrics["td_error"])[:, -1]
            for name, found in steps.items():
                leaves = jax.tree.leaves(getattr(study.runs.state.agent.traces, name))
                norm = sum(
                    np.abs(np.asarray(leaf)).reshape(SEEDS, -1).sum(axis=1) for leaf in leaves
                )
                found.append(bounded_step(error, norm))
        done += 3 * LOOKS
        quantiles = {
            name: np.quantile(found, (0.05, 0.5, 0.95)).tolist() for name, found in steps.items()
        }
        rows.append({"env": title(env), "step": goal, **quantiles})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / STUDY / "bound.json")
    given = parser.parse_args()
    rows = [row for env, at in AT.items() for row in measure(env, at)]
    made = {"jax": jax.__version__, "device": jax.devices()[0].device_kind}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(given.out, {"seeds": SEEDS, "looks": LOOKS, "kappa": KAPPA, "rows": rows} | made)
    print(bound_table(given.out.parents[1]))


if __name__ == "__main__":
    main()
