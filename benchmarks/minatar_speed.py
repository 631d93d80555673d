"""How fast the MinAtar games run, beside the original where `minatar` is installed.

    python -m benchmarks.minatar_speed
    python -m benchmarks.minatar_speed --copies 1024 16384 --total 20000000   # on a GPU

A step is a random action, the game's frame, its observation and, after an end, the next episode.
Pin the process to one core (`taskset -c 1`) for numbers per core.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.record import record
from eligrad.envs.core import step_autoreset
from eligrad.envs.minatar import GAMES, Game


class Speed(NamedTuple):
    steps_per_second: float
    compile_seconds: float


def rollout(game: Game, steps: int) -> Callable[[jax.Array], Any]:
    """`steps` steps of random play as a function of a key; all observations are made use of."""
    params = jax.tree.map(jnp.asarray, game.default_params())

    def play(key: jax.Array) -> Any:
        reset_key, act_key, step_key = jax.random.split(key, 3)
        state, observation = game.reset(reset_key, params)

        def step(carry: Any, inputs: Any) -> Any:
            (state, seen), (key, action) = carry, inputs
            transition = step_autoreset(game, key, state, action, params)
            seen = seen ^ transition.observation ^ transition.next_observation
            return (transition.state, seen), transition.reward

        keys = jax.random.split(step_key, steps)
        actions = jax.random.randint(act_key, (steps,), 0, len(game.actions))
        (_, seen), rewards = jax.lax.scan(step, (state, observation), (keys, actions))
        return seen, jnp.sum(rewards)

    return play


def measure(game: Game, copies: int, steps: int, repeats: int) -> Speed:
    """The best of `repeats` runs, and the time of compilation."""
    play = rollout(game, steps)
    # A batch of one is not the same program as no batch at all.
    run = jax.jit(jax.vmap(play)) if copies > 1 else jax.jit(lambda keys: play(keys[0]))
    keys = jax.random.split(jax.random.key(0), copies)
    start = time.perf_counter()
    compiled = run.lower(keys).compile()
    compile_seconds = time.perf_counter() - start
    best = min(seconds(lambda: jax.block_until_ready(compiled(keys))) for _ in range(repeats))
    return Speed(copies * steps / best, compile_seconds)


def measure_original(game: Game, steps: int, repeats: int) -> float | None:
    """Steps per second of the original in the same random play; None if it is not installed."""
    if importlib.util.find_spec("minatar") is None:
        return None
    import minatar

    module = "".join("_" * (i > 0 and c.isupper()) + c.lower() for i, c in enumerate(short(game)))
    env = minatar.Environment(module)
    env.seed(0)
    choices = np.random.default_rng(0).integers(len(game.actions), size=steps)
    actions = [game.actions[choice] for choice in choices]

    def play() -> None:
        for action in actions:
            _, terminal = env.act(action)
            env.state()
            if terminal:
                env.reset()
                env.state()

    return steps / min(seconds(play) for _ in range(repeats))


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def short(game: Game) -> str:
    return type(game).__name__


def main() -> None:
    parser = argparse.ArgumentParser(description="The speed of the MinAtar games.")
    names = [game.__name__ for game in GAMES]
    parser.add_argument("--games", nargs="+", choices=names, default=names)
    parser.add_argument("--copies", nargs="+", type=int, default=[1, 32], help="games at a time")
    parser.add_argument("--total", type=int, default=200_000, help="steps in sum of one run")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the best counts")
    options = parser.parse_args()
    if min(options.copies) < 1 or options.total < max(options.copies) or options.repeats < 1:
        parser.error("--copies and --repeats start at 1, and --total at the most --copies")

    device = jax.devices()[0]
    print(f"jax {jax.__version__} on {device.device_kind}; the best of {options.repeats} runs")
    for game in (game() for game in GAMES if game.__name__ in options.games):
        original = measure_original(game, 10_000, options.repeats)
        for copies in options.copies:
            speed = measure(game, copies, options.total // copies, options.repeats)
            record(
                "minatar",
                f"{short(game)}, {copies} copies, compiled in {speed.compile_seconds:.1f} s",
                speed.steps_per_second,
                "steps/s",
                ratio=None if original is None else speed.steps_per_second / original,
                to=None if original is None else f"original at {original:,.0f}",
            )


if __name__ == "__main__":
    main()
