"""Copies of a MuJoCo task stepped in a loop, in threads and in processes.

python -m benchmarks.gymnasium_workers --env HalfCheetah-v4 --copies 4 16
"""

from __future__ import annotations

import argparse
import time
from typing import get_args

import numpy as np

from eligrad.envs import HostEnvironment, make
from eligrad.envs.host import Workers


def speed(env: HostEnvironment, workers: Workers, copies: int, seconds: float) -> float:
    """Best steps per second in sum of five stretches."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (copies, *env.action_space.shape)).astype(np.float32)
    best = 0.0
    with env.open(copies, workers=workers) as team:
        team.reset(list(range(copies)))
        for _ in range(5):
            steps, began = 0, time.perf_counter()
            while time.perf_counter() - began < seconds:
                for _ in range(20):
                    team.step(actions)
                steps += 20 * copies
            best = max(best, steps / (time.perf_counter() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--copies", nargs="+", type=int, default=[4, 16])
    parser.add_argument("--seconds", type=float, default=0.6)
    arguments = parser.parse_args()
    env = make(arguments.env)
    assert isinstance(env, HostEnvironment)
    for copies in arguments.copies:
        results = {w: speed(env, w, copies, arguments.seconds) for w in get_args(Workers)}
        row = "  ".join(
            f"{workers} {value:,.0f} ({value / results['loop']:.2f}x)"
            for workers, value in results.items()
        )
        print(f"{arguments.env} × {copies}: {row}", flush=True)


if __name__ == "__main__":
    main()
