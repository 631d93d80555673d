"""PPO and Gradient PPO in JAX environments: collection and update in one compiled program.

python -m benchmarks.rollout_speed --env MinAtar/Breakout-v1 --num-envs 64 --seeds 1 8 32
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

from eligrad.agents import registry
from eligrad.engines import Rollouts
from eligrad.envs import Environment, make

ROLLOUTS, REPEATS = 4, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="MinAtar/Breakout-v1")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 8, 32])
    arguments = parser.parse_args()
    env = make(arguments.env)
    assert isinstance(env, Environment)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {arguments.env}")
    for count in arguments.seeds:
        rates = {}
        for name in ("ppo", "gradient-ppo"):
            settings = registry.make_settings(name, {"num_envs": arguments.num_envs})
            agent = registry.build(name, settings, env)
            seeds = np.arange(count)
            runs = Rollouts(agent, env, env.default_params(), seeds, 1000 + seeds)
            steps = ROLLOUTS * settings.rollout
            seconds = []
            for _ in range(REPEATS + 1):
                began = time.perf_counter()
                jax.block_until_ready(runs.advance(steps))
                seconds.append(time.perf_counter() - began)
            rates[name] = count * steps / min(seconds[1:])
            compiling = seconds[0] - min(seconds[1:])
            print(
                f"{count:>4} seeds × {arguments.num_envs} environments  {name:<13}"
                f"{rates[name]:>13,.0f} steps/s  compile {compiling:.0f} s",
                flush=True,
            )
        print(f"     gradient-ppo / ppo {rates['gradient-ppo'] / rates['ppo']:.2f}", flush=True)


if __name__ == "__main__":
    main()
