"""PPO and Gradient PPO on two classics with their default settings: how soon they are solved.

    python -m benchmarks.ppo_classic

A task counts as solved at the step from which on the mean return of the last ten episodes stays at
the mark, in the mean over the seeds. All numbers go to `results/classic/`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from eligrad._base.files import write_json
from eligrad.runs.provenance import provenance
from eligrad.training import train

MARKS = {"CartPole-v1": 475.0, "Pendulum-v1": -300.0}
STEPS = {"CartPole-v1": 150_000, "Pendulum-v1": 300_000}
AGENTS = ("ppo", "gradient-ppo")
LAST = 10


def last_returns(episodes, seeds: list[int], grid: np.ndarray) -> np.ndarray:
    """Mean return of the last episodes of each seed up to each step, [seeds, grid]."""
    table = episodes.to_pandas()
    rows = []
    for seed in seeds:
        of_seed = table[table["seed"] == seed]
        means = of_seed["return"].rolling(LAST, min_periods=1).mean().to_numpy()
        place = np.searchsorted(of_seed["step"].to_numpy(), grid, side="right") - 1
        rows.append(means[np.maximum(place, 0)])
    return np.array(rows)


def solved_at(curve: np.ndarray, grid: np.ndarray, mark: float) -> int | None:
    """The first step from which on the curve stays at the mark."""
    below = np.flatnonzero(curve < mark)
    first = 0 if not below.size else below[-1] + 1
    return int(grid[first]) if first < len(grid) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/classic"))
    arguments = parser.parse_args()
    seeds = list(range(arguments.seeds))
    for task, mark in MARKS.items():
        grid = np.arange(5000, STEPS[task] + 1, 5000)
        for agent in AGENTS:
            began = time.perf_counter()
            result = train(agent, task, steps=STEPS[task], seeds=seeds)
            returns = last_returns(result.episodes, seeds, grid)
            final = returns[:, -1]
            outcome = {
                "agent": agent,
                "task": task,
                "mark": mark,
                "seeds": seeds,
                "steps": STEPS[task],
                "solved_at": solved_at(returns.mean(axis=0), grid, mark),
                "final_mean": float(final.mean()),
                "final_standard_error": float(final.std(ddof=1) / np.sqrt(len(seeds))),
                "grid": grid.tolist(),
                "returns": np.round(returns, 2).tolist(),
                "seconds": round(time.perf_counter() - began, 1),
                "made_by": provenance(),
            }
            arguments.out.mkdir(parents=True, exist_ok=True)
            write_json(arguments.out / f"{task}-{agent}.json", outcome)
            shown = {name: outcome[name] for name in ("solved_at", "final_mean", "seconds")}
            print(f"{task} {agent}: {json.dumps(shown)}", flush=True)


if __name__ == "__main__":
    main()
