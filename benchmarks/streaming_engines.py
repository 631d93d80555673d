"""One QRC(λ) agent on Breakout through each engine, on one core, in one process.

    taskset -c 0 python -m benchmarks.streaming_engines

`stream` plays our game inside the compiled program, `host` the original through Gymnasium (extra:
minatar), `online` is handed recorded observations. For scale: the code published with the paper
makes about 550 steps/s on one core of a 2.8 GHz server.
"""

from __future__ import annotations

import time

import jax
import numpy as np

from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.engines import HostRuns, Online, Runs
from eligrad.envs import HostEnvironment, make
from eligrad.envs.minatar import Breakout

STEPS, REPEATS = 1000, 4


def best(name: str, advance: object) -> None:
    assert callable(advance)
    advance()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        advance()
        seconds.append(time.perf_counter() - began)
    print(f"{name:<8}{STEPS / min(seconds):>9,.0f} steps/s", flush=True)


def main() -> None:
    env = Breakout()
    agent = QLambda(PRESETS["qrc"], default_network(env.observation_space.shape, len(env.actions)))
    seed = np.arange(1)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")

    runs = Runs(agent, env, env.default_params(), seed, seed)
    best("stream", lambda: jax.block_until_ready(runs.advance(STEPS)))

    original = make("gymnasium/MinAtar/Breakout-v1")
    assert isinstance(original, HostEnvironment)
    host = HostRuns(agent, original, seed, seed)
    best("host", lambda: host.advance(STEPS))

    rng = np.random.default_rng(0)
    recorded = rng.random((STEPS, *env.observation_space.shape)) < 0.1
    online = Online(agent)
    online.observe(recorded[0])
    best("online", lambda: [online.observe(obs, reward=float(obs[0, 0, 0])) for obs in recorded])


if __name__ == "__main__":
    main()
