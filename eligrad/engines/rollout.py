"""Rollouts in JAX environments: collection and update in one compiled program.

Each run has an agent, and as many environments as its settings say. Random numbers of a rollout
come from `fold_in(key, number of the rollout)`, so that stopping between two changes nothing.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, PRNGKeyArray

from eligrad.agents.protocol import Rollout, RolloutAgent, Transition
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.episodes import Record
from eligrad.engines.sharding import DeviceEngine, for_each_run
from eligrad.engines.stream import RunState, begin, count, play
from eligrad.envs.core import Environment


def advance(
    agent: RolloutAgent, env: Environment, params: Any, state: RunState, rollouts: int
) -> tuple[RunState, Record]:
    """Advances one run by `rollouts` rollouts, each with its update."""

    def one(state: RunState, _: None) -> tuple[RunState, Record]:
        number = state.step // agent.config.rollout + 1
        act_key, learn_key = split_step_key(state.agent_key, number)
        state, rollout, episodes = _collect(agent, env, params, state, act_key)
        learned, metrics = agent.learn(state.agent, rollout, learn_key)
        return state._replace(agent=learned), Record(*episodes, metrics)

    state, record = jax.lax.scan(one, state, length=rollouts)
    ended, returns, lengths = (field.reshape(-1) for field in record[:3])
    return state, Record(ended, returns, lengths, record.metrics)


def _collect(
    agent: RolloutAgent, env: Environment, params: Any, state: RunState, key: PRNGKeyArray
) -> tuple[RunState, Rollout, tuple[Array, Array, Array]]:
    """One rollout, and the episodes in it: ended, return and length, [time, envs]."""
    envs = agent.config.num_envs
    time = agent.config.rollout // envs
    noise = agent.noise(key, (time, envs))
    # The noise has a separate key, so its number may be that of the environments.
    env_key = jax.random.fold_in(state.env_key, state.step + 1)
    env_keys = jax.random.split(env_key, (time, envs))

    def step(state: RunState, inputs: tuple[Array, Array]) -> tuple[RunState, Any]:
        noise, keys = inputs
        observation = state.agent.observation
        action, sent = agent.act(agent.actor(state.agent), observation, noise)
        reached = jax.vmap(
            lambda key, env_state, action: play(env, key, env_state, action, params)
        )(keys, state.env, sent)
        normalizer, seen = agent.normalize(state.agent.normalizer, Transition.of(reached))
        row = Rollout(
            observation,
            action,
            seen.reward,
            reached.terminated,
            reached.truncated,
            seen.next_observation,
        )
        learned = state.agent._replace(normalizer=normalizer, observation=seen.observation)
        state, episode = count(state, reached, sent)
        return state._replace(agent=learned), (row, episode)

    state, (rollout, episodes) = jax.lax.scan(step, state, (noise, env_keys))
    return state, rollout, episodes


class Rollouts(DeviceEngine):
    """Many runs of one agent in one JAX environment, advanced by whole rollouts."""

    _begin = staticmethod(begin)

    def _advance_all(
        self, agents: Any, params: Any, state: RunState, steps: int
    ) -> tuple[RunState, Record]:
        rollouts = steps // agents.config.rollout
        return for_each_run(
            lambda agent, params, state: advance(agent, self.env, params, state, rollouts),
            self._shares.sharding,
        )(agents, params, state)
