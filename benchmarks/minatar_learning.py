"""Learning curves of the streaming agents on MinAtar, many seeds in one program.

    python -m benchmarks.minatar_learning --steps 200000 --seeds 12 --out results/minatar

Writes one JSON file for each game and agent: the mean return of each seed on a grid of steps, the
final performance (episodes that ended in the last tenth), divergences, and how it was made. Files
that are there already are skipped, so that an interrupted command can be given again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.envs import Environment, make
from eligrad.train.stream import Runs

GAMES = ("Breakout", "SpaceInvaders", "Asterix", "Freeway", "Seaquest")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qrc": ("qrc", {}),
    "qrc-h0.1": ("qrc", {"h_scale": 0.1}),
    "qrc-watkins": ("qrc", {"trace_cut": "watkins"}),
    "stream-q": ("stream-q", {}),
    "q-lambda": ("q-lambda", {}),
    "qc": ("qc", {}),
    "gq2": ("gq2", {}),
    "random": ("q-lambda", {"epsilon_start": 1.0, "epsilon_end": 1.0, "step_size": 0.0}),
}
POINTS = 50
DIVERGED = 1e6
"""An absolute TD error above this, of normalised rewards, counts as divergence."""


def run(game: str, variant: str, steps: int, seeds: int, chunk: int) -> dict[str, Any]:
    preset, changes = VARIANTS[variant]
    config = (
        dataclasses.replace(PRESETS[preset], exploration_steps=0.2 * steps, **changes)
        if variant != "random"
        else dataclasses.replace(PRESETS[preset], **changes)
    )
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    agent = QLambda(config, default_network(env.observation_space.shape, env.action_space.n))
    began = time.perf_counter()
    runs = Runs(agent, env, env.default_params(), np.arange(seeds), 10_000 + np.arange(seeds))
    totals, counts = np.zeros((2, seeds, POINTS))
    final_total, final_count = np.zeros((2, seeds))
    diverged_at = np.full(seeds, -1)
    compiled = 0.0
    for first in range(0, steps, chunk):
        records = runs.advance(min(chunk, steps - first))
        ended, returns = np.asarray(records.ended), np.asarray(records.episode_return)
        error = np.abs(np.asarray(records.td_error))
        bad = ~(error < DIVERGED)
        for seed in np.flatnonzero(bad.any(axis=1) & (diverged_at < 0)):
            diverged_at[seed] = first + int(np.argmax(bad[seed])) + 1
        for seed, t in np.argwhere(ended):
            step = first + t
            point = step * POINTS // steps
            totals[seed, point] += returns[seed, t]
            counts[seed, point] += 1
            if step >= 0.9 * steps:
                final_total[seed] += returns[seed, t]
                final_count[seed] += 1
        if first == 0:
            compiled = time.perf_counter() - began
    wall = time.perf_counter() - began
    with np.errstate(invalid="ignore"):
        final, curve = final_total / final_count, totals / counts
    finished = final[~np.isnan(final)]
    return {
        "game": game,
        "variant": variant,
        "config": dataclasses.asdict(config),
        "steps": steps,
        "seeds": seeds,
        "final_mean": float(np.mean(finished)),
        "final_standard_error": float(np.std(finished, ddof=1) / np.sqrt(len(finished))),
        "final_per_seed": final.tolist(),
        "diverged_at": diverged_at.tolist(),
        "grid": [(i + 1) * steps // POINTS for i in range(POINTS)],
        "curve_per_seed": np.round(curve, 4).tolist(),
        "wall_seconds": wall,
        "first_chunk_seconds": compiled,
        "steps_per_second_in_sum": seeds * (steps - chunk) / (wall - compiled),
        "made_with": {
            "command": " ".join(["python -m benchmarks.minatar_learning", *sys.argv[1:]]),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "device": jax.devices()[0].device_kind,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=GAMES, choices=GAMES)
    parser.add_argument("--agents", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--steps", type=lambda s: int(float(s)), default=200_000)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("results/minatar"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for game in arguments.games:
        for variant in arguments.agents:
            path = arguments.out / f"{game}-{variant}.json"
            if path.exists():
                continue
            result = run(game, variant, arguments.steps, arguments.seeds, arguments.chunk)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(result, indent=1))
            partial.replace(path)
            stopped = sum(step >= 0 for step in result["diverged_at"])
            print(
                f"{game:<14}{variant:<12}{result['final_mean']:>8.2f} ± "
                f"{result['final_standard_error']:.2f}  diverged {stopped}/{arguments.seeds}  "
                f"{result['steps_per_second_in_sum']:>10,.0f} steps/s  "
                f"{result['wall_seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
