"""brax environments: `make("brax/ant")`, `make("brax/halfcheetah", backend="spring")`.

brax tasks have no time limit of their own; as in brax's own training, episodes are truncated after
1000 steps unless `max_episode_steps` says otherwise. Every episode begins from a fresh draw (brax's
own automatic reset would repeat each copy's first one).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, Shaped

from eligrad._base.errors import UnknownName
from eligrad._base.optional import import_optional
from eligrad.envs.adapters import lenient_promotion
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box
from eligrad.envs.wrappers import TimeLimit


class BraxEnvironment(Environment[Any]):
    """A brax task by its name, without a time limit; `options` go to its constructor."""

    def __init__(self, name: str, **options: Any) -> None:
        envs = import_optional("brax.envs", extra="brax", purpose=f"'brax/{name}'")
        if name not in envs._envs:
            raise UnknownName("brax environment", name, envs._envs)
        self.name = f"brax/{name}"
        with lenient_promotion():
            self._env = envs.get_environment(name, **options)
        # brax's own `observation_size` plays a whole reset, uncompiled; the shape is all we need.
        _, observation = jax.eval_shape(self.reset, jax.random.key(0), ())
        if not isinstance(observation, jax.ShapeDtypeStruct):
            raise ValueError(
                f"{self.name} has observations of {observation}; only one array is accepted"
            )
        # brax maps [-1, 1] to the range of each actuator.
        self.action_space = Box(-1.0, 1.0, (self._env.action_size,))
        self.observation_space = Box(-np.inf, np.inf, observation.shape)

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[Any, Shaped[Array, "..."]]:
        """Begins an episode: its first state and observation."""
        del params
        with lenient_promotion():
            state = self._env.reset(key)
        return jax.tree.map(jnp.asarray, state), state.obs

    def step(self, key: PRNGKeyArray, state: Any, action: Array, params: Any) -> Step:
        """Takes `action` in `state`."""
        del key, params
        with lenient_promotion():
            state = jax.tree.map(jnp.asarray, self._env.step(state, action))
        return Step(
            state=state,
            observation=state.obs,
            reward=state.reward.astype(jnp.float32),
            terminated=state.done > 0.5,
            truncated=jnp.zeros((), jnp.bool_),
        )


def make_brax(name: str, *, max_episode_steps: int = 1000, **options: Any) -> Environment:
    """A brax task whose episodes are truncated after `max_episode_steps`."""
    return TimeLimit(BraxEnvironment(name, **options), max_episode_steps)
