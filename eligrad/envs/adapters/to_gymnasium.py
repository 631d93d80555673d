"""A JAX environment as a Gymnasium environment, for libraries that accept only those.

model = stable_baselines3.PPO("MlpPolicy", GymnasiumFromJax(env))
"""

from __future__ import annotations

from functools import partial
from typing import Any

from eligrad._base.optional import import_optional

import_optional("gymnasium", extra="gymnasium", purpose="eligrad.envs.adapters.to_gymnasium")

import gymnasium  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from eligrad.envs.core import Environment, Step  # noqa: E402
from eligrad.envs.spaces import Discrete, MultiDiscrete, Space  # noqa: E402


class GymnasiumFromJax(gymnasium.Env):
    """Steps a JAX environment from Python, one compiled call per step.

    Random numbers: `reset(seed=s)` sets `key = jax.random.key(s)`; it and every later step go
    `key, k = jax.random.split(key)`. The first episode is `env.reset(k)`; a step uses
    `step_key, restart_key = jax.random.split(k)`, and a `reset` without a seed the latest
    `restart_key`. So `step_autoreset` with the same keys yields the same transitions, unless the
    environment redefines it (as the MinAtar games do): then they are different ones by chance.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's own signature)
        "render_modes": ["rgb_array"],
        "render_fps": 15,
    }

    def __init__(
        self, env: Environment, params: Any = None, *, render_mode: str | None = None
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; None or 'rgb_array' is accepted")
        self.render_mode = render_mode
        self.jax_env = env
        self.params = env.default_params() if params is None else params
        self.observation_space = to_gymnasium_space(env.observation_space)
        self.action_space = to_gymnasium_space(env.action_space)
        # Keys are kept as plain integers and nothing compiled is kept here: all of it pickles.
        self._key: Any = None
        self._restart_key: Any = None
        self._state: Any = None
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode; with a seed, the first one of a new stream of episodes."""
        super().reset(seed=seed)
        if seed is not None or self._state is None:
            if seed is None:
                seed = int(self.np_random.integers(2**31))
            self._key, self._restart_key, self._state, observation = _begin(
                self.jax_env, jax.random.key(seed), self.params
            )
        else:
            self._restart_key, self._state, observation = _restart(
                self.jax_env, self._restart_key, self._state, self.params
            )
        self._ended = False
        return np.asarray(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes one step; the observation is the real final one where the episode ended."""
        if self._ended:
            raise gymnasium.error.ResetNeeded("no episode is under way: call reset() before step()")
        action = np.asarray(action, self.jax_env.action_space.dtype)
        self._key, self._restart_key, stepped = _step(
            self.jax_env, self._key, self._state, action, self.params
        )
        self._state = stepped.state
        observation, reward, terminated, truncated = jax.device_get(stepped[1:])
        self._ended = bool(terminated or truncated)
        return observation, float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> np.ndarray | None:
        """The environment's own picture of its state, if it was made with "rgb_array"."""
        if self.render_mode is None or self._state is None:
            return None
        picture = self.jax_env.render(self._state, self.params)
        return None if picture is None else np.asarray(picture)


def to_gymnasium_space(space: Space) -> spaces.Space[Any]:
    """The Gymnasium space with the same elements."""
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(list(space.nvec))
    dtype = np.dtype(space.dtype)
    bounds = np.asarray(space.low, dtype), np.asarray(space.high, dtype)
    low, high = (np.broadcast_to(bound, space.shape) for bound in bounds)
    return spaces.Box(low, high, space.shape, dtype.type)


@partial(jax.jit, static_argnums=0)
def _begin(env: Environment, key: Any, params: Any) -> tuple[Any, Any, Any, Any]:
    key, first = jax.random.split(key)
    # Only used where an episode is given up before its first step.
    spare = jax.random.fold_in(first, 1)
    return jax.random.key_data(key), jax.random.key_data(spare), *env.reset(first, params)


@partial(jax.jit, static_argnums=0)
def _restart(env: Environment, key: Any, state: Any, params: Any) -> tuple[Any, Any, Any]:
    key = jax.random.wrap_key_data(key)
    spare = jax.random.fold_in(key, 1)
    return jax.random.key_data(spare), *env.restart(key, state, params)


@partial(jax.jit, static_argnums=0)
def _step(
    env: Environment, key: Any, state: Any, action: Any, params: Any
) -> tuple[Any, Any, Step]:
    key, now = jax.random.split(jax.random.wrap_key_data(key))
    step_key, restart_key = jax.random.split(now)
    stepped = env.step(step_key, state, action, params)
    return jax.random.key_data(key), jax.random.key_data(restart_key), stepped
