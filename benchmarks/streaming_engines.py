"""One streaming agent through each engine, on one core, in one process: steps/s, ratios, latency.

    taskset -c 0 python -m benchmarks.streaming_engines
    taskset -c 0 python -m benchmarks.streaming_engines --calling-thread --calls 100000

All three see the same recording, so that no game's own cost is counted: `stream` plays it inside the compiled
program, `host` through Gymnasium, `online` by one call for each observation. They take turns in short rounds and
the best round of each counts: what else the machine does then hits all of them alike. `--calls` times as many
single calls of `observe`, and in turn with them a plain loop of Python: its slowest hundredth is the machine's doing. For
scale: the code published with the paper makes 1,000 to 1,290 steps/s on a fast core, with Breakout's network (`--shape 10 10 4`).
"""  # noqa: E501

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.record import record
from eligrad import Online
from eligrad.agents import registry
from eligrad.engines import HostRuns, Runs
from eligrad.engines.trained import Spaces
from eligrad.envs import Box, Discrete, Environment, Step
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment

ACTIONS, LENGTH = 3, 50
"""Number of actions, and steps of a round."""


class Recording(Environment):
    """The recording in JAX; it goes its way whatever is done, and never ends."""

    name = "Recording"
    action_space = Discrete(ACTIONS)

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.observation_space = Box(-np.inf, np.inf, rows.shape[1:])

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        del key, params
        return jnp.int32(0), jnp.asarray(self._rows)[0]

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Step:
        del key, params
        at, no = (state + 1) % LENGTH, jnp.zeros((), bool)
        reward = action.astype(jnp.float32)
        return Step(at, jnp.asarray(self._rows)[at], reward, no, no)


class GymnasiumRecording(gymnasium.Env):
    """The same for Gymnasium."""

    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def __init__(self, rows: np.ndarray) -> None:
        self._rows, self._at = rows, 0
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, rows.shape[1:], np.float32)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        del options
        return self._rows[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._at = (self._at + 1) % LENGTH
        return self._rows[self._at], float(action), False, False, {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", default="qrc")
    parser.add_argument("--shape", type=int, nargs="+", default=[6], help="of observations")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=0, help="single calls of observe to time")
    parser.add_argument(
        "--calling-thread", action="store_true", help="run programs in the thread that calls them"
    )
    given = parser.parse_args()
    jax.config.update("jax_cpu_enable_async_dispatch", not given.calling_thread)
    rows = np.random.default_rng(0).normal(size=(LENGTH, *given.shape)).astype(np.float32)
    spaces = Spaces("a recording", Box(-np.inf, np.inf, rows.shape[1:]), Discrete(ACTIONS))
    agent: Any = registry.build(given.agent, registry.make_settings(given.agent, {}), spaces)
    seed = np.arange(1)
    stream = Runs(agent, Recording(rows), (), seed, seed)
    host = HostRuns(agent, GymnasiumEnvironment(lambda: GymnasiumRecording(rows)), seed, seed)
    online = Online(agent)
    online.observe(rows[0])
    engines = {
        "stream": lambda: jax.block_until_ready(stream.advance(LENGTH)),
        "host": lambda: host.advance(LENGTH),
        "online": lambda: [online.observe(row, 1.0) for row in rows],
    }
    best = dict.fromkeys(engines, np.inf)
    for _ in range(given.rounds + 1):  # the first compiles
        for name, advance in engines.items():
            began = time.perf_counter()
            advance()
            best[name] = min(best[name], time.perf_counter() - began)
    what = f"{given.agent} {'x'.join(map(str, given.shape))}"
    for name, seconds in best.items():
        record(
            what, name, 1e6 * seconds / LENGTH, "µs", ratio=seconds / best["stream"], to="stream"
        )
    if given.calls:
        calls = {
            "observe": lambda row: online.observe(row, 1.0),
            "a plain loop": lambda row: sum(range(4_000)),
        }
        seconds = {name: np.empty(given.calls) for name in calls}
        for call in range(given.calls):
            for name, function in calls.items():
                began = time.perf_counter()
                function(rows[call % LENGTH])
                seconds[name][call] = time.perf_counter() - began
        for name, each in seconds.items():
            median, last = 1e6 * np.quantile(each, (0.5, 0.99))
            record(what, f"{name}, median of calls", median, "µs")
            record(what, f"{name}, p99", last, "µs", ratio=last / median, to="the median")
    host.close()


if __name__ == "__main__":
    main()
