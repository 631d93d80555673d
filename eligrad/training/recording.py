"""One episode of a trained agent, with what the agent thought of it: value, h and TD error.

Nothing is learned and no statistic moves: every number is that of the agent as it was saved.
"""

from __future__ import annotations

import dataclasses
import functools
import traceback
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray, Shaped, UInt8

from eligrad._base.checks import whole_number
from eligrad.agents.protocol import Agent
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.core import step_autoreset
from eligrad.runs.config import env_seeds
from eligrad.training.evaluation import choose
from eligrad.training.saved import Which, read_agent

MAX_STEPS = 500
"""Steps after which a recording is cut off, unless told otherwise."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """An episode of T steps, T + 1 moments; entry t of the steps is about the one from s_t on."""

    title: str
    frames: UInt8[np.ndarray, "moments height width 3"]
    """Pictures of s_0 … s_T. The copies of Gymnasium begin the next episode at an end, so that its
    last picture but one stands for the last, too."""
    observations: Shaped[np.ndarray, "moments ..."]
    """As the environment gave them."""
    actions: Shaped[np.ndarray, "steps ..."]
    rewards: Float[np.ndarray, "steps"]
    """Rewards r_{t+1}, as the environment gave them."""
    terminated: bool
    """Whether the task itself ended the episode."""
    truncated: bool
    """Whether the environment cut it off; neither, and the recording did."""
    scaled_rewards: Float[np.ndarray, "steps"] | None = None
    """Rewards as the agent sees them; all that follows is in this unit. None, as is all that
    follows, for an agent that does not say what it thinks (see `Agent.inspect`)."""
    values: Float[np.ndarray, "steps"] | None = None
    """q(s_t, a_t) of the action taken, for an agent with action values; else v(s_t)."""
    following: Float[np.ndarray, "steps"] | None = None
    """The value of s_{t+1} that the agent bootstraps from; 0 where the task ended."""
    td_errors: Float[np.ndarray, "steps"] | None = None
    """δ_t: the scaled reward, and the discount times `following`, less `values`."""
    auxiliary: Float[np.ndarray, "steps"] | None = None
    """h(s_t, a_t), or h(s_t), of a gradient rule: the TD(λ) error that is expected there."""
    of_actions: bool = False
    """Whether values and h are those of actions."""
    discount: float = 1.0
    action_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rewards)


def record_episode(
    run: str | Path,
    *,
    seed: Which = "best",
    episode: int = 0,
    greedy: bool = True,
    max_steps: int = MAX_STEPS,
) -> Recording:
    """An episode of one agent of a run folder, or of a file that an agent was saved to.

    `seed` is the one it was trained with, or "best". `episode` seeds the environment: the same
    number gives the same episode. Actions are the best ones, or with `greedy=False` drawn as in
    training.
    """
    max_steps = whole_number("max_steps", max_steps)
    saved = read_agent(run, seed, frames=True)
    return record(
        saved.agent,
        saved.state,
        saved.env,
        params=saved.params,
        episode=episode,
        greedy=greedy,
        max_steps=max_steps,
        title=f"{saved.title}, seed {saved.seed}, after {saved.step:,} steps",
    )


def record(
    agent: Agent,
    state: Any,
    env: Environment | HostEnvironment,
    *,
    params: Any = None,
    episode: int = 0,
    greedy: bool = True,
    max_steps: int = MAX_STEPS,
    title: str = "",
) -> Recording:
    """An episode of one agent in this state, without a leading axis of runs.

    An environment of Gymnasium must have been made with `render_mode="rgb_array"`.
    """
    max_steps = whole_number("max_steps", max_steps)
    if not 0 <= episode < 2**31:
        raise ValueError(f"episode is {episode}; a number from 0 to 2³¹ - 1 is accepted")
    if isinstance(env, HostEnvironment):
        playing: _Episode = _HostEpisode(env, episode)
    else:
        playing = _JaxEpisode(env, params, episode)
    act = jax.jit(functools.partial(choose, greedy=greedy))
    try:
        observations, frames = [playing.reset()], [playing.frame()]
        actions, rewards = [], list[float]()
        terminated = truncated = False
        while True:
            # One more action than is taken: SARSA bootstraps from it.
            key = playing.act_key(len(rewards) + 1)
            actions.append(np.asarray(act(agent, state, jnp.asarray(observations[-1]), key)))
            if terminated or truncated or len(rewards) == max_steps:
                break
            reached = playing.step(len(rewards) + 1, actions[-1])
            terminated, truncated = reached.terminated, reached.truncated
            rewards.append(reached.reward)
            observations.append(reached.observation)
            frames.append(playing.frame())
    finally:
        playing.close()
    seen, taken, got = np.stack(observations), np.stack(actions), np.array(rewards)
    recording = Recording(
        title=title or env.name,
        frames=np.stack(frames),
        observations=seen,
        actions=taken[:-1],
        rewards=got,
        terminated=terminated,
        truncated=truncated,
        action_names=_action_names(env),
    )
    inspection = agent.inspect(state, seen, taken, got)
    if inspection is None:
        return recording
    following = inspection.next_values * np.append(np.ones(len(rewards) - 1), not terminated)
    return dataclasses.replace(
        recording,
        scaled_rewards=inspection.rewards,
        values=inspection.values,
        following=following,
        td_errors=inspection.rewards + inspection.discount * following - inspection.values,
        auxiliary=inspection.h,
        of_actions=inspection.of_actions,
        discount=inspection.discount,
    )


def _action_names(env: Environment | HostEnvironment) -> tuple[str, ...]:
    """What the actions of a MinAtar game do."""
    from eligrad.envs.minatar import Game

    inner = getattr(env, "env", env)
    names = ("noop", "left", "up", "right", "down", "fire")
    return tuple(names[action] for action in inner.actions) if isinstance(inner, Game) else ()


class _Reached(NamedTuple):
    observation: np.ndarray
    """Where the action led, also at an end."""
    reward: float
    terminated: bool
    truncated: bool


class _Episode(ABC):
    """An episode under way. Random numbers are those of `evaluate`; steps count from 1."""

    @abstractmethod
    def reset(self) -> np.ndarray: ...

    @abstractmethod
    def act_key(self, number: int) -> PRNGKeyArray: ...

    @abstractmethod
    def step(self, number: int, action: np.ndarray) -> _Reached: ...

    @abstractmethod
    def frame(self) -> np.ndarray: ...

    @abstractmethod
    def close(self) -> None: ...


class _JaxEpisode(_Episode):
    def __init__(self, env: Environment, params: Any, episode: int) -> None:
        self._env, self._params = env, env.default_params() if params is None else params
        self._key = jax.random.split(jax.random.key(episode), 1)[0]
        self._keys = jax.jit(lambda n: jax.random.split(jax.random.fold_in(self._key, n)))
        self._step = jax.jit(functools.partial(step_autoreset, env))

    def reset(self) -> np.ndarray:
        key = jax.random.fold_in(self._key, 0)
        self._state, observation = jax.jit(self._env.reset)(key, self._params)
        return np.asarray(observation)

    def act_key(self, number: int) -> PRNGKeyArray:
        return self._keys(number)[0]

    def step(self, number: int, action: np.ndarray) -> _Reached:
        key = self._keys(number)[1]
        reached = self._step(key, self._state, jnp.asarray(action), self._params)
        # The one that the action led to: after an end the picture is of that, and no step follows.
        self._state, observation = reached.next_state, np.asarray(reached.next_observation)
        return _Reached(
            observation, float(reached.reward), bool(reached.terminated), bool(reached.truncated)
        )

    def frame(self) -> np.ndarray:
        picture = self._env.render(self._state, self._params)
        return _picture(self._env.name, picture if picture is None else np.asarray(picture))

    def close(self) -> None:
        pass


class _HostEpisode(_Episode):
    def __init__(self, env: HostEnvironment, episode: int) -> None:
        self._name = env.name
        self._copies = env.open(1)
        self._seed = int(env_seeds([episode])[0])
        self._key = jax.random.key(episode)
        self._frame: np.ndarray | None = None
        self._ended = False

    def reset(self) -> np.ndarray:
        return self._copies.reset([self._seed])[0]

    def act_key(self, number: int) -> PRNGKeyArray:
        return jax.random.split(jax.random.fold_in(self._key, number), 1)[0]

    def step(self, number: int, action: np.ndarray) -> _Reached:
        del number
        reached = self._copies.step(action[None])
        terminated, truncated = bool(reached.terminated[0]), bool(reached.truncated[0])
        self._ended = terminated or truncated
        return _Reached(
            reached.next_observation[0], float(reached.reward[0]), terminated, truncated
        )

    def frame(self) -> np.ndarray:
        if self._ended and self._frame is not None:
            return self._frame
        try:
            frame = self._copies.render()[0]
        # Gymnasium's own errors, a simulator's, those of a missing screen: they share no class.
        except Exception as error:
            raise ValueError(f"{self._name!r} cannot be drawn: {error}{_advice(error)}") from error
        self._frame = _picture(self._name, frame)
        return self._frame

    def close(self) -> None:
        self._copies.close()


def _picture(name: str, frame: Any) -> np.ndarray:
    """What an environment rendered, if that can be shown."""
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
        what = "nothing" if frame is None else getattr(frame, "shape", type(frame).__name__)
        raise ValueError(
            f"{name!r} cannot be drawn: it renders {what}; an array of shape (height, width, 3) is "
            'accepted, from render(state, params) in JAX, from render_mode="rgb_array" in Gymnasium'
        )
    return frame.astype(np.uint8)


def _advice(error: Exception) -> str:
    """What to do where MuJoCo finds nothing to draw with: its own words do not tell."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if not any("mujoco" in file for file in files):
        return ""
    return (
        ". MuJoCo draws by OpenGL: on a machine without a screen set the environment variable "
        "MUJOCO_GL to egl (a library that comes with graphics drivers and Mesa) or to osmesa"
    )
