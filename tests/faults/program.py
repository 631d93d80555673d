"""`eligrad`, with two worlds in it that fail when they are told to, and a clock that may jump.

    FAULT=raises FAULT_AT=3000 python -m tests.faults.program train qrc Fault/Host-v0 ...

Faults: `raises`, `reward` or `observation` (no number), `memory`; all at step FAULT_AT of a world's
life. With CLOCK=jumps the time of day goes back a day, or on by one, whenever it is asked for.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

FAULT, FAULT_AT = os.environ.get("FAULT"), int(os.environ.get("FAULT_AT", "0"))

if os.environ.get("CLOCK") == "jumps":  # before anyone takes the function for themselves
    _now, _jumps = time.time, itertools.cycle([0.0, 86_400.0, -86_400.0])
    time.time = lambda: _now() + next(_jumps)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium.envs.classic_control import CartPoleEnv  # noqa: E402

from eligrad.cli import main  # noqa: E402
from eligrad.envs import register  # noqa: E402
from eligrad.envs.core import Environment, Step  # noqa: E402
from eligrad.envs.gymnasium import GymnasiumEnvironment  # noqa: E402
from eligrad.envs.spaces import Box, Discrete  # noqa: E402
from eligrad.train import Rollouts, Runs  # noqa: E402


class HostWorld(CartPoleEnv):
    """CartPole that counts the steps of its life."""

    def __init__(self) -> None:
        super().__init__()
        self.age = 0

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self.age += 1
        if self.age == FAULT_AT:
            if FAULT == "raises":
                raise OSError("the joint is jammed")
            if FAULT == "memory":
                np.ones(2**50)
            if FAULT == "reward":
                reward = np.nan
            if FAULT == "observation":
                observation = np.full_like(observation, np.nan)
        return observation, reward, terminated, truncated, info


class JaxWorld(Environment):
    """A place that is pushed about at random and by the actions; beyond ±1 an episode ends."""

    name = "Fault/Jax-v0"
    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Discrete(2)

    def reset(self, key: Any, params: Any) -> Any:
        return self._begin(key, jnp.int32(0))

    def restart(self, key: Any, state: Any, params: Any) -> Any:
        return self._begin(key, state[1])

    def _begin(self, key: Any, age: Any) -> Any:
        place = jax.random.uniform(key, (), minval=-0.5, maxval=0.5)
        return (place, age), self._observe(place)

    def _observe(self, place: Any) -> Any:
        return jnp.stack([place, jnp.sin(3 * place)])

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Step:
        place, age = state
        place = place + 0.1 * (2 * action - 1) + 0.2 * jax.random.normal(key, ())
        age, observation, reward = age + 1, self._observe(place), 1.0 - jnp.square(place)
        if FAULT == "raises":
            age = jax.pure_callback(_raise_at, jax.ShapeDtypeStruct((), jnp.int32), age)
        if FAULT == "reward":
            reward = jnp.where(age == FAULT_AT, jnp.nan, reward)
        if FAULT == "observation":
            observation = jnp.where(age == FAULT_AT, jnp.nan, observation)
        ended = jnp.abs(place) > 1.0
        return Step((place, age), observation, reward, ended, jnp.asarray(False))


def _raise_at(age: Any) -> Any:
    if int(age) == FAULT_AT:
        raise OSError("the joint is jammed")
    return np.int32(age)


def _short_of_memory(advance: Any) -> Any:
    """XLA is asked, in the chunk of step FAULT_AT, for more memory than there is."""

    def advancing(engine: Any, steps: int) -> Any:
        if int(np.max(engine.state.step)) + steps >= FAULT_AT:
            jnp.zeros(2**46, jnp.int8).block_until_ready()
        return advance(engine, steps)

    return advancing


register("Fault/Jax-v0", JaxWorld)
register("Fault/Host-v0", lambda: GymnasiumEnvironment(HostWorld, max_episode_steps=200))
if FAULT == "memory":
    for engine in (Runs, Rollouts):
        engine.advance = _short_of_memory(engine.advance)

if __name__ == "__main__":
    main()
