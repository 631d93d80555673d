"""The streaming engine: environment and agent in one compiled scan, any number of them at once.

A run is one agent in one environment. `begin` makes a run and `advance` takes a number of
steps. All runs are one program, sharded over the devices at hand; they may differ in seed, settings
and the environment's numbers. Every random number of step t comes from `fold_in(key, t)`, so that
chunks of any size give the same run.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eligrad._base.kernels import for_one_run
from eligrad.agents.protocol import RolloutAgent, StreamingAgent, Transition
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.episodes import Record, count_step
from eligrad.engines.sharding import DeviceEngine, for_each_run, in_turn
from eligrad.envs import core

UNROLL = 2
"""Steps in a round of an accelerator's loop. Two write the parameters from one place to another and
back. A single one must end where it began: they are then copied, a quarter of a step's time."""


class RunState(NamedTuple):
    """The whole state of one run: training continues from a saved one as if it never stopped.

    Where an agent acts in several environments, `env` and the episodes have a leading axis.
    """

    agent: Any
    env: Any
    agent_key: PRNGKeyArray
    env_key: PRNGKeyArray
    step: Int[Array, ""]
    """Environment steps taken, those of all environments together."""
    episode_return: Float[Array, "*envs"]
    """Sum of the raw rewards of the episode so far."""
    episode_length: Int[Array, "*envs"]
    fault_step: Int[Array, ""]
    """First step at which an environment gave a number that is not finite, counted from 1; 0 if
    its very first observation had one, -1 if there is none."""


def begin(
    agent: StreamingAgent | RolloutAgent,
    env: core.Environment,
    params: Any,
    agent_seed: Array,
    env_seed: Array,
) -> RunState:
    """A run before its first step; agent and environments have separate seeds."""
    # Step numbers are folded into the keys from 1 on; 0 is the beginning.
    agent_key, env_key = jax.random.key(agent_seed), jax.random.key(env_seed)
    reset_key, envs = jax.random.fold_in(env_key, 0), ()
    if isinstance(agent, RolloutAgent):
        envs = (agent.config.num_envs,)
        reset_keys = jax.random.split(reset_key, envs)
        env_state, observation = jax.vmap(env.reset, (0, None))(reset_keys, params)
    else:
        env_state, observation = env.reset(reset_key, params)
    return RunState(
        agent=agent.init(jax.random.fold_in(agent_key, 0), observation),
        env=env_state,
        agent_key=agent_key,
        env_key=env_key,
        step=jnp.zeros((), jnp.int32),
        episode_return=jnp.zeros(envs, jnp.float32),
        episode_length=jnp.zeros(envs, jnp.int32),
        fault_step=jnp.where(all_finite(observation), jnp.int32(-1), jnp.int32(0)),
    )


def advance(
    agent: StreamingAgent,
    env: core.Environment,
    params: Any,
    state: RunState,
    steps: int,
    unroll: int = 1,
) -> tuple[RunState, Record]:
    """`steps` steps of one run, and the record of each; `unroll` of them in a round of the loop."""
    numbers = state.step + 1 + jnp.arange(steps, dtype=jnp.int32)
    # Made in one batch before the loop: key arithmetic inside it would cost more than the game.
    agent_keys = jax.vmap(split_step_key, (None, 0))(state.agent_key, numbers)
    env_keys = jax.vmap(lambda t: jax.random.fold_in(state.env_key, t))(numbers)

    def step(carry: RunState, keys: Any) -> tuple[RunState, Array]:
        carry, record = _step(agent, env, params, carry, *keys)
        metrics.update(record.metrics)
        return carry, _pack(record)

    metrics: dict[str, Any] = {}  # their names are known once `step` is traced
    keys = (agent_keys[:, 0], agent_keys[:, 1], env_keys)
    state, packed = jax.lax.scan(step, state, keys, unroll=unroll)
    return state, _unpack(packed, tuple(metrics))


def _pack(record: Record) -> Int[Array, "fields"]:
    """A record as one vector of words: one write to memory in each step instead of many."""
    bits = functools.partial(jax.lax.bitcast_convert_type, new_dtype=jnp.int32)
    numbers = [jnp.asarray(value, jnp.float32) for value in record.metrics.values()]
    return jnp.stack(
        [
            record.ended.astype(jnp.int32),
            bits(record.episode_return),
            record.episode_length,
            *map(bits, numbers),
        ]
    )


def _unpack(words: Int[Array, "steps fields"], names: tuple[str, ...]) -> Record:
    floats = functools.partial(jax.lax.bitcast_convert_type, new_dtype=jnp.float32)
    ended, episode_return, episode_length, *numbers = words.T
    metrics = dict(zip(names, map(floats, numbers), strict=True))
    return Record(ended != 0, floats(episode_return), episode_length, metrics)


def play(
    env: core.Environment, key: PRNGKeyArray, state: Any, action: Array, params: Any
) -> core.Transition:
    """One step of an environment, without the state at an episode's end: training needs none."""
    reached = core.step_autoreset(env, key, state, action, params)
    # The barrier keeps the compiler from stepping again in each place that reads the result; and
    # keeps all that goes through it.
    return jax.lax.optimization_barrier(reached._replace(next_state=None))


def _step(
    agent: StreamingAgent,
    env: core.Environment,
    params: Any,
    state: RunState,
    act_key: PRNGKeyArray,
    update_key: PRNGKeyArray,
    env_key: PRNGKeyArray,
) -> tuple[RunState, Record]:
    chosen, action = agent.act(state.agent, act_key)
    reached = play(env, env_key, state.env, action, params)
    learned, metrics = agent.update(chosen, Transition.of(reached), update_key)
    state, episode = count(state, reached, action)
    return state._replace(agent=learned), Record(*episode, metrics)


def count(
    state: RunState, reached: core.Transition, sent: Array
) -> tuple[RunState, tuple[Array, Array, Array]]:
    """The run in the environment's next state, and its episode: ended, return and length."""
    ended = reached.terminated | reached.truncated
    episode, onward = count_step(state.episode_return, state.episode_length, reached.reward, ended)
    step = state.step + ended.size
    sound = all_finite(reached.reward) & all_finite(reached.next_observation)
    sound &= all_finite(reached.observation)
    # After an action that is not finite, the fault is not the environment's.
    sound |= ~all_finite(sent)
    state = state._replace(
        env=reached.state,
        step=step,
        episode_return=onward[0],
        episode_length=onward[1],
        fault_step=jnp.where(~sound & (state.fault_step < 0), step, state.fault_step),
    )
    return state, (ended, *episode)


def all_finite(observation: Array) -> Bool[Array, ""]:
    """Whether all numbers are finite; integers are."""
    if not jnp.issubdtype(observation.dtype, jnp.floating):
        return jnp.ones((), bool)
    return jnp.all(jnp.isfinite(observation))


class Runs(DeviceEngine):
    """Many runs of one agent in one environment, advanced together."""

    _begin = staticmethod(begin)

    def _advance_all(
        self, agents: Any, params: Any, state: RunState, steps: int
    ) -> tuple[RunState, Record]:
        alone = in_turn(self._shares.sharding)
        unroll = 1 if alone else UNROLL

        def of_one(agent: Any, params: Any, state: RunState) -> tuple[RunState, Record]:
            with for_one_run(on_cpu=alone):
                return advance(agent, self.env, params, state, steps, unroll)

        return for_each_run(of_one, self._shares.sharding, in_place=True)(agents, params, state)

    def reset(self, env_seeds: np.ndarray) -> np.ndarray:
        """Starts new episodes, and returns their first observations; agents stay as they are."""
        keys = jax.vmap(jax.random.key)(jnp.asarray(env_seeds))
        first_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 0)
        env, observation = jax.vmap(self.env.reset)(first_keys, self.params)
        zeros = jnp.zeros(self.count, jnp.int32)
        self.state = self.state._replace(
            env=env, env_key=keys, episode_return=zeros.astype(jnp.float32), episode_length=zeros
        )
        return np.asarray(observation)
