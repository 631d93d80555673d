"""Rollouts in environments of Gymnasium: all seeds in lockstep, their agents compiled.

The same runs and records as `eligrad.train.rollout.Rollouts`, for environments that are not
written in JAX. A step of all runs is one step of the environments and one dispatch of the
policies; an update of all runs is one dispatch, too.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from eligrad.agents.ppo import ActorCritic, PPOState, Rollout
from eligrad.agents.streaming import Experience
from eligrad.envs.host import HostEnvironment, HostTransition, Workers
from eligrad.train.faults import step_failed
from eligrad.train.host import HostState, all_rows_finite
from eligrad.train.metrics import Measured
from eligrad.train.packing import Packing
from eligrad.train.rollout import RolloutRecord, measure_rollouts, rollout_keys
from eligrad.train.simulators import HostEngine, Simulators
from eligrad.train.stream import for_each_run, here, spread


class HostRollouts(HostEngine):
    """Many runs of one agent in copies of one environment, a rollout at a time."""

    def __init__(
        self,
        agents: ActorCritic,
        env: HostEnvironment,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
        workers: Workers = "loop",
    ) -> None:
        config = agents.config
        self.count, self.env = len(agent_seeds), env
        self.agents = spread(agents, self.count)
        self._rollout, self._envs = config.rollout, config.num_envs
        self._time = config.rollout // config.num_envs
        self._copies = Simulators(env.open(self.count * self._envs, workers))
        observation = self._reset(env_seeds)
        keys = jax.vmap(jax.random.key)(jnp.asarray(agent_seeds))
        first_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 0)
        runs = here()
        self._state = HostState(
            agent=jax.jit(for_each_run(lambda agent, key, obs: agent.init(key, obs), runs))(
                self.agents, first_keys, jnp.asarray(observation)
            ),
            agent_key=keys,
            step=np.zeros(self.count, np.int32),
            episode_return=np.zeros((self.count, self._envs), np.float32),
            episode_length=np.zeros((self.count, self._envs), np.int32),
            fault_step=np.where(all_rows_finite(observation), -1, 0).astype(np.int32),
        )
        one = jax.tree.map(lambda leaf: leaf[0], self._state.agent)
        self._step = _Step(agents, one, env)
        self._noise = jax.jit(for_each_run(self._draw_noise, runs))
        # At once, on a CPU as well: a step is so small that calling its parts is all it costs. No
        # sum goes over runs, and each has the same bits as alone.
        self._begin = jax.jit(jax.vmap(self._step.begin))
        self._observe = jax.jit(jax.vmap(self._step.observe))
        self._learn = jax.jit(for_each_run(self._step.learn, runs))

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
        self, agent: ActorCritic, key: PRNGKeyArray, number: Array
    ) -> tuple[Array, Array]:
        act_key, learn_key = rollout_keys(key, number)
        return agent.policy.noise(act_key, (self._time, self._envs)), learn_key

    def advance(self, steps: int) -> RolloutRecord:
        """Moves all runs on by whole rollouts; returns records of shape [runs, steps]."""
        records = [self._advance() for _ in range(steps // self._rollout)]
        told = [record.diagnostics for record in records]
        return RolloutRecord(
            ended=np.concatenate([record.ended for record in records], axis=1),
            episode_return=np.concatenate([record.episode_return for record in records], axis=1),
            episode_length=np.concatenate([record.episode_length for record in records], axis=1),
            diagnostics={name: np.stack([each[name] for each in told], 1) for name in told[0]},
        )

    def _advance(self) -> RolloutRecord:
        """One rollout and its update."""
        begun = time.perf_counter()
        state, step = self._state, self._step
        number = jnp.asarray(state.step // self._rollout + 1)
        noise, learn_keys = self._noise(self.agents, state.agent_key, number)
        carry, row = self._begin(self.agents, state.agent, noise[:, 0])
        # Row t of `sent` has what the policies do at time t, row t of `came` what comes of it.
        sent = np.empty((self._time + 1, self.count, self._envs, step.width_sent), np.float32)
        came = np.empty((self._time, self.count, self._envs, step.width_came), np.float32)
        step.put_noise(came, np.asarray(noise))
        actor = state.agent.networks.actor
        for t in range(self._time):
            sent[t] = row
            step.put_world(came[t], self._world(step.action(sent[t]), t))
            carry, row = self._observe(self.agents, actor, carry, came[t])
        sent[-1] = row
        collected = time.perf_counter()
        outcome = step.outcome(came)
        agent, told = self._learn(
            self.agents, state.agent, carry, step.rollout(sent, outcome), learn_keys
        )
        told = {name: np.asarray(value) for name, value in told.items()}
        told["rollout_seconds"] = np.full(self.count, collected - begun)
        told["update_seconds"] = np.full(self.count, time.perf_counter() - collected)
        return self._account(outcome, agent)._replace(diagnostics=told)

    def _world(self, action: np.ndarray, time: int) -> HostTransition:
        """What the environments answer; an error says in which step."""
        try:
            return self._copies.step(action)
        except Exception as error:
            step = int(self._state.step[0]) + self._envs * (time + 1)
            raise step_failed(error, self.env, action, step) from error

    def _account(self, outcome: Outcome, agent: Any) -> RolloutRecord:
        """Takes the runs to the end of a rollout; returns what became of episodes in it."""
        ended = outcome.terminated | outcome.truncated
        returns, lengths = np.empty(ended.shape, np.float32), np.empty(ended.shape, np.int32)
        episode_return, length = self._state.episode_return, self._state.episode_length
        for t in range(self._time):
            returns[:, t], lengths[:, t] = episode_return + outcome.reward[:, t], length + 1
            episode_return = np.where(ended[:, t], np.float32(0), returns[:, t])
            length = np.where(ended[:, t], np.int32(0), lengths[:, t])
        wrong = ~outcome.finite
        first = self._state.step + np.int32(self._envs) * (1 + np.argmax(wrong, axis=1))
        fault = np.where(
            wrong.any(axis=1) & (self._state.fault_step < 0), first, self._state.fault_step
        )
        self._state = self._state._replace(
            agent=agent,
            step=self._state.step + np.int32(self._rollout),
            episode_return=episode_return,
            episode_length=length,
            fault_step=fault.astype(np.int32),
        )
        steps = (self.count, self._rollout)
        return RolloutRecord(
            ended.reshape(steps), returns.reshape(steps), lengths.reshape(steps), diagnostics={}
        )

    def measure(self, record: RolloutRecord) -> Measured:
        """What a chunk's record says, in one number for each run."""
        return measure_rollouts(record)

    def interrupt(self, env_seeds: np.ndarray) -> None:
        """Begins new episodes in new simulators; what was under way counts as truncated."""
        observation = jnp.asarray(self._reset(env_seeds))
        agent = jax.jit(for_each_run(lambda agent, *rest: agent.interrupt(*rest), here()))(
            self.agents, self._state.agent, observation
        )
        self._state = self._state._replace(
            agent=agent,
            episode_return=np.zeros_like(self._state.episode_return),
            episode_length=np.zeros_like(self._state.episode_length),
        )


class Outcome(NamedTuple):
    """What the environments answered, [runs, time, envs], as they gave it."""

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    finite: np.ndarray
    """Whether all numbers of a step are, [runs, time]."""


class _Step:
    """The programs of one run's step, and how numbers travel between them and the host.

    A call costs microseconds for each array: all that comes from the simulators goes in as one, and
    all that they and the rollout need comes out as one.
    """

    def __init__(self, agent: ActorCritic, state: PPOState, env: HostEnvironment) -> None:
        self._discrete = np.issubdtype(env.action_space.dtype, np.integer)
        self._action_shape = tuple(env.action_space.shape)
        self._seen_shape = state.observation.shape[1:]
        self._carried = Packing(jax.eval_shape(lambda: (state.perception, state.observation)))
        size, action = math.prod(self._seen_shape), math.prod(self._action_shape)
        # The policy's action, the world's, the observation; then, of the step before, the next
        # observation and the reward.
        self._sent = np.cumsum([action, action, size, size, 1])
        # The reward, both kinds of end, both observations, and the noise of the next action.
        self._came = np.cumsum([1, 1, 1, size, size, math.prod(agent.policy.noise_shape)])
        self.width_sent, self.width_came = int(self._sent[-1]), int(self._came[-1])

    def action(self, sent: np.ndarray) -> np.ndarray:
        """What to do, one row for each copy."""
        action = sent[..., self._sent[0] : self._sent[1]]
        if self._discrete:
            return action.astype(np.int32).reshape(-1)
        return action.reshape(-1, *self._action_shape)

    def put_noise(self, came: np.ndarray, noise: np.ndarray) -> None:
        """Lays out the noise of a rollout, each row beside the outcome that comes before it."""
        came[-1, ..., self._came[4] :] = 0.0
        came[:-1, ..., self._came[4] :] = np.moveaxis(noise, 0, 1)[1:]

    def put_world(self, came: np.ndarray, world: HostTransition) -> None:
        """Lays out what the environments answered."""
        rows = came.reshape(-1, self.width_came)
        rows[:, 0] = world.reward
        rows[:, 1] = world.terminated
        rows[:, 2] = world.truncated
        rows[:, 3 : self._came[3]] = world.observation.reshape(len(rows), -1)
        rows[:, self._came[3] : self._came[4]] = world.next_observation.reshape(len(rows), -1)

    def outcome(self, came: np.ndarray) -> Outcome:
        """The same, for a whole rollout."""
        by_run = np.moveaxis(came, 0, 1)
        finite = np.isfinite(by_run[..., : self._came[4]])
        finite = np.asarray(finite.all(axis=(2, 3)))
        return Outcome(by_run[..., 0], by_run[..., 1] > 0, by_run[..., 2] > 0, finite)

    def begin(self, agent: ActorCritic, state: PPOState, noise: Array) -> tuple[list[Array], Array]:
        """Chooses the first actions of a rollout."""
        blank = jnp.zeros((noise.shape[0], self.width_sent - int(self._sent[2])), jnp.float32)
        row = self._act(agent, state.networks.actor, state.observation, noise)
        carry = self._carried.pack((state.perception, state.observation))
        return carry, jnp.concatenate([row, blank], axis=1)

    def observe(
        self, agent: ActorCritic, actor: PyTree, carry: list[Array], came: Array
    ) -> tuple[list[Array], Array]:
        """Takes in what the environments answered, and chooses the next actions."""
        perception, _ = self._carried.unpack(carry)
        envs = came.shape[0]
        reward, terminated, truncated, observation, following, noise = jnp.split(
            came, self._came[:-1], axis=1
        )
        experience = Experience(
            reward=reward[:, 0],
            terminated=terminated[:, 0] > 0,
            truncated=truncated[:, 0] > 0,
            next_observation=following.reshape(envs, *self._seen_shape),
            observation=observation.reshape(envs, *self._seen_shape),
        )
        perception, seen = agent.perceive(perception, experience)
        row = [
            self._act(agent, actor, seen.observation, noise),
            seen.next_observation.reshape(envs, -1),
            seen.reward[:, None],
        ]
        carry = self._carried.pack((perception, seen.observation))
        return carry, jnp.concatenate(row, axis=1)

    def _act(self, agent: ActorCritic, actor: PyTree, observation: Array, noise: Array) -> Array:
        envs = noise.shape[0]
        action, sent = agent.act(actor, observation, noise.reshape(envs, *agent.policy.noise_shape))
        parts = (action, sent, observation)
        return jnp.concatenate([p.astype(jnp.float32).reshape(envs, -1) for p in parts], axis=1)

    def rollout(self, sent: np.ndarray, outcome: Outcome) -> Rollout:
        """All rows [time + 1, runs, envs, width] as rollouts with leading axes [runs, time, envs].

        Row t has the observation and the action of step t, and what followed step t - 1.
        """
        action, _, observation, following, reward = np.split(
            np.moveaxis(sent, 0, 1), self._sent[:-1], axis=-1
        )
        shape = (*observation.shape[:-1], *self._seen_shape)
        if self._discrete:
            action = action[..., 0].astype(np.int32)
        return Rollout(
            observation=jnp.asarray(observation.reshape(shape)[:, :-1]),
            action=jnp.asarray(action[:, :-1]),
            reward=jnp.asarray(reward[:, 1:, :, 0]),
            terminated=jnp.asarray(outcome.terminated),
            truncated=jnp.asarray(outcome.truncated & ~outcome.terminated),
            next_observation=jnp.asarray(following.reshape(shape)[:, 1:]),
        )

    def learn(
        self,
        agent: ActorCritic,
        state: PPOState,
        carry: list[Array],
        rollout: Rollout,
        key: PRNGKeyArray,
    ) -> tuple[PPOState, Any]:
        """One update, from a rollout whose end the carry knows."""
        perception, observation = self._carried.unpack(carry)
        state = state._replace(perception=perception, observation=observation)
        return agent.learn(state, rollout, key)
