"""A user's program with an agent on a stream: it saves at intervals, and continues from there.

    python -m tests.faults.online_program AGENT_FILE STEPS [FAULT]

Prints a line for each step: its number, the action, the TD error in hexadecimal. Faults, in the
middle: `reward` or `observation` that is NaN, once. Ctrl-C saves, wherever it arrives.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np

from eligrad.agents import PRESETS, QLambda, from_equinox
from eligrad.engines import Online
from eligrad.nets import streaming_mlp

LENGTH, EVERY = 7, 50


def agent() -> QLambda:
    network = from_equinox(
        lambda key, sparsity: streaming_mlp(3, 2, hidden=(8,), sparsity=sparsity, key=key)
    )
    return QLambda(dataclasses.replace(PRESETS["qrc"], exploration_steps=500.0), network)


def world(step: int) -> tuple[np.ndarray, float]:
    """The observation after that many updates; always the same."""
    dice = np.random.default_rng(step)
    return dice.normal(size=3).astype(np.float32), float(dice.normal())


def live(online: Online, steps: int, fault: str | None, file: Path) -> None:
    while online.steps < steps:
        step = online.steps + 1
        observation, reward = world(step)
        if fault is not None and step == steps // 2:
            fault = refuse(online, observation, fault)
        if step % LENGTH == 0:
            if not online.between_episodes:  # where Ctrl-C came between the two
                online.observe(observation, reward, terminated=True)
            action = online.observe(world(2**31 - step)[0])
        else:
            action = online.observe(observation, reward)
        print(online.steps, action, online.td_error.hex(), flush=True)
        if online.steps % EVERY == 0:
            online.save(file)


def refuse(online: Online, observation: np.ndarray, fault: str) -> None:
    """A sensor breaks: the agent raises an error, and does not change."""
    bad = np.array([0.0, np.nan, 0.0], np.float32) if fault == "observation" else observation
    try:
        online.observe(bad, np.nan if fault == "reward" else 0.0)
    except ValueError as error:
        print(error, file=sys.stderr, flush=True)
        return
    raise SystemExit("what is no number was accepted")


def main() -> None:
    file, steps = Path(sys.argv[1]), int(sys.argv[2])
    fault = sys.argv[3] if len(sys.argv) > 3 else None
    if file.exists():
        online = Online.load(file, agent())
    else:
        online = Online(agent(), seed=3)
        online.observe(world(0)[0])
    try:
        live(online, steps, fault, file)
    except KeyboardInterrupt:
        online.save(file)
        print("interrupted, and saved", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
