"""Playing without learning: episodes of trained agents, with their statistics frozen."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eligrad._base.checks import whole_number
from eligrad.agents.protocol import Agent
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.sharding import spread
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.core import step_autoreset
from eligrad.training.playing import HostEpisodes, choose, play

LIMIT = 100_000
"""Steps after which an episode that does not end is cut off, by default."""


class CutOffWarning(UserWarning):
    """Episodes of an evaluation did not end; the message says how many did."""


def evaluate(
    agent: Agent,
    env: Environment | HostEnvironment,
    states: Any,
    *,
    episodes: int = 10,
    seed: int = 0,
    greedy: bool = True,
    params: Any = None,
    max_steps: int = LIMIT,
) -> Float[np.ndarray, "runs episodes"]:
    """Returns of whole episodes of each run, without learning.

    Args:
        agent: the agent.
        env: where it plays.
        states: those of the agents, with a leading axis of runs; they do not change.
        episodes: how many of each run.
        seed: decides what is random in the environment.
        greedy: whether to take the best action; if not, one is drawn as in training.
        params: of a JAX environment; by default its own.
        max_steps: an episode that has not ended by then is cut off, with a `CutOffWarning`, and its
            return so far is counted.
    """
    again = Evaluation(env, greedy=greedy, max_steps=max_steps)
    return again(agent, states, episodes=episodes, seed=seed, params=params)


class Evaluation:
    """`evaluate` in one environment, again and again: a program is compiled once.

    So of an environment in JAX, changes after the first time are not seen.
    """

    def __init__(
        self, env: Environment | HostEnvironment, *, greedy: bool = True, max_steps: int = LIMIT
    ) -> None:
        self.env, self._max_steps = env, whole_number("max_steps", max_steps)
        if isinstance(env, HostEnvironment):
            self._play: Any = _choose_greedily if greedy else _choose_as_in_training
        else:
            self._play = _program(env, greedy, self._max_steps)

    def __call__(
        self, agent: Agent, states: Any, *, episodes: int = 10, seed: int = 0, params: Any = None
    ) -> Float[np.ndarray, "runs episodes"]:
        """Returns of whole episodes of each run; arguments as of `evaluate`."""
        episodes = whole_number("episodes", episodes)
        runs = len(jax.tree.leaves(states)[0])
        agents = spread(agent, runs)
        if isinstance(self.env, HostEnvironment):
            with contextlib.closing(HostEpisodes(self.env, runs, seed)) as playing:
                act = functools.partial(self._play, agents, states)
                counted = _count(act, playing, runs, episodes, self._max_steps)
        else:
            params = self.env.default_params() if params is None else params
            keys = jax.random.split(jax.random.key(seed), episodes)
            counted = self._play(agents, states, jax.tree.map(jnp.asarray, params), keys)
        returns, ended = map(np.asarray, counted)
        return _warned(returns, ended, self._max_steps)


def _program(
    env: Environment, greedy: bool, max_steps: int
) -> Callable[..., tuple[Float[Array, "runs episodes"], Bool[Array, "runs episodes"]]]:
    """The compiled program that plays episodes of all runs."""

    def play_all(agents: Agent, states: Any, params: Any, keys: Shaped[Array, " episodes"]) -> Any:
        def of_run(run: tuple[Agent, Any]) -> tuple[Array, Array]:
            one = functools.partial(_episode, run[0], env, params, greedy, max_steps, run[1])
            return jax.vmap(one)(keys)

        return jax.lax.map(of_run, (agents, states))

    return jax.jit(play_all)


_choose_greedily, _choose_as_in_training = (
    jax.jit(jax.vmap(functools.partial(choose, greedy=greedy))) for greedy in (True, False)
)


def _warned(
    returns: Float[np.ndarray, "runs episodes"],
    ended: Bool[np.ndarray, "runs episodes"],
    max_steps: int,
) -> Float[np.ndarray, "runs episodes"]:
    """The returns, after a warning if an episode did not end."""
    if not ended.all():
        warnings.warn(
            f"{ended.sum():,} of {ended.size:,} episodes ended; the others were cut off after "
            f"{max_steps:,} steps, and count with their return so far: a larger max_steps "
            "(--max-steps) lets them go on",
            CutOffWarning,
            stacklevel=4,
        )
    return returns


def _episode(
    agent: Agent,
    env: Environment,
    params: Any,
    greedy: bool,
    max_steps: int,
    state: Any,
    key: PRNGKeyArray,
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """The return of one episode, and whether it ended."""

    def step(carry: Any) -> Any:
        number, _, env_state, observation, total = carry
        act_key, env_key = split_step_key(key, number)
        action = choose(agent, state, observation, act_key, greedy)
        reached = step_autoreset(env, env_key, env_state, action, params)
        ended = reached.terminated | reached.truncated
        total = total + reached.reward.astype(jnp.float32)
        return number + 1, ended, reached.state, reached.observation, total

    def goes_on(carry: Any) -> Array:
        return ~carry[1] & (carry[0] <= max_steps)

    first = env.reset(jax.random.fold_in(key, 0), params)
    initial = (jnp.int32(1), jnp.zeros((), bool), *first, jnp.zeros((), jnp.float32))
    _, ended, *_, total = jax.lax.while_loop(goes_on, step, initial)
    return total, ended


def _count(
    act: Any, playing: HostEpisodes, runs: int, episodes: int, max_steps: int
) -> tuple[Float[np.ndarray, "runs episodes"], Bool[np.ndarray, "runs episodes"]]:
    """Returns of so many episodes of each run, and whether each ended; all runs step together.

    Copies start new episodes all at once or not at all. A run that left an episode waits therefore
    until the others have theirs, or have left one as well: so that none is broken off for another.
    """
    returns: list[list[tuple[float, bool]]] = [[] for _ in range(runs)]
    while min(map(len, returns)) < episodes:
        total, length, left = np.zeros(runs), np.zeros(runs, int), np.zeros(runs, bool)
        for _, reached, _ in play(act, playing, playing.reset()):
            total, length = total + reached.reward, length + 1
            ended = reached.terminated | reached.truncated
            over = ~left & (ended | (length == max_steps))
            for run in np.flatnonzero(over):
                returns[run].append((float(total[run]), bool(ended[run])))
            left |= over & ~ended
            total, length = np.where(over, 0.0, total), np.where(over, 0, length)
            if all(left[run] or len(returns[run]) >= episodes for run in range(runs)):
                break
    totals, ends = np.moveaxis(np.array([each[:episodes] for each in returns]), -1, 0)
    return totals.astype(np.float32), ends.astype(bool)
