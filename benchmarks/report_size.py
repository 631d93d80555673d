"""Size of a report, and the time to write it and to open it in Chromium.

    python -m benchmarks.report_size [--runs 300]

Runs are made up: five environments, three agents, as many seeds as that takes, 5,000 episodes each.
The time to open is that of a browser that loads and draws the page, less that of an empty page. On
a busy machine the processor's time says more than the clock's.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eligrad.agents import PRESETS, TITLES
from eligrad.analysis.report import build_report
from eligrad.runs.configuration import Configuration
from eligrad.runs.provenance import provenance

ENVS = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
AGENTS = ("qrc", "q-lambda", "stream-q")
STEPS = 5_000_000
EPISODES = 5_000
REPEATS = 5


def make(count: int) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, dict[str, Any]]]:
    """Tables of runs and episodes, and configurations."""
    random = np.random.default_rng(0)
    rows, episodes, configs = [], [], {}
    session = provenance()
    for place in range(count):
        agent, env = AGENTS[place % 3], f"MinAtar/{ENVS[place // 3 % 5]}-v1"
        configuration = Configuration(agent, vars(PRESETS[agent]), env, STEPS)
        run, seed = f"runs/{configuration.hash}-s{place // 15}", place // 15
        step = np.sort(random.choice(STEPS, EPISODES, replace=False)) + 1
        returns = random.gamma(2.0, 1 + 10 * step / STEPS)
        length = np.diff(step, prepend=0)
        episodes.append(
            pd.DataFrame({"run": run, "step": step, "return": returns, "length": length})
        )
        rows.append(
            {"run": run, "agent": agent, "title": TITLES[agent], "env": env, "seed": seed}
            | {"steps": STEPS, "step": STEPS, "finished": True, "diverged_step": None}
            | {"config_hash": configuration.hash, "seconds": 100.0, "steps_per_second": 5e4}
            | {f"return_{name}": returns.mean() for name in ("last", "all", "area")}
            | {f"settings.{name}": value for name, value in configuration.settings.items()}
        )
        configs[run] = {
            "configuration": dataclasses.asdict(configuration),
            "sessions": [session],
        }
    return pd.DataFrame(rows), pd.concat(episodes, ignore_index=True), configs


def seconds_to_open(chromium: str, address: str) -> tuple[float, float]:
    """Least wall-clock and processor time of a browser that shows one page and ends."""
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", address]
    wall, processor = [], []
    for _ in range(REPEATS):
        begun, used = time.perf_counter(), _processor_seconds()
        subprocess.run(command, check=True, capture_output=True)
        wall.append(time.perf_counter() - begun)
        processor.append(_processor_seconds() - used)
    return min(wall), min(processor)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    runs, episodes, configs = make(parser.parse_args().runs)
    begun = time.perf_counter()
    page = build_report(runs, episodes, configs)
    print(f"{len(runs)} runs, {len(episodes):,} episodes")
    print(f"made in {time.perf_counter() - begun:.2f} s")
    print(f"size {len(page.encode()) / 1e6:.2f} MB")
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium here: not opened")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        empty, full = (seconds_to_open(chromium, a) for a in ("about:blank", path.as_uri()))
    for clock, less, more in zip(("wall clock", "processor"), empty, full, strict=True):
        print(f"opened in {more - less:.2f} s by the {clock} (an empty page: {less:.2f} s)")


if __name__ == "__main__":
    main()
