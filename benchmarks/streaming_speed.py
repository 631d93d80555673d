"""Steps per second of QRC(λ) with its game, for numbers of agents in one program.

python -m benchmarks.streaming_speed --agents 1 8 48 150 --games Breakout Seaquest
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.engines.stream import Runs
from eligrad.envs import Discrete, Environment, make


def measure(game: str, preset: str, agents: int, steps: int, repeats: int) -> tuple[float, float]:
    """Best steps per second in sum over a few repeats, and the seconds before the first step."""
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    agent = QLambda(
        PRESETS[preset], default_network(env.observation_space.shape, env.action_space.n)
    )
    began = time.perf_counter()
    runs = Runs(agent, env, env.default_params(), np.arange(agents), np.arange(agents))
    jax.block_until_ready(runs.advance(steps))
    compile_seconds = time.perf_counter() - began
    best = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(runs.advance(steps))
        best = max(best, agents * steps / (time.perf_counter() - began))
    return best, compile_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--games", nargs="+", default=["Breakout", "Seaquest"])
    parser.add_argument("--presets", nargs="+", default=["qrc", "q-lambda", "stream-q"])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(f"{'game':<14}{'agent':<12}{'runs':>6}{'steps/s':>12}{'µs a step':>11}{'compile':>9}")
    for game in arguments.games:
        for preset in arguments.presets:
            for agents in arguments.agents:
                speed, compiled = measure(game, preset, agents, arguments.steps, arguments.repeats)
                print(
                    f"{game:<14}{preset:<12}{agents:>6}{speed:>12,.0f}"
                    f"{1e6 * agents / speed:>11.0f}{compiled:>8.1f}s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
