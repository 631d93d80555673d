"""Agents on MuJoCo, the whole loop: steps per second beside the bare simulator's.

    taskset -c 0 python -m benchmarks.mujoco_speed            # one seed on one core
    python -m benchmarks.mujoco_speed --seeds 8 --processes 2  # many seeds, all cores
    taskset -c 0 python -m benchmarks.mujoco_speed --tasks HalfCheetah-v4 --agents stream-ac gradient-ac --rounds 60

All numbers of a task are measured in turn, round after round, in one process, and the best round of
each counts: what else the machine does then hits all of them alike. A round of a streaming agent and of
the simulator is 256 steps, so that some round finds the machine free. Where stable-baselines3 or
SBX is installed, its PPO is measured too, with the same settings (no normalisation, its default).
"""  # noqa: E501

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable

import gymnasium
import jax
import numpy as np

from benchmarks.record import record
from eligrad.agents import RolloutAgent, registry
from eligrad.envs import make
from eligrad.runs.plan import Plan
from eligrad.training.build import build_engine

AGENTS = ("ppo", "gradient-ppo", "stream-ac", "gradient-ac")
TASKS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Ant-v4")
ROLLOUT, SHORT = 2048, 256


def bare(task: str) -> Callable[[], int]:
    """The simulator alone, with random actions."""
    env = gymnasium.make(task)
    env.reset(seed=0)
    shape = (SHORT, *(env.action_space.shape or ()))
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    core = env.unwrapped

    def run() -> int:
        for action in actions:
            if core.step(action)[2]:
                core.reset()
        return SHORT

    return run


def ours(agent: str, task: str, seeds: int, processes: int) -> Callable[[], int]:
    """One rollout and its update, or some steps and their updates, of all seeds."""
    settings = registry.make_settings(agent, {})
    env = make(task)
    made = registry.build(agent, settings, env)
    each = list(range(seeds))
    steps = ROLLOUT if isinstance(made, RolloutAgent) else SHORT
    plan = Plan(agent, settings, task, None, {}, each, steps, steps, steps)
    engine = build_engine(plan, made, env, processes)

    def run() -> int:
        engine.advance(steps)
        return steps * seeds

    return run


def others(package: str, task: str) -> Callable[[], int] | None:
    """The PPO of stable-baselines3 or SBX with our number of epochs, if it is installed."""
    if importlib.util.find_spec(package) is None:
        print(f"{package} is not installed: skipped")
        return None
    if package == "stable_baselines3":
        importlib.import_module("torch").set_num_threads(1)
    model = importlib.import_module(package).PPO(
        "MlpPolicy", task, n_epochs=4, device="cpu", seed=0
    )

    def run() -> int:
        model.learn(ROLLOUT, reset_num_timesteps=False)
        return ROLLOUT

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    for task in arguments.tasks:
        runs: dict[str, Callable[[], int] | None] = {"bare": bare(task)}
        for agent in arguments.agents:
            runs[agent] = ours(agent, task, 1, 1)
            if arguments.seeds > 1:
                many = f"{agent} × {arguments.seeds}"
                runs[many] = ours(agent, task, arguments.seeds, arguments.processes)
        if "ppo" in arguments.agents:
            runs |= {f"{p} ppo": others(p, task) for p in ("stable_baselines3", "sbx")}
        best = dict.fromkeys(runs, 0.0)
        for warm in range(arguments.rounds + 1):
            for name, run in runs.items():
                if run is None:
                    continue
                began = time.perf_counter()
                rate = run() / (time.perf_counter() - began)
                best[name] = max(best[name], rate if warm else 0.0)
        for name, rate in best.items():
            if rate:
                ratio = rate / best["bare"]
                record(task, name, rate, "steps/s", ratio=ratio, to="bare simulator")


if __name__ == "__main__":
    main()
