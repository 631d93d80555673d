"""Agents with a policy, and an environment, small enough to compile in seconds."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.agents import (
    PPO,
    PRESETS,
    GaussianPolicy,
    GradientPPO,
    GradientPPOConfig,
    Network,
    PPOConfig,
    SoftplusGaussianPolicy,
    StreamAC,
    StreamACConfig,
    from_equinox,
)
from eligrad.agents.policies import make_policy
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box
from eligrad.nets import tanh_mlp
from tests.engines.tiny import timeless as timeless

SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"rollout": 32, "minibatch_size": 16, "epochs": 2, "actor_step_size": 0.01},
    "gradient-ppo": {
        "rollout": 32,
        "minibatch_size": 16,
        "sequence": 8,
        "epochs": 2,
        "actor_step_size": 0.01,
    },
}


@functools.cache
def network(observations: int, outputs: int) -> Network:
    """Eight hidden units; the same object each time, so that programs are compiled once."""
    return from_equinox(
        lambda key, _: tanh_mlp(observations, outputs, hidden=(8,), output_gain=0.5, key=key)
    )


def agent(preset: str, env: Any, **settings: Any) -> Any:
    """A small agent for an environment."""
    config: Any = dataclasses.replace(PRESETS[preset], **(SETTINGS.get(preset, {}) | settings))
    config = jax.tree.map(np.float32, config)  # lists or not, one program
    (size,) = env.observation_space.shape
    kind = KINDS[type(config)]
    gaussian = SoftplusGaussianPolicy if kind is StreamAC else GaussianPolicy
    policy = make_policy(env.action_space, None, lambda outputs: network(size, outputs), gaussian)
    return kind(config, policy, network(size, 1))


KINDS: dict[type, Any] = {
    PPOConfig: PPO,
    GradientPPOConfig: GradientPPO,
    StreamACConfig: StreamAC,
}


class Drift(Environment):
    """A point that actions push; nothing in it is random.

    Episodes end beyond ±1, and are cut after seven steps; the start of the next
    one depends on the number of steps of the last one.
    """

    name = "Drift"
    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Box(np.array([-1.0, -0.5]), np.array([1.0, 1.5]), (2,))

    def reset(self, key, params):
        state = jnp.array([0.1, 0.0])
        return state, self._observe(state)

    def restart(self, key, state, params):
        state = jnp.stack([0.1 * state[1] - 0.3, jnp.float32(0.0)])
        return state, self._observe(state)

    def step(self, key, state, action, params):
        place, steps = state
        place = place + 0.3 * action[0] + 0.1 * action[1] * place
        state = jnp.stack([place, steps + 1])
        return Step(
            state=state,
            observation=self._observe(state),
            reward=1.0 - jnp.square(place),
            terminated=jnp.abs(place) > 1.0,
            truncated=steps + 1 >= 7,
        )

    def _observe(self, state):
        return jnp.stack([state[0], jnp.sin(3 * state[0])])
