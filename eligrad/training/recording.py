"""One episode of a trained agent, with the agent's estimates: value, h and TD error.

The agent does not learn: every number is that of the agent as it was saved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt8

from eligrad._base.checks import whole_number
from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.engines.trained import Trained, Which, environment_of, read_agent
from eligrad.envs import Environment, HostEnvironment, make
from eligrad.envs.registry import change_params
from eligrad.training.build import title as run_title
from eligrad.training.playing import HostEpisodes, JaxEpisodes, choose, play

MAX_STEPS = 500
"""Steps after which a recording is cut off, by default."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """An episode of T steps and T + 1 states; entry t of a step is about the step from s_t."""

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
    """Whether the environment cut it off; if both are false, the recording did."""
    scaled_rewards: Float[np.ndarray, "steps"] | None = None
    """Rewards as the agent sees them; all that follows is in this unit. None, as is all that
    follows, for an agent that gives no estimates (see `Agent.inspect`)."""
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
    env: str | None = None,
) -> Recording:
    """An episode of one agent of a run folder, or of a file that an agent was saved to.

    Args:
        run: the folder or the file.
        seed: which one, if there are several.
        episode: seeds the environment: the same number gives the same episode.
        greedy: whether actions are the best ones; if not, they are drawn as in training.
        max_steps: cut the episode off after this many.
        env: the environment, for an agent that was saved without one.
    """
    max_steps = whole_number("max_steps", max_steps)
    trained = read_agent(run, seed, env=env)
    made = _drawing_itself(trained, Path(run).expanduser(), env)
    registry.check_fit(trained.agent, made)
    return record(
        trained.agent,
        trained.state,
        made,
        params=change_params(made, trained.plan.env_params),
        episode=episode,
        greedy=greedy,
        max_steps=max_steps,
        title=f"{run_title(trained.plan, made)}, seed {trained.seed}, after {trained.step:,} steps",
    )


def _drawing_itself(trained: Trained, run: Path, env: str | None) -> Environment | HostEnvironment:
    """The agent's environment, or that of another name; one of Gymnasium draws itself."""
    made, plan = environment_of(trained.plan, run, env), trained.plan
    name = plan.env if env is None else env
    if isinstance(made, Environment) or name is None:
        return made
    try:
        return make(name, max_episode_steps=plan.max_episode_steps, render_mode="rgb_array")
    # Environments of other people may raise anything when they render.
    except Exception as error:
        raise ValueError(f"{name!r} cannot be drawn: {error}") from error


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
    choose_one = jax.jit(functools.partial(choose, agent, state, greedy=greedy))
    playing = (
        HostEpisodes(env, 1, episode)
        if isinstance(env, HostEnvironment)
        else JaxEpisodes(env, params, episode)
    )

    def act(observations: np.ndarray, keys: Array) -> Array:
        return choose_one(observations[0], keys[0])[None]

    with contextlib.closing(playing):
        first = playing.reset()
        observations, frames = [first[0]], [playing.frame()]
        actions, rewards = [], list[float]()
        terminated = truncated = False
        for action, reached, following in play(act, playing, first):
            observations.append(reached.next_observation[0])
            frames.append(playing.frame())
            actions.append(action[0])
            rewards.append(float(reached.reward[0]))
            terminated, truncated = bool(reached.terminated[0]), bool(reached.truncated[0])
            if terminated or truncated or len(rewards) == max_steps:
                actions.append(following[0])  # not taken, but SARSA bootstraps from it
                break
    seen, taken, got = np.stack(observations), np.stack(actions), np.array(rewards)
    thoughts: dict[str, Any] = {}
    inspection = agent.inspect(state, seen, taken, got)
    if inspection is not None:
        following = inspection.next_values * np.append(np.ones(len(rewards) - 1), not terminated)
        thoughts = {
            "scaled_rewards": inspection.rewards,
            "values": inspection.values,
            "following": following,
            "td_errors": inspection.rewards + inspection.discount * following - inspection.values,
            "auxiliary": inspection.h,
            "of_actions": inspection.of_actions,
            "discount": inspection.discount,
        }
    return Recording(
        title=title or env.name,
        frames=np.stack(frames),
        observations=seen,
        actions=taken[:-1],
        rewards=got,
        terminated=terminated,
        truncated=truncated,
        action_names=_action_names(env),
        **thoughts,
    )


def _action_names(env: Environment | HostEnvironment) -> tuple[str, ...]:
    """What the actions of a MinAtar game do."""
    from eligrad.envs.minatar import Game

    inner = getattr(env, "env", env)
    names = ("noop", "left", "up", "right", "down", "fire")
    return tuple(names[action] for action in inner.actions) if isinstance(inner, Game) else ()
