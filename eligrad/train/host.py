"""The host engine: environments of Gymnasium, agents compiled, all seeds in lockstep.

The same runs and records as `eligrad.train.stream.Runs`, for environments that are not written in
JAX. A step of all runs is one step of the environments and one dispatch of the agents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from eligrad.agents.streaming import Experience
from eligrad.envs.host import HostEnvironment, Workers
from eligrad.train.observe import choose, observe
from eligrad.train.stream import StepRecord, for_each_run, shard_over_devices, spread


class HostState(NamedTuple):
    """All runs at one moment, but for the simulators, which live outside."""

    agent: Any
    agent_key: PRNGKeyArray
    step: Int[Array, " runs"]
    episode_return: np.ndarray
    episode_length: np.ndarray
    fault_step: np.ndarray


class HostRuns:
    """Many runs of one agent in copies of one environment, advanced together.

    A restored `state` goes on in new episodes, since a simulator is not part of it: call
    `interrupt` after setting it.
    """

    def __init__(
        self,
        agents: Any,
        env: HostEnvironment,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
        workers: Workers = "loop",
    ) -> None:
        self.count = len(agent_seeds)
        self.agents = spread(agents, self.count)
        self.env = env
        self._copies = env.open(self.count, workers)
        sharding = shard_over_devices(self.count)
        self._choose = jax.jit(for_each_run(choose, sharding))
        self._observe = jax.jit(for_each_run(observe, sharding), donate_argnums=1)
        observation = self._copies.reset([int(seed) for seed in env_seeds])
        keys = jax.vmap(jax.random.key)(jnp.asarray(agent_seeds))
        first_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 0)
        self.state = HostState(
            agent=jax.jit(jax.vmap(lambda agent, key, obs: agent.init(key, obs)))(
                self.agents, first_keys, jnp.asarray(observation)
            ),
            agent_key=keys,
            step=jnp.zeros(self.count, jnp.int32),
            episode_return=np.zeros(self.count, np.float32),
            episode_length=np.zeros(self.count, np.int32),
            fault_step=np.full(self.count, -1, np.int32),
        )

    def advance(self, steps: int) -> StepRecord:
        """Moves all runs on; returns records of shape [runs, steps]."""
        agent, keys, number, episode_return, length, fault = self.state
        agent, action = self._choose(self.agents, agent, keys, number + 1)
        ended = np.zeros((self.count, steps), bool)
        returns = np.zeros((self.count, steps), np.float32)
        lengths = np.zeros((self.count, steps), np.int32)
        errors = []
        for t in range(steps):
            world = self._copies.step(np.asarray(action))
            reward = world.reward.astype(np.float32)
            experience = Experience(
                reward=reward,
                terminated=world.terminated,
                truncated=world.truncated,
                next_observation=world.next_observation,
                observation=world.observation,
            )
            number = number + 1
            # Dispatched before the bookkeeping: the accelerator works meanwhile.
            agent, action, signals = self._observe(self.agents, agent, keys, number, experience)
            errors.append(signals.td_error)
            returns[:, t] = episode_return + reward
            lengths[:, t] = length + 1
            ended[:, t] = world.terminated | world.truncated
            episode_return = np.where(ended[:, t], np.float32(0), returns[:, t])
            length = np.where(ended[:, t], np.int32(0), lengths[:, t])
            faulty = ~(np.isfinite(reward) & _finite(world.next_observation))
            if faulty.any():
                fault = np.where(faulty & (fault < 0), np.asarray(number), fault)
        self.state = HostState(agent, keys, number, episode_return, length, fault)
        return StepRecord(ended, returns, lengths, np.stack([np.asarray(e) for e in errors], 1))

    def interrupt(self, env_seeds: np.ndarray) -> None:
        """Begins new episodes in new simulators; what was under way counts as truncated."""
        observation = jnp.asarray(self._copies.reset([int(seed) for seed in env_seeds]))
        agent = jax.jit(jax.vmap(lambda agent, state, obs: agent.interrupt(state, obs)))(
            self.agents, self.state.agent, observation
        )
        self.state = self.state._replace(
            agent=agent,
            episode_return=np.zeros_like(self.state.episode_return),
            episode_length=np.zeros_like(self.state.episode_length),
        )

    def close(self) -> None:
        """Closes the simulators."""
        self._copies.close()


def _finite(observations: np.ndarray) -> np.ndarray:
    if not np.issubdtype(observations.dtype, np.floating):
        return np.ones(len(observations), bool)
    return np.all(np.isfinite(observations.reshape(len(observations), -1)), axis=1)
