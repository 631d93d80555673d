"""An agent and an environment small enough to compile in a second or two."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import (
    PRESETS,
    Network,
    QLambda,
    SoftplusGaussianPolicy,
    StreamAC,
    from_equinox,
)
from eligrad.agents.policies import make_policy
from eligrad.envs.core import Environment, Step
from eligrad.envs.probes import OffPolicy
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import streaming_mlp

ENV = OffPolicy()
"""Random at its beginning, several steps long, with rewards that depend on the actions."""


def agent(observations: int = 4, actions: int = 2, **settings: Any) -> QLambda:
    """QRC(λ) with eight hidden units, quick enough to change its policy in a hundred steps."""
    settings = {"step_size": 0.01, "exploration_steps": 200.0, "epsilon_end": 0.1} | settings
    network = from_equinox(
        lambda key, sparsity: streaming_mlp(
            observations, actions, hidden=(8,), sparsity=sparsity, key=key
        )
    )
    return QLambda(dataclasses.replace(PRESETS["qrc"], **settings), network)


def actor_critic(space: Any = ENV.action_space, observations: int = 4) -> StreamAC:
    """Gradient AC(λ) of that size."""

    def network(outputs: int) -> Network:
        return from_equinox(
            lambda key, s: streaming_mlp(observations, outputs, hidden=(8,), sparsity=s, key=key)
        )

    policy = make_policy(space, None, network, SoftplusGaussianPolicy)
    return StreamAC(PRESETS["gradient-ac"], policy, network(1))


AGENTS = {"qrc": agent, "gradient-ac": actor_critic}


class Breaks(Environment):
    """Observes (1, step); at step `at` the reward, the observation, or nothing is NaN.

    With `at` 0 it is the very first observation.
    """

    name = "Breaks"
    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Discrete(2)

    def __init__(self, what: str, at: int) -> None:
        self.at = {"reward": (at, -1), "observation": (-1, at)}[what]

    def default_params(self):
        return self.at

    def _observe(self, count, params):
        observation = jnp.stack([jnp.float32(1.0), count.astype(jnp.float32)])
        return jnp.where(count == params[1], jnp.inf, observation)

    def reset(self, key, params):
        count = jnp.int32(0)
        return count, self._observe(count, params)

    def step(self, key, state, action, params):
        count = state + 1
        reward = jnp.where(count == params[0], jnp.nan, 1.0)
        no = jnp.asarray(False)
        return Step(count, self._observe(count, params), reward, no, no)


def timeless(chunks: Any) -> Any:
    """A table of chunks without what depends on the clock."""
    clocks = ("seconds", "steps_per_second", "rollout_seconds", "update_seconds")
    return chunks.drop_columns([name for name in clocks if name in chunks.column_names])


def nightly(*values: Any) -> Any:
    """A case that only the nightly tests run."""
    return pytest.param(*values, marks=pytest.mark.nightly)
