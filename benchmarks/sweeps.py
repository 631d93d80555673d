"""What a sweep costs beside a plain program, and how long a store of 1,000 runs takes to list.

python -m benchmarks.sweeps [--steps 20000] [--runs 1000]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax

from eligrad._base.files import read_json, write_json
from eligrad.sweeps.jobs import Task, make_jobs
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import Spec, Sweep
from eligrad.sweeps.store import Store
from eligrad.sweeps.worker import work
from eligrad.training import train

GAME = "MinAtar/Breakout-v1"
STEP_SIZES = [10.0**-exponent for exponent in (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5)]
ROUNDS = 3
FILES = ("config.json", "summary.json")


class Watch:
    """Seconds on the wall and of this process's cores; others on the machine change the first."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def plain(folder: Path, steps: int) -> tuple[float, float]:
    """One program over 32 seeds, its compilation included."""
    jax.clear_caches()
    watch = Watch()
    train("qrc", GAME, steps=steps, seeds=32, out=folder / "plain")
    return watch.read()


def sweep(folder: Path, steps: int) -> tuple[float, float]:
    """8 step sizes × 4 seeds, from the claim to the finished run folder."""
    jax.clear_caches()
    spec = Spec([Sweep(["qrc"], [GAME], steps, seeds=4, grid={"step_size": STEP_SIZES})])
    store = Store(folder / "store").create()
    (job,) = make_jobs(resolve(spec), 1, divide=True)
    watch = Watch()
    result = work(Task(str(store.path), job))
    seconds = watch.read()
    assert result.status == "finished", result.message
    assert len(store.finished()) == 32
    return seconds


def sweep_cost(steps: int) -> None:
    ratios = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            one, other = plain(Path(folder), steps), sweep(Path(folder), steps)
        ratios.append([there / here for here, there in zip(one, other, strict=True)])
        print(f"32 seeds {one[0]:.1f} s, 8 step sizes × 4 seeds {other[0]:.1f} s", flush=True)
    wall, cpu = (statistics.median(each) for each in zip(*ratios, strict=True))
    print(f"a sweep costs {wall:.2f} × the plain program ({cpu:.2f} × in core time; goal: below 2)")


def listing(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        train("qrc", "Probe/OffPolicy-v0", steps=200, seeds=1, out=Path(folder) / "one")
        config, summary = (read_json(Path(folder) / "one" / name) for name in FILES)
        for seed in range(runs):
            run = store / "runs" / f"run-s{seed}"
            shutil.copytree(Path(folder) / "one", run)
            config["plan"]["seeds"] = [seed]
            summary["seeds"][0]["seed"] = seed
            for name, content in zip(FILES, (config, summary), strict=True):
                write_json(run / name, content)
        command = [sys.executable, "-m", "eligrad", "runs", "ls", str(store)]
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            times.append(time.perf_counter() - began)
            assert f"{runs} runs, {runs} finished" in told
        print(f"eligrad runs ls, {runs} runs: {statistics.median(times):.2f} s (goal: below 2)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    listing(given.runs)
    sweep_cost(given.steps)


if __name__ == "__main__":
    main()
