"""Playing without learning: episodes of trained agents, with their statistics frozen."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from eligrad._base.checks import whole_number
from eligrad.agents.protocol import Agent
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.sharding import spread
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.core import step_autoreset
from eligrad.training.playing import Episodes, HostEpisodes, choose, play

LIMIT = 100_000
"""Steps after which an episode that does not end is left, unless told otherwise."""


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

    `states` are those of the agents, with a leading axis of runs. Nothing of them changes. An
    episode that does not end is left after `max_steps`, its return so far counted.
    """
    episodes, max_steps = whole_number("episodes", episodes), whole_number("max_steps", max_steps)
    runs = len(jax.tree.leaves(states)[0])
    agents = spread(agent, runs)
    if isinstance(env, HostEnvironment):
        choose_all = jax.jit(jax.vmap(functools.partial(choose, greedy=greedy)))
        with contextlib.closing(HostEpisodes(env, runs, seed)) as playing:
            act = functools.partial(choose_all, agents, states)
            return _count(act, playing, runs, episodes, max_steps)
    params = env.default_params() if params is None else params
    keys = jax.random.split(jax.random.key(seed), episodes)

    def returns(run: tuple[Agent, Any]) -> Float[Array, " episodes"]:
        one = functools.partial(_episode, run[0], env, params, greedy, max_steps, run[1])
        return jax.vmap(one)(keys)

    return np.asarray(jax.jit(functools.partial(jax.lax.map, returns))((agents, states)))


def _episode(
    agent: Agent,
    env: Environment,
    params: Any,
    greedy: bool,
    max_steps: int,
    state: Any,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """The return of one episode."""

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
    begun = (jnp.int32(1), jnp.zeros((), bool), *first, jnp.zeros((), jnp.float32))
    return jax.lax.while_loop(goes_on, step, begun)[-1]


def _count(
    act: Any, playing: Episodes, runs: int, episodes: int, max_steps: int
) -> Float[np.ndarray, "runs episodes"]:
    """Returns of so many episodes of each run, stepped together until every run has its own.

    Copies are begun anew all at once or not at all. A run that left an episode waits therefore
    until the others have theirs, or have left one as well: so that none is broken off for another.
    """
    returns: list[list[float]] = [[] for _ in range(runs)]
    while min(map(len, returns)) < episodes:
        total, length, left = np.zeros(runs), np.zeros(runs, int), np.zeros(runs, bool)
        for _, reached, _ in play(act, playing, playing.reset()):
            total, length = total + reached.reward, length + 1
            ended = reached.terminated | reached.truncated
            over = ~left & (ended | (length == max_steps))
            for run in np.flatnonzero(over):
                returns[run].append(float(total[run]))
            left |= over & ~ended
            total, length = np.where(over, 0.0, total), np.where(over, 0, length)
            if all(left[run] or len(returns[run]) >= episodes for run in range(runs)):
                break
    return np.array([each[:episodes] for each in returns], np.float32)
