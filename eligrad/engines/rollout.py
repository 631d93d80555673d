"""Rollouts in JAX environments: collection and update in one compiled program.

Each run has an agent, and as many environments as its settings say. Random numbers of a rollout
come from `fold_in(key, number of the rollout)`, so that stopping between two changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from eligrad.agents.protocol import Rollout, RolloutAgent, Transition
from eligrad.engines.devices import jit
from eligrad.engines.episodes import Record, count_step
from eligrad.engines.sharding import DeviceEngine, for_each_run
from eligrad.engines.stream import all_finite, play, spread
from eligrad.envs.core import Environment


class RolloutState(NamedTuple):
    """One run at one moment, all of it; leading axis [envs] where environments differ."""

    agent: Any
    env: Any
    agent_key: PRNGKeyArray
    env_key: PRNGKeyArray
    step: Int[Array, ""]
    """Environment steps taken, those of all environments together."""
    episode_return: Float[Array, " envs"]
    """Sum of the raw rewards of the episode so far."""
    episode_length: Int[Array, " envs"]
    fault_step: Int[Array, ""]
    """First step at which an environment gave a number that is not finite, counted from 1; 0 if
    its very first observation had one, -1 if there is none."""


def rollout_keys(agent_key: PRNGKeyArray, number: Int[Array, ""]) -> Shaped[Array, "2"]:
    """The keys of a rollout, for acting and for learning; rollouts count from 1."""
    return jax.random.split(jax.random.fold_in(agent_key, number))


def begin(
    agent: RolloutAgent, env: Environment, params: Any, agent_seed: Array, env_seed: Array
) -> Any:
    """A run before its first rollout; agent and environments have separate seeds."""
    agent_key, env_key = jax.random.key(agent_seed), jax.random.key(env_seed)
    envs = agent.config.num_envs
    reset_keys = jax.random.split(jax.random.fold_in(env_key, 0), envs)
    env_state, observation = jax.vmap(env.reset, (0, None))(reset_keys, params)
    return RolloutState(
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
    agent: RolloutAgent, env: Environment, params: Any, state: RolloutState, rollouts: int
) -> tuple[RolloutState, Record]:
    """Advances one run by `rollouts` rollouts, each with its update."""

    def one(state: RolloutState, _: None) -> tuple[RolloutState, Record]:
        number = state.step // agent.config.rollout + 1
        act_key, learn_key = rollout_keys(state.agent_key, number)
        state, rollout, episodes = _collect(agent, env, params, state, act_key)
        learned, metrics = agent.learn(state.agent, rollout, learn_key)
        return state._replace(agent=learned), Record(*episodes, metrics)

    state, record = jax.lax.scan(one, state, length=rollouts)
    ended, returns, lengths = (field.reshape(-1) for field in record[:3])
    return state, Record(ended, returns, lengths, record.metrics)


def _collect(
    agent: RolloutAgent, env: Environment, params: Any, state: RolloutState, key: PRNGKeyArray
) -> tuple[RolloutState, Rollout, tuple[Array, Array, Array]]:
    """One rollout, and the episodes in it: ended, return and length, [time, envs]."""
    envs = agent.config.num_envs
    time = agent.config.rollout // envs
    noise = agent.noise(key, (time, envs))
    # The noise has a separate key, so its number may be that of the environments.
    env_key = jax.random.fold_in(state.env_key, state.step + 1)
    env_keys = jax.random.split(env_key, (time, envs))

    def step(state: RolloutState, inputs: tuple[Array, Array]) -> tuple[RolloutState, Any]:
        noise, keys = inputs
        observation = state.agent.observation
        action, sent = agent.act(agent.actor(state.agent), observation, noise)
        reached = jax.vmap(
            lambda key, env_state, action: play(env, key, env_state, action, params)
        )(keys, state.env, sent)
        transition = Transition(
            reward=reached.reward,
            terminated=reached.terminated,
            truncated=reached.truncated,
            next_observation=reached.next_observation,
            observation=reached.observation,
        )
        normalizer, seen = agent.normalize(state.agent.normalizer, transition)
        ended = reached.terminated | reached.truncated
        episode, onward = count_step(
            state.episode_return, state.episode_length, reached.reward, ended
        )
        sound = all_finite(reached.reward) & all_finite(reached.next_observation)
        sound &= all_finite(reached.observation)
        # After an action that is not finite, the fault is not the environment's.
        sound |= ~all_finite(sent)
        number = state.step + envs
        row = Rollout(
            observation,
            action,
            seen.reward,
            reached.terminated,
            reached.truncated,
            seen.next_observation,
        )
        state = state._replace(
            agent=state.agent._replace(normalizer=normalizer, observation=seen.observation),
            env=reached.state,
            step=number,
            episode_return=onward[0],
            episode_length=onward[1],
            fault_step=jnp.where(~sound & (state.fault_step < 0), number, state.fault_step),
        )
        return state, (row, (ended, *episode))

    state, (rollout, episodes) = jax.lax.scan(step, state, (noise, env_keys))
    return state, rollout, episodes


class Rollouts(DeviceEngine):
    """Many runs of one agent in one JAX environment, a rollout at a time.

    Args:
        agents: one agent, or a batch of settings: a pytree whose numeric leaves have a leading axis
            with one entry for each run.
        env: the environment.
        params: its numbers: one set, or a batch with one entry for each run.
        agent_seeds: one for each run; they decide the agents' random numbers.
        env_seeds: one for each run; they decide the environments' random numbers.
    """

    def __init__(
        self,
        agents: Any,
        env: Environment,
        params: Any,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
    ) -> None:
        self.count, self.env = len(agent_seeds), env
        self.agents = spread(agents, self.count)
        self.params = spread(params, self.count, like=env.default_params())
        self._rollout = agents.config.rollout
        self._begin(lambda agent, *run: begin(agent, env, *run), agent_seeds, env_seeds)
        self._advance = jit(self._advance_all, static_argnums=3, donate_argnums=2)

    def _advance_all(
        self, agents: Any, params: Any, state: RolloutState, rollouts: int
    ) -> tuple[RolloutState, Record]:
        return for_each_run(
            lambda agent, params, state: advance(agent, self.env, params, state, rollouts),
            self._shares.sharding,
        )(agents, params, state)

    def advance(self, steps: int) -> Record:
        """Advances all runs by whole rollouts; returns records of shape [runs, steps]."""
        rollouts = steps // self._rollout
        self._state, records = self._advance(*self._settings, self._state, rollouts)
        return self._shares.drop(records)
