"""A valid environment, and ways to break it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs.check import InvalidEnvironmentError, check_env
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete

FALSE = np.asarray(False)


class Place(NamedTuple):
    x: jax.Array
    steps: jax.Array


class Sound(Environment[Place]):
    """A noisy walk on [-1, 1] that ends at the right. Every broken one below changes one thing."""

    name = "Walk-v0"
    observation_space = Box(-1.0, 1.0, (1,))
    action_space = Discrete(2)

    def default_params(self):
        return {"noise": 0.1, "goal": 0.9}

    def reset(self, key, params):
        x = jax.random.uniform(key, (), minval=-0.5, maxval=0.0)
        return Place(x, jnp.zeros((), jnp.int32)), self.observe(x)

    def observe(self, x):
        return x[None]

    def move(self, key, state, action, params):
        shift = jnp.where(action == 1, 0.2, -0.1)
        x = state.x + shift + params["noise"] * jax.random.uniform(key, minval=-1.0)
        return Place(jnp.clip(x, -1.0, 1.0), state.steps + 1)

    def step(self, key, state, action, params):
        place = self.move(key, state, action, params)
        return Step(
            state=place,
            observation=self.observe(place.x),
            reward=-jnp.abs(place.x),
            terminated=place.x > params["goal"],
            truncated=place.steps >= 30,
        )


class Counted(Sound):
    action_space = Box(0, 1, (2,), np.int32)
    observation_space = Discrete(21)

    def observe(self, x):
        return jnp.round((x + 1) * 10).astype(jnp.int32)

    def move(self, key, state, action, params):
        return super().move(key, state, action[0], params)


def problems_of(env, params=None):
    with pytest.raises(InvalidEnvironmentError) as raised:
        check_env(env, params)
    return raised.value.problems


def problem_of(env, params=None):
    (problem,) = problems_of(env, params)
    return problem


def changed(**replacements):
    """`Sound`, with other values in its `Step`."""

    class Changed(Sound):
        def step(self, key, state, action, params):
            stepped = super().step(key, state, action, params)
            return stepped._replace(**{k: f(stepped) for k, f in replacements.items()})

    return Changed()


def moving(move):
    """`Sound`, with another way of moving."""
    return type("Moving", (Sound,), {"move": move})()
