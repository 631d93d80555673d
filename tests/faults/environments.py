"""Two environments that fail as the variables FAULT and FAULT_AT say."""

from __future__ import annotations

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete

FAULT, FAULT_AT = os.environ.get("FAULT"), int(os.environ.get("FAULT_AT", "0"))


class HostEnv(CartPoleEnv):
    """CartPole that counts all its steps."""

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
            if FAULT == "leaves":
                raise SystemExit(5)
            if FAULT == "exits":
                os._exit(5)
            if FAULT == "hangs":
                time.sleep(10**6)
            if FAULT == "reward":
                reward = np.nan
            if FAULT == "observation":
                observation = np.full_like(observation, np.nan)
        return observation, reward, terminated, truncated, info


class JaxEnv(Environment):
    """A position that moves at random and by the actions; beyond ±1 an episode ends."""

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
            same = jax.ShapeDtypeStruct((), jnp.int32)
            age = jax.pure_callback(_raise_at, same, age, vmap_method="sequential")
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


def short_of_memory(advance: Any) -> Any:
    """XLA is asked, in the chunk of step FAULT_AT, for more memory than there is."""

    def advancing(engine: Any, steps: int) -> Any:
        if int(np.max(engine.state.step)) + steps >= FAULT_AT:
            jnp.zeros(2**46, jnp.int8).block_until_ready()
        return advance(engine, steps)

    return advancing
