"""gymnax environments (gymnax >= 1.0.1): `make("gymnax/CartPole-v1")`.

gymnax tells termination from the time limit since 1.0; both are passed on as they are, and so is
the real final observation, since its own automatic reset is not used.
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
from eligrad.envs.spaces import Box, Discrete, Space


class GymnaxEnvironment(Environment[Any]):
    """A gymnax environment by its name; `options` go to its constructor.

    `params` are gymnax's own (`max_steps_in_episode`, masses, lengths …), as a pytree.
    """

    def __init__(self, name: str, **options: Any) -> None:
        gymnax = import_optional("gymnax", extra="gymnax", purpose=f"'gymnax/{name}'")
        if name not in gymnax.registered_envs:
            raise UnknownName("gymnax environment", name, gymnax.registered_envs)
        self.name = f"gymnax/{name}"
        with lenient_promotion():
            self._env, self._params = gymnax.make(name, **options)
        self.action_space = self._convert(self._env.action_space(self._params), "actions")
        self.observation_space = self._observation_space()

    def default_params(self) -> Any:
        """The numbers of the environment: gymnax's `EnvParams`."""
        return self._params

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[Any, Shaped[Array, "..."]]:
        """Begins an episode: its first state and observation."""
        with lenient_promotion():
            observation, state = self._env.reset_env(key, params)
        return jax.tree.map(jnp.asarray, state), jnp.asarray(observation)

    def step(self, key: PRNGKeyArray, state: Any, action: Array, params: Any) -> Step:
        """Takes `action` in `state`."""
        with lenient_promotion():
            observation, state, reward, terminated, _ = self._env.step_env(
                key, state, action, params
            )
            truncated = self._env.is_truncated(state, params)
        return Step(
            state=jax.tree.map(jnp.asarray, state),
            observation=jnp.asarray(observation),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=jnp.asarray(terminated, jnp.bool_),
            truncated=jnp.asarray(truncated, jnp.bool_),
        )

    def _observation_space(self) -> Space:
        """The declared bounds with the true dtype, which gymnax does not always declare."""
        space = self._convert(self._env.observation_space(self._params), "observations")
        _, observation = jax.eval_shape(self.reset, jax.random.key(0), self._params)
        if observation.shape != space.shape:
            raise ValueError(
                f"reset of {self.name} returns an observation of shape {observation.shape}; "
                f"its observation_space says {space.shape}"
            )
        if isinstance(space, Box):
            return Box(space.low, space.high, space.shape, observation.dtype)
        return space

    def _convert(self, space: Any, what: str) -> Space:
        spaces = import_optional("gymnax.environments.spaces", extra="gymnax", purpose=self.name)
        if isinstance(space, spaces.Discrete):
            return Discrete(int(space.n))
        if isinstance(space, spaces.Box):
            low, high = (np.asarray(bound, np.float32) for bound in (space.low, space.high))
            return Box(low, high, tuple(space.shape), np.dtype(space.dtype))
        raise ValueError(f"{self.name} has {what} of {space}; only Discrete and Box are accepted")
