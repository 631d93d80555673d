"""What a step costs, by the network's width, cores and seeds, length of sequences, and agents.

    python -m benchmarks.scaling --measure   # writes benchmarks/scaling.json, then the figure
    python -m benchmarks.scaling --agents    # the same for agents in one program, on a GPU
    python -m benchmarks.scaling             # draws docs/images/scaling.png from it

Times of one run or one minibatch are the processor's, the best of many short rounds: other programs
on the machine count as little as they can. Steps of several seeds or agents are by the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np

from benchmarks.record import record
from benchmarks.rules_cost import minibatch, minibatch_gradient
from eligrad._base.files import read_json
from eligrad.agents import QLambda, QLambdaConfig
from eligrad.agents.network import from_equinox
from eligrad.engines.devices import device_for_each_run
from eligrad.engines.stream import Runs
from eligrad.envs import Discrete, Environment, make
from eligrad.nets.cnn import CNN, Window

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

ROOT = Path(__file__).parent.parent
DATA, FIGURE = ROOT / "benchmarks/scaling.json", ROOT / "docs/images/scaling.png"
HIDDEN = (32, 64, 128, 256, 512)
SEEDS = (1, 2, 4)
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
AGENTS = (1, 48, 150, 600, 1200)
TRANSITIONS, STEPS, STEPS_ON_GPU = 256, 40, 1000


def qrc(hidden: int, seeds: int, rule: str = "tdrc") -> Runs:
    """Runs on Breakout, whose network has 16 filters and so many hidden units."""
    env = make("MinAtar/Breakout-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    shape, actions, window = env.observation_space.shape, env.action_space.n, Window(16, 3, 1)
    network = from_equinox(
        lambda key, sparsity: CNN(
            shape, actions, windows=(window,), hidden=hidden, sparsity=sparsity, key=key
        )
    )
    agent = QLambda(QLambdaConfig(rule=rule), network)
    runs = Runs(agent, env, env.default_params(), np.arange(seeds), np.arange(seeds))
    runs.advance(STEPS)
    return runs


def best(
    run: Callable[[], Any], rounds: int, clock: Callable[[], float] = time.process_time
) -> float:
    """The shortest time of a round, in µs."""
    times = []
    for _ in range(rounds + 1):
        began = clock()
        jax.block_until_ready(run())
        times.append(clock() - began)
    return 1e6 * min(times[1:])


def measure_widths(rounds: int) -> None:
    for hidden in HIDDEN:
        runs = {rule: qrc(hidden, 1, rule) for rule in ("tdrc", "td")}
        cost = {r: best(partial(runs[r].advance, STEPS), rounds) / STEPS for r in runs}
        for rule, title in (("tdrc", "QRC(λ)"), ("td", "Q(λ)")):
            ratio = cost[rule] / cost["td"]
            record(
                "width", f"{title}, {hidden}", cost[rule], "µs", ratio=ratio, to="Q(λ)", file=DATA
            )


def measure_lengths(rounds: int) -> None:
    for length in LENGTHS:
        batch = minibatch(TRANSITIONS // length, length)
        functions = {name: minibatch_gradient(name) for name in ("tdrc", "td")}
        cost = {n: best(partial(functions[n], *batch), 10 * rounds) for n in functions}
        for name, title in (("tdrc", "TDRC(λ)"), ("td", "TD(λ)")):
            ratio = cost[name] / cost["td"]
            record(
                "length", f"{title}, {length}", cost[name], "µs", ratio=ratio, to="TD(λ)", file=DATA
            )


def measure_seeds(rounds: int, seeds: int) -> None:
    """In a process of its own: JAX sees a device for each seed."""
    cores = len(os.sched_getaffinity(0))
    device_for_each_run(seeds)
    runs = qrc(128, seeds)
    rate = 1e6 * seeds * STEPS / best(partial(runs.advance, STEPS), rounds, time.perf_counter)
    record("cores", f"{cores} cores, {seeds} seeds", rate, "steps/s", file=DATA)


def measure_agents() -> None:
    for agents in AGENTS:
        for rule, title in (("tdrc", "QRC(λ)"), ("td", "Q(λ)")):
            advance = partial(qrc(128, agents, rule).advance, STEPS_ON_GPU)
            rate = 1e6 * agents * STEPS_ON_GPU / best(advance, 4, time.perf_counter)
            record("agents", f"{title}, {agents}", rate, "steps/s", file=DATA)


def draw() -> None:
    rows = {(row["benchmark"], row["name"]): row["value"] for row in read_json(DATA)}
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.2))
    axes = axes.ravel()

    def lines(axis: Axes, benchmark: str, titles: tuple[str, ...], at: tuple[int, ...]) -> None:
        for title, marker in zip(titles, "os", strict=True):
            axis.plot(
                at, [rows[benchmark, f"{title}, {x}"] for x in at], marker=marker, label=title
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(at, [str(x) for x in at])
        axis.set_ylim(bottom=0)
        axis.legend()

    lines(axes[0], "width", ("QRC(λ)", "Q(λ)"), HIDDEN)
    axes[0].set(xlabel="hidden units", ylabel="µs a step", title="Width: one agent, one core")
    for cores, marker in ((1, "o"), (2, "s")):
        rates = [rows["cores", f"{cores} cores, {seeds} seeds"] for seeds in SEEDS]
        label = "1 core" if cores == 1 else f"{cores} cores"
        axes[1].plot(SEEDS, rates, marker=marker, label=label)
    axes[1].set(xlabel="seeds", ylabel="steps/s of all seeds", title="Cores: QRC(λ), 128 units")
    axes[1].set_xticks(SEEDS)
    axes[1].set_ylim(bottom=0)
    axes[1].legend()
    lines(axes[2], "length", ("TDRC(λ)", "TD(λ)"), LENGTHS)
    axes[2].set(
        xlabel="transitions in a sequence", ylabel="µs a minibatch",
        title=f"Sequences: {TRANSITIONS} transitions",
    )  # fmt: skip
    lines(axes[3], "agents", ("QRC(λ)", "Q(λ)"), AGENTS)
    axes[3].set(
        xlabel="agents in one program", ylabel="steps/s of all agents", title="Agents: one H200"
    )
    axes[3].yaxis.set_major_formatter("{x:,.0f}")
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, help="measure these alone, in this process")
    parser.add_argument("--agents", action="store_true", help="measure them alone, on a GPU")
    given = parser.parse_args()
    if given.seeds:
        return measure_seeds(given.rounds, given.seeds)
    if given.agents:
        measure_agents()
    if given.measure:
        again = [sys.executable, "-m", "benchmarks.scaling", "--rounds", str(given.rounds)]
        cores = sorted(os.sched_getaffinity(0))
        for some in (cores[:2], cores[-1:]):
            os.sched_setaffinity(0, some)
            for seeds in SEEDS:
                subprocess.run([*again, "--seeds", str(seeds)], check=True)
        measure_widths(given.rounds)
        measure_lengths(given.rounds)
    draw()


if __name__ == "__main__":
    main()
