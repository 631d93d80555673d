"""PPO, Gradient PPO and the streaming actor-critics on MuJoCo, four tasks.

    python -m benchmarks.mujoco_learning --steps 300000 --seeds 3 --runs runs/mujoco --out results/mujoco
    python -m benchmarks.results

Run folders go to `--runs`; one that is there already goes on to the end, if it is not there.
A JSON file for each goes to `--out`: settings, final return and curve of each seed, and the command.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from eligrad._base.files import write_json
from eligrad.engines import keep_compiled_programs
from eligrad.runs.folder import RunFolder
from eligrad.runs.plot import curves
from eligrad.training import resume, train

TASKS = ("Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Ant-v4")
# The settings of Gradient PPO by variant.
GRADIENT_PPO: dict[str, dict[str, Any]] = {
    f"{rule}-{advantage}": {"rule": rule, "advantage": advantage}
    for rule in ("tdrc", "tdc", "gtd2", "td")
    for advantage in ("fresh", "stale")
} | {
    "tdrc-head": {"regularize": "head"},
    "tdrc-output": {"regularize": "output"},
    "tdrc-features": {"regularize": "output", "h": "features"},
}
TWO = {"minibatch_size": 64}
"""Two sequences in a minibatch, so that the policy makes 128 steps for each rollout, as in PPO."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "ppo-critic": ("ppo", {"critic_step_size": 3e-3}),
    **{name: ("gradient-ppo", settings) for name, settings in GRADIENT_PPO.items()},
    **{
        f"{name}-two": ("gradient-ppo", GRADIENT_PPO[name] | TWO)
        for name in ("td-fresh", "tdrc-fresh", "tdrc-output")
    },
    **{agent: (agent, {}) for agent in ("stream-ac", "gradient-ac")},
}
OF_THE_PAPER = [
    "ppo",
    *(
        f"{rule}-{advantage}"
        for rule in ("tdrc", "tdc", "gtd2")
        for advantage in ("fresh", "stale")
    ),
]


def extract(folder: Path, task: str, variant: str) -> dict[str, Any]:
    """What the tables and the figure need of a run, in plain numbers."""
    run = RunFolder.open(folder)
    config, summary = run.config, json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    plan = config["plan"]
    at, each = curves(run.tables(), plan["seeds"], summary["steps"])
    rows = [[None if np.isnan(y) else round(float(y), 2) for y in row] for row in each]
    return {
        "task": task,
        "variant": variant,
        "agent": plan["agent"],
        "settings": plan["settings"],
        "seeds": plan["seeds"],
        "steps": summary["steps"],
        "final": [row["return_last"] for row in summary["seeds"]],
        "area": [row["return_area"] for row in summary["seeds"]],
        "diverged_runs": [row["diverged_step"] is not None for row in summary["seeds"]],
        "curve_steps": at.tolist(),
        "curves": rows,
        "versions": config["sessions"][-1],
        "earlier_versions": config["sessions"][:-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--variants", nargs="+", default=OF_THE_PAPER, choices=list(VARIANTS))
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--runs", type=Path, default=Path("runs/mujoco"))
    parser.add_argument("--out", type=Path, default=Path("results/mujoco"))
    arguments = parser.parse_args()
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    keep_compiled_programs()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for task in arguments.tasks:
        for variant in arguments.variants:
            folder = arguments.runs / f"{task}-{variant}"
            agent, settings = VARIANTS[variant]
            common = {"processes": arguments.processes, "progress": True}
            if folder.exists():
                there = RunFolder.open(folder).config["plan"]["seeds"]
                if there != seeds:
                    raise ValueError(f"{folder} has the seeds {there}, and not {seeds}")
                resume(folder, steps=arguments.steps, **common)
            else:
                train(
                    agent, task, steps=arguments.steps, seeds=seeds, out=folder, **common,
                    **settings,
                )  # fmt: skip
            write_json(arguments.out / f"{task}-{variant}.json", extract(folder, task, variant))


if __name__ == "__main__":
    main()
