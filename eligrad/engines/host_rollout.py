"""Rollouts in environments of Gymnasium: all seeds in lockstep.

The same runs and records as `eligrad.engines.rollout.Rollouts`, for environments that are not
written in JAX. NumPy acts for all runs at once; an update of all runs is one dispatch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from eligrad.agents.protocol import Rollout, RolloutAgent
from eligrad.engines.devices import jit
from eligrad.engines.dispatch import split_step_key
from eligrad.engines.episodes import Record, count_steps
from eligrad.engines.host import LockstepEngine, first_state
from eligrad.engines.host_normalizer import HostNormalizer
from eligrad.engines.numpy_program import Untranslatable, translate
from eligrad.engines.sharding import for_each_run, here, spread
from eligrad.engines.simulators import Simulators
from eligrad.envs.host import HostEnvironment


class HostRollouts(LockstepEngine):
    """Many runs of one agent in copies of one environment, a rollout at a time.

    Args:
        agents: one agent, or a batch of settings: a pytree whose numeric leaves have a leading axis
            with one entry for each run.
        env: the environment.
        agent_seeds: one for each run; they decide the agents' random numbers.
        env_seeds: one for each run; they decide the environments' random numbers.
    """

    def __init__(
        self,
        agents: RolloutAgent,
        env: HostEnvironment,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
    ) -> None:
        config = agents.config
        self.count, self.env = len(agent_seeds), env
        self._agent, self.agents = agents, spread(agents, self.count)
        self._rollout, self._envs = config.rollout, config.num_envs
        self._time = config.rollout // config.num_envs
        self._copies = Simulators(env.open(self.count * self._envs))
        observation = self._reset(env_seeds)
        runs = here()
        episodes = (self.count, self._envs)
        self._state = first_state(self.agents, agent_seeds, observation, episodes)
        self._noise = jax.jit(for_each_run(self._draw_noise, runs))
        self._policy = _policy_of(agents, self._state.agent, self._envs)
        self._learn = jit(for_each_run(_learn, runs))

    def _reset(self, env_seeds: np.ndarray) -> np.ndarray:
        seeds = [
            int(word) >> 1
            for seed in env_seeds
            for word in np.random.SeedSequence(int(seed)).generate_state(self._envs)
        ]
        return self._by_run(self._copies.reset(seeds))

    def _by_run(self, rows: np.ndarray) -> np.ndarray:
        return rows.reshape(self.count, self._envs, *rows.shape[1:])

    def _draw_noise(
        self, agent: RolloutAgent, key: PRNGKeyArray, number: Array
    ) -> tuple[Array, Array]:
        act_key, learn_key = split_step_key(key, number)
        return agent.noise(act_key, (self._time, self._envs)), learn_key

    def advance(self, steps: int) -> Record:
        """Advances all runs by whole rollouts; returns records of shape [runs, steps]."""
        records = [self._advance() for _ in range(steps // self._rollout)]
        ended, returns, lengths, metrics, _ = zip(*records, strict=True)
        named = {name: np.stack([each[name] for each in metrics], 1) for name in metrics[0]}
        joined = (np.concatenate(each, 1) for each in (ended, returns, lengths))
        return Record(*joined, metrics=named, info=self._copies.take_info(self.count))

    def _advance(self) -> Record:
        """One rollout and its update."""
        started = time.perf_counter()
        state = self._state
        number = jnp.asarray(state.step // self._rollout + 1)
        noise, learn_keys = self._noise(self.agents, state.agent_key, number)
        collected = self._collect(np.asarray(noise))
        ended = time.perf_counter()
        agent, metrics = self._learn(
            self.agents, state.agent, collected.normalizer, collected.observation,
            collected.rollout, learn_keys,
        )  # fmt: skip
        metrics = {name: np.asarray(value) for name, value in metrics.items()}
        metrics["rollout_seconds"] = np.full(self.count, ended - started)
        metrics["update_seconds"] = np.full(self.count, time.perf_counter() - ended)
        return self._count(collected, agent)._replace(metrics=metrics)

    def _collect(self, noise: np.ndarray) -> Collected:
        """Acts for the length of a rollout."""
        agent = self._state.agent
        policy = self._policy(self._agent.actor(agent))
        normalizer = HostNormalizer(agent.normalizer, np.asarray(self.agents.config.gamma))
        copies = (self.count, self._envs)
        first = np.asarray(agent.observation).reshape(*copies, -1)
        # Row t has the observation at time t, and the reward that came with it.
        rows = np.empty((self._time + 1, *copies, first.shape[-1] + 1), np.float32)
        rows[0, ..., :-1] = first
        led_elsewhere = {}
        reward = np.empty((self._time, self.count * self._envs))
        terminated, truncated = np.empty((2, *reward.shape), bool)
        actions, before = [], int(self._state.step[0])
        with np.errstate(all="ignore"):  # NaN is found at the end
            for t in range(self._time):
                action, sent = policy(normalizer.observations(rows[t]), noise[:, t])
                actions.append(action)
                reached = self._step(
                    sent.reshape(-1, *sent.shape[2:]), before + self._envs * (t + 1)
                )
                following = normalizer.normalize(reached, rows[t + 1])
                if following is not None:
                    led_elsewhere[t] = following
                reward[t], terminated[t], truncated[t] = reached[1:4]
        observations = normalizer.observations(rows)
        followings = rows[1:].copy()
        for t, following in led_elsewhere.items():
            followings[t] = following
        unsound = ~np.isfinite([rows[1:], followings]).all(axis=(0, 3, 4))
        ended = terminated | truncated
        terminated, truncated = self._over_time(terminated), self._over_time(truncated)
        return Collected(
            normalizer=normalizer.state(),
            observation=observations[-1],
            rollout=Rollout(
                observation=jnp.asarray(_runs_first(observations[:-1])),
                action=jnp.asarray(_runs_first(np.stack(actions))),
                reward=jnp.asarray(_runs_first(rows[1:, ..., -1])),
                terminated=jnp.asarray(terminated),
                truncated=jnp.asarray(truncated & ~terminated),
                next_observation=jnp.asarray(_runs_first(normalizer.observations(followings))),
            ),
            reward=reward.astype(np.float32),
            ended=ended,
            fault_step=np.where(unsound.any(axis=0), 1 + np.argmax(unsound, axis=0), -1),
        )

    def _over_time(self, numbers: np.ndarray) -> np.ndarray:
        """[time, copies] as [runs, time, envs]."""
        return _runs_first(numbers.reshape(self._time, self.count, self._envs))

    def _count(self, collected: Collected, agent: Any) -> Record:
        """Takes the runs to the end of a rollout; returns the episodes in it."""
        state, copies = self._state, (self.count, self._envs)
        episodes, onward = count_steps(
            state.episode_return.reshape(-1),
            state.episode_length.reshape(-1),
            collected.reward,
            collected.ended,
        )
        first = (collected.fault_step >= 0) & (state.fault_step < 0)
        fault_step = state.step + self._envs * collected.fault_step
        self._state = state._replace(
            agent=agent,
            step=state.step + np.int32(self._rollout),
            episode_return=onward[0].reshape(copies),
            episode_length=onward[1].reshape(copies),
            fault_step=np.where(first, fault_step, state.fault_step).astype(np.int32),
        )
        by_run = (
            self._over_time(each).reshape(self.count, self._rollout)
            for each in (collected.ended, *episodes)
        )
        return Record(*by_run, metrics={})


class Collected(NamedTuple):
    """A rollout of all runs, [runs, time, envs, …], and what they have then."""

    normalizer: Any
    observation: np.ndarray
    """The current one, normalised: [runs, envs, …]."""
    rollout: Rollout
    reward: np.ndarray
    """As the environments gave it, [time, runs · envs]."""
    ended: np.ndarray
    """Whether the episode did, one way or the other, [time, runs · envs]."""
    fault_step: np.ndarray
    """The time, from 1 on, at which each run first got a number that is not finite, or -1."""


Act = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _policy_of(agent: RolloutAgent, state: Any, envs: int) -> Callable[[Any], Act]:
    """`agent.act` of all runs as a function of observations and noise, given the actors.

    In NumPy if that is possible, and compiled otherwise.
    """
    act = jax.vmap(agent.act)
    runs = len(state.observation)
    noise = jax.eval_shape(lambda: agent.noise(jax.random.key(0), (runs, envs)))
    try:
        return translate(act, agent.actor(state), state.observation, noise).bind
    except Untranslatable:
        compiled = jax.jit(act)

    def policy(actors: Any) -> Act:
        def call(observation: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            action, sent = compiled(actors, observation, noise)
            return np.asarray(action), np.asarray(sent)

        return call

    return policy


def _learn(
    agent: RolloutAgent,
    state: Any,
    normalizer: Any,
    observation: Array,
    rollout: Rollout,
    key: PRNGKeyArray,
) -> tuple[Any, Any]:
    """One update, with the statistics since the last one."""
    state = state._replace(normalizer=normalizer, observation=observation)
    return agent.learn(state, rollout, key)


def _runs_first(array: np.ndarray) -> np.ndarray:
    """[time, runs, …] as [runs, time, …]."""
    return np.moveaxis(array, 0, 1)
