"""Steps per second of streaming agents with their game, for numbers of agents in one program.

    python -m benchmarks.streaming_speed --agents 1 8 48 150 --games Breakout Seaquest
    taskset -c 0 python -m benchmarks.streaming_speed --agents 1 --games Breakout \
        --variants q-lambda qrc qrc-features-output --repeats 20

Variants are those of `learning.py`. They take turns in each repeat, and the best of their times
count; the last column is the time of a step over that of the first variant.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

from benchmarks.learning import config_of, variant
from eligrad.agents import QLambda, default_network
from eligrad.engines.stream import Runs
from eligrad.envs import Discrete, Environment, make


def begin(game: str, variant: str, agents: int, steps: int) -> tuple[Runs, float]:
    """Runs whose program is made, and the seconds that took."""
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    network = default_network(env.observation_space.shape, env.action_space.n)
    began = time.perf_counter()
    agent = QLambda(config_of(variant, 1_000_000), network)
    runs = Runs(agent, env, env.default_params(), np.arange(agents), np.arange(agents))
    jax.block_until_ready(runs.advance(steps))
    return runs, time.perf_counter() - began


def seconds(runs: Runs, steps: int) -> float:
    """How long so many steps take."""
    began = time.perf_counter()
    jax.block_until_ready(runs.advance(steps))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--games", nargs="+", default=["Breakout", "Seaquest"])
    parser.add_argument(
        "--variants", nargs="+", type=variant, default=["q-lambda", "qrc", "stream-q"]
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(
        f"{'game':<14}{'agent':<28}{'runs':>6}{'steps/s':>12}{'µs a step':>11}{'compile':>9}"
        f"{'ratio':>8}"
    )
    for game in given.games:
        for agents in given.agents:
            begun = {v: begin(game, v, agents, given.steps) for v in given.variants}
            times = dict.fromkeys(given.variants, float("inf"))
            for _ in range(given.repeats):
                for v, (runs, _) in begun.items():
                    times[v] = min(times[v], seconds(runs, given.steps))
            for v, (_, compiled) in begun.items():
                speed = agents * given.steps / times[v]
                print(
                    f"{game:<14}{v:<28}{agents:>6}{speed:>12,.0f}{1e6 / speed * agents:>11.0f}"
                    f"{compiled:>8.1f}s{times[v] / times[given.variants[0]]:>8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
