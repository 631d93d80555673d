"""Learning curves of the streaming agents on MinAtar, many seeds in one program.

    python -m benchmarks.minatar_learning --agents qrc stream-q --steps 200000 --out results/minatar

Writes one JSON file for each game and agent: the mean return of each seed on a grid of steps, the
final performance (episodes that ended in the last tenth), divergences, and how it was made. Files
that are there already are skipped, so that an interrupted command can be given again. An agent may
have settings after a colon: `qrc:regularize=output,beta=0.3`. With `--minutes` a program that is
not done by then writes what it has: `steps` are those reached, and the last tenth is theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from eligrad.agents import PRESETS, QLambda, QLambdaConfig, default_network, make_settings
from eligrad.engines.stream import Runs
from eligrad.envs import Discrete, Environment, make

GAMES = ("Breakout", "SpaceInvaders", "Asterix", "Freeway", "Seaquest")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qrc": ("qrc", {}),
    "qrc-h0.1": ("qrc", {"h_scale": 0.1}),
    "qrc-beta0.1": ("qrc", {"beta": 0.1}),
    "qrc-beta0.01": ("qrc", {"beta": 0.01}),
    "qrc-watkins": ("qrc", {"trace_cut": "watkins"}),
    "stream-q": ("stream-q", {}),
    "q-lambda": ("q-lambda", {}),
    "q-lambda-sparse": ("q-lambda", {"sparsity": 0.9}),
    "qc": ("qc", {}),
    "gq2": ("gq2", {}),
    "random": ("q-lambda", {"epsilon_end": 1.0, "step_size": 0.0}),
}
POINTS = 50
DIVERGED = 1e6
"""An absolute TD error above this, of normalised rewards, counts as divergence."""


def config_of(variant: str, steps: int) -> QLambdaConfig:
    name, _, settings = variant.partition(":")
    preset, changes = VARIANTS[name]
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        kind = type(getattr(PRESETS[preset], key))
        changes = changes | {key: value if kind is str else float(value)}
    return make_settings(preset, changes, steps=steps)


def programs(variants: list[str], steps: int) -> list[list[str]]:
    """Variants that differ in numbers alone share a program."""
    groups: dict[Any, list[str]] = {}
    for variant in variants:
        shape = jax.tree.structure(config_of(variant, steps))
        groups.setdefault(shape, []).append(variant)
    return list(groups.values())


def run(
    game: str,
    variants: list[str],
    steps: int,
    seeds: int,
    chunk: int,
    first_seed: int = 0,
    minutes: float = math.inf,
) -> dict[str, dict[str, Any]]:
    """Results by variant; all of them have the same seeds."""
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    configs = [config_of(variant, steps) for variant in variants]
    batch = jax.tree.map(
        lambda *numbers: np.repeat(np.asarray(numbers, np.float32), seeds), *configs
    )
    agents = QLambda(batch, default_network(env.observation_space.shape, env.action_space.n))
    seed_of = np.tile(first_seed + np.arange(seeds), len(variants))
    count = len(seed_of)

    began = time.perf_counter()
    runs = Runs(agents, env, env.default_params(), seed_of, 10_000 + seed_of)
    totals, counts = np.zeros((2, count, POINTS))
    tenths, ends = np.zeros((2, count, 10 * POINTS))
    diverged_at = np.full(count, -1)
    compiled, reached = 0.0, 0
    for first in tqdm(range(0, steps, chunk), desc=f"{game} {' '.join(variants)}", mininterval=1):
        records = runs.advance(min(chunk, steps - first))
        returns = np.asarray(records.episode_return)
        bad = ~(np.abs(np.asarray(records.metrics["td_error"])) < DIVERGED)
        for i in np.flatnonzero(bad.any(axis=1) & (diverged_at < 0)):
            diverged_at[i] = first + int(np.argmax(bad[i])) + 1
        row, t = np.nonzero(np.asarray(records.ended))
        np.add.at(totals, (row, (first + t) * POINTS // steps), returns[row, t])
        np.add.at(counts, (row, (first + t) * POINTS // steps), 1)
        fine = (first + t) * 10 * POINTS // steps
        np.add.at(tenths, (row, fine), returns[row, t])
        np.add.at(ends, (row, fine), 1)
        reached = min(first + chunk, steps)
        if first == 0:
            compiled = time.perf_counter() - began
        if time.perf_counter() - began > 60 * minutes:
            break
    wall = time.perf_counter() - began
    last = slice(round(0.9 * reached * 10 * POINTS / steps), None)
    with np.errstate(invalid="ignore"):
        final = tenths[:, last].sum(axis=1) / ends[:, last].sum(axis=1)
        curve = totals / counts

    results = {}
    for k, variant in enumerate(variants):
        mine = slice(k * seeds, (k + 1) * seeds)
        finished = final[mine][~np.isnan(final[mine])]
        results[variant] = {
            "game": game,
            "variant": variant,
            "config": dataclasses.asdict(configs[k]),
            "steps": reached,
            "planned_steps": steps,
            "seeds": seeds,
            "first_seed": first_seed,
            "final_mean": float(np.mean(finished)),
            "final_standard_error": float(np.std(finished, ddof=1) / np.sqrt(len(finished))),
            "final_per_seed": listed(final[mine], 4),
            "diverged_at": diverged_at[mine].tolist(),
            "grid": [(i + 1) * steps // POINTS for i in range(POINTS)],
            "curve_per_seed": [listed(row, 3) for row in curve[mine]],
            "wall_seconds": round(wall, 1),
            "runs_in_the_program": count,
            "steps_per_second_in_sum": round(count * max(reached - chunk, 0) / (wall - compiled)),
            "made_with": {
                "command": " ".join(["python -m benchmarks.minatar_learning", *sys.argv[1:]]),
                "python": platform.python_version(),
                "jax": jax.__version__,
                "device": jax.devices()[0].device_kind,
            },
        }
    return results


def listed(values: np.ndarray, digits: int) -> list[float | None]:
    """Numbers for JSON; None where no episode ended."""
    return [None if np.isnan(value) else round(float(value), digits) for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=GAMES, choices=GAMES)
    parser.add_argument("--agents", nargs="+", default=list(VARIANTS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--steps", type=lambda s: int(float(s)), default=200_000)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--chunk", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("results/minatar"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for game in arguments.games:
        missing = [v for v in arguments.agents if not path_of(arguments.out, game, v).exists()]
        for variants in programs(missing, arguments.steps):
            results = run(
                game, variants, arguments.steps, arguments.seeds, arguments.chunk,
                arguments.first_seed, arguments.minutes,
            )  # fmt: skip
            for variant, result in results.items():
                path = path_of(arguments.out, game, variant)
                partial = path.with_suffix(".partial")
                partial.write_text(json.dumps(result))
                partial.replace(path)
                stopped = sum(step >= 0 for step in result["diverged_at"])
                print(
                    f"{game:<14}{variant:<12}{result['final_mean']:>8.2f} ± "
                    f"{result['final_standard_error']:.2f}  diverged {stopped}/{arguments.seeds}  "
                    f"{result['steps_per_second_in_sum']:>10,} steps/s  "
                    f"{result['wall_seconds']:.0f} s",
                    flush=True,
                )


def path_of(out: Path, game: str, variant: str) -> Path:
    return out / f"{game}-{variant.replace(':', '-').replace('=', '').replace(',', '-')}.json"


if __name__ == "__main__":
    main()
