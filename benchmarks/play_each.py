"""Would an accelerator be faster if it played every action and picked one result? An attempt.

    python -m benchmarks.play_each --agents 48 150 1200 --games Breakout Seaquest

No kernel of the game then waits for the network that chooses the action: the game runs beside it,
and is not in the longest chain of kernels. Prints µs a step of QRC(λ) both ways, in turn, the best
of some rounds. Without an accelerator it prints the length of the chain, as `gpu_chain` does.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from benchmarks import gpu_chain
from benchmarks.streaming_speed import begin, seconds
from eligrad.engines import stream
from eligrad.envs import Discrete, core


def play_each(
    env: core.Environment, key: PRNGKeyArray, state: Any, action: Array, params: Any
) -> core.Transition:
    """The result of `stream.play`, picked from those of all actions."""
    assert isinstance(env.action_space, Discrete)
    each = jax.vmap(lambda action: core.step_autoreset(env, key, state, action, params))(
        jnp.arange(env.action_space.n, dtype=jnp.int32)
    )
    pick = functools.partial(jax.lax.select_n, action.astype(jnp.int32))
    picked = jax.tree.map(lambda leaf: pick(*leaf), each._replace(next_state=None))
    return jax.lax.optimization_barrier(picked)  # for the same reason as in `play`


WAYS: dict[str, Callable[..., core.Transition]] = {"one": stream.play, "each": play_each}


@contextlib.contextmanager
def playing(way: str) -> Iterator[None]:
    """Programs of the stream that are made within play the chosen action, or each."""
    stream.play = WAYS[way]
    try:
        yield
    finally:
        stream.play = WAYS["one"]


def measure(game: str, agents: int, steps: int, repeats: int) -> list[float]:
    """µs a step, both ways in turn."""
    runs = dict[str, stream.Runs]()
    for way in WAYS:
        with playing(way):
            runs[way], _ = begin(game, "qrc", agents, steps)
    rounds = [[seconds(each, steps) for each in runs.values()] for _ in range(repeats)]
    return [1e6 * min(times) / steps for times in zip(*rounds, strict=True)]


def count(game: str, agents: int) -> list[float]:
    """Kernels of a step that wait for each other, both ways."""
    longest = list[float]()
    for way in WAYS:
        with playing(way):
            program = gpu_chain.program(game, "qrc", agents)
        longest.append(gpu_chain.chain(program)[1] / stream.UNROLL)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", nargs="+", type=int, default=[48])
    parser.add_argument("--games", nargs="+", default=["Breakout", "Seaquest"])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=6)
    given = parser.parse_args()
    timed = jax.default_backend() != "cpu"
    what = "µs a step" if timed else "kernels in a chain"
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}; {what}")
    print(f"{'game':<14}{'runs':>6}{'one':>9}{'each':>9}{'ratio':>8}")
    for game in given.games:
        for agents in given.agents:
            one, each = (
                measure(game, agents, given.steps, given.repeats) if timed else count(game, agents)
            )
            print(f"{game:<14}{agents:>6}{one:>9.1f}{each:>9.1f}{each / one:>8.3f}", flush=True)


if __name__ == "__main__":
    main()
