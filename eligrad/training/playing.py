"""Episodes of agents that do not learn, in environments of either kind: one loop for all.

`evaluation` counts their returns, `recording` keeps what is seen.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, Shaped

from eligrad.agents.protocol import Agent
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.host import finite_actions
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.core import step_autoreset
from eligrad.envs.host import HostTransition
from eligrad.runs.plan import env_seeds


def choose(agent: Agent, state: Any, observation: Any, key: PRNGKeyArray, greedy: bool) -> Array:
    """What one agent does in one raw observation."""
    if greedy:
        return agent.greedy_action(state, observation)
    return agent.sampled_action(state, observation, key)


class JaxEpisodes:
    """Episodes of one run in a JAX environment: the first is also the first of `evaluate`."""

    def __init__(self, env: Environment, params: Any, seed: int) -> None:
        self._env, self._params = env, env.default_params() if params is None else params
        self._key = jax.random.split(jax.random.key(seed), 1)[0]
        self._split = jax.jit(functools.partial(split_step_key, self._key))
        self._step = jax.jit(functools.partial(step_autoreset, env))

    def reset(self) -> Shaped[np.ndarray, "runs ..."]:
        """Begins the first episode."""
        self._taken = 0
        key = jax.random.fold_in(self._key, 0)
        self._state, observation = jax.jit(self._env.reset)(key, self._params)
        self._shown = self._state
        return np.asarray(observation)[None]

    def keys(self) -> Shaped[Array, " runs"]:
        """The key for the action of the next step."""
        return self._split(self._taken + 1)[:1]

    def step(self, actions: Shaped[np.ndarray, "runs ..."]) -> HostTransition:
        """Takes one action."""
        self._taken += 1
        key = self._split(self._taken)[1]
        reached = self._step(key, self._state, jnp.asarray(actions[0]), self._params)
        self._state, self._shown = reached.state, reached.next_state
        return HostTransition(
            observation=np.asarray(reached.observation)[None],
            reward=np.asarray(reached.reward, np.float64)[None],
            terminated=np.asarray(reached.terminated)[None],
            truncated=np.asarray(reached.truncated)[None],
            next_observation=np.asarray(reached.next_observation)[None],
        )

    def frame(self) -> np.ndarray:
        """A picture, as the last action left it, also at an end."""
        picture = self._env.render(self._shown, self._params)
        return _checked(self._env.name, picture if picture is None else np.asarray(picture))

    def close(self) -> None:
        """Frees nothing: there is no simulator."""


class HostEpisodes:
    """Episodes of any number of runs in an environment outside JAX."""

    def __init__(self, env: HostEnvironment, runs: int, seed: int) -> None:
        self._name, self._runs, self._seed = env.name, runs, seed
        self._space = env.action_space
        self._key = jax.random.key(seed)
        self._copies = env.open(runs)
        self._taken = 0

    def reset(self) -> Shaped[np.ndarray, "runs ..."]:
        """Begins new episodes in all, with seeds of their own each time."""
        seeds = env_seeds([self._seed + run for run in range(self._runs)])
        self._seed += self._runs
        self._frame: np.ndarray | None = None
        return self._copies.reset([int(each) for each in seeds])

    def keys(self) -> Shaped[Array, " runs"]:
        """The keys for the actions of the next step."""
        return jax.random.split(jax.random.fold_in(self._key, self._taken + 1), self._runs)

    def step(self, actions: Shaped[np.ndarray, "runs ..."]) -> HostTransition:
        """Takes one action in each; one that is not finite, of a diverged run, is replaced."""
        self._taken += 1
        reached = self._copies.step(finite_actions(self._space, actions))
        self._ended = bool(reached.terminated[0] | reached.truncated[0])
        return reached

    def frame(self) -> np.ndarray:
        """A picture of the first copy; at an episode's end the one before the next episode."""
        if self._frame is None or not self._ended:
            try:
                frame = self._copies.render()[0]
            # Gymnasium's own errors, a simulator's, a missing screen's: they share no class.
            except Exception as error:
                raise ValueError(
                    f"{self._name!r} cannot be drawn: {error}{_advice(error)}"
                ) from error
            self._frame = _checked(self._name, frame)
        return self._frame

    def close(self) -> None:
        """Closes the simulators."""
        self._copies.close()


def play(
    act: Callable[[np.ndarray, Array], Array],
    episodes: JaxEpisodes | HostEpisodes,
    observation: np.ndarray,
) -> Iterator[tuple[np.ndarray, HostTransition, np.ndarray]]:
    """Plays without end: yields actions, transitions, and the actions in the next observations.

    Args:
        act: actions of all runs, from their observations and keys.
        episodes: what to play in.
        observation: what its `reset` gave.
    """
    actions = np.asarray(act(observation, episodes.keys()))
    while True:
        reached = episodes.step(actions)
        keys = episodes.keys()
        following = np.asarray(act(reached.next_observation, keys))
        yield actions, reached, following
        ended = (reached.terminated | reached.truncated).any()
        actions = np.asarray(act(reached.observation, keys)) if ended else following


def _checked(name: str, frame: Any) -> np.ndarray:
    """What an environment rendered, if that can be shown."""
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
        what = "nothing" if frame is None else getattr(frame, "shape", type(frame).__name__)
        raise ValueError(
            f"{name!r} cannot be drawn: it renders {what}; an array of shape (height, width, 3) is "
            'accepted, from render(state, params) in JAX, from render_mode="rgb_array" in Gymnasium'
        )
    return frame.astype(np.uint8)


def _advice(error: Exception) -> str:
    """How to let MuJoCo render if it finds no OpenGL, which its own error does not tell."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if not any("mujoco" in file for file in files):
        return ""
    return (
        ". MuJoCo draws by OpenGL: on a machine without a screen set the environment variable "
        "MUJOCO_GL to egl (a library that comes with graphics drivers and Mesa) or to osmesa"
    )
