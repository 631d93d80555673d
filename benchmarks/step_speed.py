"""A step of QRC(λ) on Breakout beside C, beside the game alone, and beside one call for each step.

    taskset -c 1 python -m benchmarks.step_speed

All are measured in turn, in rounds of one process that are as long as a chunk of training, and the
best round of each counts. The C floor is `floor.c`. "One call a step" is the design of the
published code: Python plays an environment with Gymnasium's interface, and calls two compiled
functions for each of its steps, one that chooses the action and one that learns.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import floor
from benchmarks.minatar_speed import rollout
from benchmarks.record import record
from benchmarks.streaming_speed import begin
from eligrad.agents import QLambda, QLambdaConfig, Transition, default_network
from eligrad.envs.minatar import GAMES
from eligrad.runs.plan import CHUNK

RECORDED = 50
"""Transitions that the C floor learns from, again and again: they stay in the processor's cache."""
RATIOS = (
    ("C floor", "C floor"),
    ("QRC(λ)", "C floor"),
    ("Q(λ)", "C floor"),
    ("QRC(λ)", "game alone"),
    ("QRC(λ), one call a step", "QRC(λ)"),
)
"""Each number, and what it is compared with."""
BREAKOUT = next(game for game in GAMES if game.__name__ == "Breakout")()


def stream(variant: str) -> Callable[[], Any]:
    """Our engine: game and agent in one compiled loop."""
    runs, _ = begin("Breakout", variant, 1, CHUNK)
    return lambda: jax.block_until_ready(runs.advance(CHUNK))


def game() -> Callable[[], Any]:
    """The game alone, with random actions."""
    play, key = jax.jit(rollout(BREAKOUT, CHUNK)), jax.random.key(0)
    return lambda: jax.block_until_ready(play(key))


def in_c() -> Callable[[], Any]:
    """The dense work in C."""
    recorded = floor.record("Breakout", RECORDED)
    agent = floor.Floor(recorded)

    def learn() -> None:
        for _ in range(CHUNK // RECORDED):
            agent.learn(recorded.transitions)

    return learn


def one_call_a_step() -> Callable[[], Any] | None:
    """The original game through Gymnasium; `act` and `update` are called for each step."""
    if importlib.util.find_spec("minatar") is None:
        return None
    import minatar.gym

    minatar.gym.register_envs()
    env = gymnasium.make("MinAtar/Breakout-v1")
    observation, _ = env.reset(seed=0)
    shape, actions = env.observation_space.shape, len(BREAKOUT.actions)
    agent = QLambda(QLambdaConfig(), default_network(tuple(shape or ()), actions))
    act, update = jax.jit(agent.act), jax.jit(agent.update)
    key = jax.random.key(0)
    state = agent.init(key, jnp.asarray(observation))

    def play() -> None:
        nonlocal state, key
        for _ in range(CHUNK):
            key, act_key, update_key = jax.random.split(key, 3)
            state, action = act(state, act_key)
            after, reward, terminated, truncated, _ = env.step(int(action))
            first = env.reset()[0] if terminated or truncated else after
            transition = Transition(
                np.float32(reward), np.bool_(terminated), np.bool_(truncated), after, first
            )
            state, metrics = update(state, transition, update_key)
            float(metrics["td_error"])

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    runs: dict[str, Callable[[], Any] | None] = {
        "C floor": in_c() if floor.has_compiler() else None,
        "game alone": game(),
        "QRC(λ)": stream("qrc"),
        "Q(λ)": stream("q-lambda-sparse"),
        "QRC(λ), one call a step": one_call_a_step(),
    }
    best = dict.fromkeys(runs, np.inf)
    for warm in range(rounds + 1):
        for name, run in runs.items():
            if run is not None:
                began = time.perf_counter()
                run()
                seconds = time.perf_counter() - began
                best[name] = min(best[name], seconds / CHUNK if warm else np.inf)
    for name, to in RATIOS:
        if runs[name] is None or runs[to] is None:
            print(f"{name} to {to}: skipped, there is no C compiler (cc) or no minatar")
            continue
        row = name if to == "C floor" else f"{name}, to {to}"
        ratio = best[name] / best[to]
        record("breakout step", row, 1e6 * best[name], "µs", ratio=ratio, to=to)


if __name__ == "__main__":
    main()
