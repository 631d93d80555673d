"""Learning curves of streaming agents, many variants and seeds in one program, in pieces.

`minatar_learning` and `classic_control` are the commands. A variant is a name of `VARIANTS`, or a
preset, and changes of its settings: `qrc`, `qrc-output`, `qrc-output:beta=0.3,h_scale=0.1`.
Variants that differ in numbers alone share a program.

Each environment and variant gives one JSON file: the mean return of each seed on a grid of steps,
the final performance (episodes that ended in the last tenth), the size of TD errors and of h
there, divergences, and how it was made. Files that are there already are skipped. With `--minutes`
a command stops in time and ends with exit status 3. It writes what it has, `steps` of the
`planned_steps`, whose last tenth it is then, and its state beside that. Given again, the command
goes on from there, and gives what it would have given in one piece.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from eligrad.agents import PRESETS, QLambda, QLambdaConfig, default_network, make_settings
from eligrad.engines.stream import Runs
from eligrad.envs import Discrete, Environment, make
from eligrad.runs import checkpoint

OBGD = {"optimizer": "obgd", "step_size": 1.0}
PAPER = {"regularize": "parameters"}
"""β acts on all parameters of h, as in the paper; the preset has it act on the output."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "qrc": ("qrc", PAPER),
    "qrc-h0.1": ("qrc", PAPER | {"h_scale": 0.1}),
    "qrc-beta0.1": ("qrc", PAPER | {"beta": 0.1}),
    "qrc-beta0.01": ("qrc", PAPER | {"beta": 0.01}),
    "qrc-watkins": ("qrc", PAPER | {"trace_cut": "watkins"}),
    "qrc-head": ("qrc", {"regularize": "head"}),
    "qrc-output": ("qrc", {"regularize": "output"}),
    "qrc-features": ("qrc", PAPER | {"h": "features"}),
    "qrc-features-output": ("qrc", {"h": "features", "regularize": "output"}),
    "qrc-obgd": ("qrc", PAPER | OBGD),
    "qrc-head-obgd": ("qrc", {"regularize": "head"} | OBGD),
    "qrc-output-obgd": ("qrc", {"regularize": "output"} | OBGD),
    "qrc-features-output-obgd": ("qrc", {"h": "features", "regularize": "output"} | OBGD),
    "stream-q": ("stream-q", {}),
    "q-lambda": ("q-lambda", {}),
    "q-lambda-sparse": ("q-lambda", {"sparsity": 0.9}),
    "qc": ("qc", {}),
    "gq2": ("gq2", {}),
    "random": ("q-lambda", {"epsilon_end": 1.0, "step_size": 0.0}),
}
POINTS = 50
BINS = 10 * POINTS
"""Points of a curve, and the parts of a run by which it is counted."""
LAST = 0.9
"""What comes after this share of the steps is the final performance."""
DIVERGED = 1e6
"""An absolute TD error above this, of normalised rewards, counts as divergence."""
UNFINISHED = 3
"""Exit status of a command that stopped for `--minutes`."""


def config_of(variant: str, steps: int) -> QLambdaConfig:
    """The settings of a variant, e.g. `qrc-output:beta=0.3`."""
    name, _, changes = variant.partition(":")
    preset, settings = VARIANTS.get(name, (name, {}))
    default = PRESETS.get(preset)
    if not isinstance(default, QLambdaConfig):
        raise ValueError(f"{variant!r} begins with {name!r}; one of {', '.join(VARIANTS)} does")
    for change in filter(None, changes.split(",")):
        key, _, value = change.partition("=")
        is_text = isinstance(getattr(default, key, 0.0), str)
        settings = settings | {key: value if is_text else float(value)}
    return make_settings(preset, settings, steps=steps)


def programs(variants: Sequence[str], steps: int) -> list[list[str]]:
    """Variants that differ in numbers alone share a program."""
    groups: dict[Any, list[str]] = {}
    for variant in variants:
        shape = jax.tree.structure(config_of(variant, steps))
        groups.setdefault(shape, []).append(variant)
    return list(groups.values())


class Study:
    """Some variants with the same seeds in one environment, and what was counted of them."""

    def __init__(self, env: str, variants: list[str], steps: int, seeds: range) -> None:
        self.env, self.variants, self.steps, self.seeds = env, variants, steps, seeds
        self.configs = [config_of(variant, steps) for variant in variants]
        made = make(env)
        assert isinstance(made, Environment)
        assert isinstance(made.action_space, Discrete)
        batch = jax.tree.map(
            lambda *numbers: np.repeat(np.asarray(numbers, np.float32), len(seeds)), *self.configs
        )
        network = default_network(made.observation_space.shape, made.action_space.n)
        seed_of = np.tile(np.asarray(seeds), len(variants))
        self.runs = Runs(
            QLambda(batch, network), made, made.default_params(), seed_of, 10_000 + seed_of
        )
        count = len(seed_of)
        self.done = 0
        self.tally = {
            "returns": np.zeros((count, BINS)),
            "episodes": np.zeros((count, BINS)),
            "td_error": np.zeros((count, BINS)),
            "h": np.zeros((count, BINS)),
            "steps": np.zeros(BINS),
            "diverged_at": np.full(count, -1),
            "seconds": np.zeros(()),
            "timed_steps": np.zeros(()),
            "timed_seconds": np.zeros(()),
        }

    @property
    def identity(self) -> str:
        """Names the saved state: equal for the same runs."""
        what = [self.env, [dataclasses.asdict(c) for c in self.configs], self.steps, [*self.seeds]]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]

    def advance(self, chunk: int, until: float) -> bool:
        """Goes on to the end, or until a chunk more would end after that time; whether it is over.

        The time is one of `time.monotonic`.
        """
        title = f"{self.env} {' '.join(self.variants)}"
        longest, began = 0.0, time.monotonic()
        with tqdm(total=self.steps, initial=self.done, desc=title, mininterval=1) as bar:
            while self.done < self.steps and began + longest < until:
                size = min(chunk, self.steps - self.done)
                self._count(self.runs.advance(size))
                now = time.monotonic()
                self.tally["seconds"] += now - began
                if longest:  # else it was compiled
                    self.tally["timed_seconds"] += now - began
                    self.tally["timed_steps"] += size
                longest, began = max(longest, now - began), now
                bar.update(size)
        return self.done == self.steps

    def _count(self, records: Any) -> None:
        """Adds what a chunk's records say."""
        tally, ended = self.tally, np.asarray(records.ended)
        returns, error = np.asarray(records.episode_return), np.asarray(records.metrics["td_error"])
        bad = ~(np.abs(error) < DIVERGED)
        for i in np.flatnonzero(bad.any(axis=1) & (tally["diverged_at"] < 0)):
            tally["diverged_at"][i] = self.done + int(np.argmax(bad[i])) + 1
        bins = (self.done + np.arange(ended.shape[1])) * BINS // self.steps
        row, t = np.nonzero(ended)
        np.add.at(tally["returns"], (row, bins[t]), returns[row, t])
        np.add.at(tally["episodes"], (row, bins[t]), 1)
        np.add.at(tally["steps"], bins, 1)
        for name in ("td_error", "h"):
            if name in records.metrics:
                size = np.abs(np.asarray(records.metrics[name], np.float64))
                for i in np.unique(bins):
                    tally[name][:, i] += size[:, bins == i].sum(axis=1)
        self.done += ended.shape[1]

    def save(self, path: Path) -> None:
        """Writes all that is needed to go on."""
        checkpoint.save(
            path, {"runs": self.runs.state, "tally": self.tally}, header={"step": self.done}
        )

    def load(self, path: Path) -> None:
        """Goes back to where `save` was called."""
        like = {"runs": self.runs.state, "tally": self.tally}
        content, header = checkpoint.load(path, like)
        self.runs.state, self.tally, self.done = content["runs"], content["tally"], header["step"]

    def results(self) -> dict[str, dict[str, Any]]:
        """What goes into the files, by variant."""
        tally, count = self.tally, len(self.seeds)
        last = slice(round(LAST * self.done * BINS / self.steps), None)
        returns, episodes = (
            tally[name].reshape(-1, POINTS, BINS // POINTS).sum(axis=2)
            for name in ("returns", "episodes")
        )
        with np.errstate(invalid="ignore"):
            curve = returns / episodes
            final = tally["returns"][:, last].sum(axis=1) / tally["episodes"][:, last].sum(axis=1)
        sizes = {
            name: tally[name][:, last].sum(axis=1) / tally["steps"][last].sum()
            for name in ("td_error", "h")
        }
        results = {}
        for k, (variant, config) in enumerate(zip(self.variants, self.configs, strict=True)):
            mine = slice(k * count, (k + 1) * count)
            finished = final[mine][~np.isnan(final[mine])]
            error = np.std(finished, ddof=1) / np.sqrt(len(finished)) if len(finished) > 1 else 0.0
            results[variant] = {
                "game": title(self.env),
                "env": self.env,
                "variant": variant,
                "config": dataclasses.asdict(config),
                "steps": self.done,
                "planned_steps": self.steps,
                "first_seed": self.seeds.start,
                "seeds": count,
                "final_mean": float(np.mean(finished)) if len(finished) else None,
                "final_standard_error": float(error),
                "final_per_seed": listed(final[mine], 4),
                "final_abs_td_error_per_seed": listed(sizes["td_error"][mine], 6),
                "final_abs_h_per_seed": listed(sizes["h"][mine], 6),
                "diverged_at": tally["diverged_at"][mine].tolist(),
                "grid": [(i + 1) * self.steps // POINTS for i in range(POINTS)],
                "curve_per_seed": [listed(row, 3) for row in curve[mine]],
                "wall_seconds": round(float(tally["seconds"]), 1),
                "runs_in_the_program": len(final),
                "steps_per_second_in_sum": round(
                    len(final) * float(tally["timed_steps"] / max(tally["timed_seconds"], 1e-9))
                ),
                "made_with": {
                    "command": " ".join(
                        [f"python -m benchmarks.{name_of_command()}", *sys.argv[1:]]
                    ),
                    "python": platform.python_version(),
                    "jax": jax.__version__,
                    "device": jax.devices()[0].device_kind,
                },
            }
        return results


def name_of_command() -> str:
    """The module that was started."""
    return Path(sys.argv[0]).stem


def listed(values: np.ndarray, digits: int) -> list[float | None]:
    """Numbers for JSON; None where no episode ended, or where one is not finite."""
    return [round(float(v), digits) if np.isfinite(v) else None for v in values]


def path_of(out: Path, env: str, variant: str) -> Path:
    """Where the result of a variant lies."""
    variant = variant.replace(":", "-").replace(",", "-").replace("=", "")
    return out / f"{title(env)}-{variant}.json"


def title(env: str) -> str:
    """An environment's name in tables and of files: Breakout, CartPole-v1."""
    name = env.rpartition("/")[2]
    return name.removesuffix("-v1") if env.startswith("MinAtar/") else name


def unfinished(path: Path, variant: str, steps: int, seeds: range) -> bool:
    """Whether a result is missing, or less than was planned; refuses that of other runs."""
    if not path.exists():
        return True
    result = json.loads(path.read_text())
    planned = result.get("planned_steps", result["steps"])
    there = {"steps": planned} | {
        name: result[name] for name in ("seeds", "first_seed") if name in result
    }
    asked = {"steps": steps, "seeds": len(seeds), "first_seed": seeds.start}
    asked |= dataclasses.asdict(config_of(variant, steps))
    for name, value in (there | result["config"]).items():
        if name in asked and value != asked[name]:
            raise ValueError(
                f"{name} of {path} is {value}, and {asked[name]} is asked for; another --out is "
                "accepted"
            )
    return result["steps"] < planned


def measure(
    envs: Sequence[str],
    variants: Sequence[str],
    steps: Mapping[str, int],
    seeds: range,
    out: Path,
    chunk: int = 10_000,
    minutes: float = float("inf"),
) -> bool:
    """Runs what has no file yet; whether everything has one now.

    Args:
        envs: names of environments.
        variants: variants of agents.
        steps: environment steps by environment.
        seeds: the seeds of every variant.
        out: the folder of results, and of states that are to go on.
        chunk: steps between two looks at the clock.
        minutes: when to stop and save the state.
    """
    until, all_complete = time.monotonic() + 60 * minutes, True
    out.mkdir(parents=True, exist_ok=True)
    for env in envs:
        paths = {variant: path_of(out, env, variant) for variant in variants}
        todo = [v for v, path in paths.items() if unfinished(path, v, steps[env], seeds)]
        for together in programs(todo, steps[env]):
            if time.monotonic() >= until:
                return False
            study = Study(env, together, steps[env], seeds)
            state = out / f"{study.identity}.state.npz"
            if state.exists():
                study.load(state)
            elif all(paths[variant].exists() for variant in together):
                print(f"{env} {' '.join(together)} was stopped, and its state is gone", flush=True)
                all_complete = False
                continue
            complete = study.advance(chunk, until)
            if not complete:
                study.save(state)
            write(out, env, study.results())
            if not complete:
                print(f"{env} stopped at step {study.done:,} of {study.steps:,}", flush=True)
                return False
            state.unlink(missing_ok=True)
    return all_complete


def write(out: Path, env: str, results: dict[str, dict[str, Any]]) -> None:
    """Writes and prints the results of one program."""
    for variant, result in results.items():
        path = path_of(out, env, variant)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(result))
        partial.replace(path)
        stopped = sum(step >= 0 for step in result["diverged_at"])
        print(
            f"{result['game']:<14}{variant:<40}{result['final_mean'] or np.nan:>8.2f} ± "
            f"{result['final_standard_error']:.2f}  diverged {stopped}/{result['seeds']}  "
            f"{result['steps_per_second_in_sum']:>10,} steps/s  {result['wall_seconds']:.0f} s",
            flush=True,
        )


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that all commands have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--agents", nargs="+", default=list(VARIANTS), type=variant, metavar="VARIANT"
    )
    made.add_argument("--steps", type=lambda s: int(float(s)))
    made.add_argument("--seeds", type=int, default=12)
    made.add_argument("--first-seed", type=int, default=0)
    made.add_argument("--chunk", type=int, default=10_000)
    made.add_argument("--minutes", type=float, default=float("inf"))
    made.add_argument("--out", type=Path)
    return made


def variant(text: str) -> str:
    """A variant that makes sense, from the command line."""
    try:
        config_of(text, 1)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
