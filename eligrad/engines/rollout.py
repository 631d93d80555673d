"""Rollouts in JAX environments: collection and update in one compiled program.

Each run has an agent, and as many environments as its settings say. Random numbers of a rollout
come from `fold_in(key, number of the rollout)`, so that stopping between two changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eligrad.agents.ppo import ActorCritic, PPOState, Rollout
from eligrad.agents.streaming import Experience
from eligrad.engines.sharding import DeviceEngine, for_each_run
from eligrad.engines.stream import all_finite, play, spread
from eligrad.envs.core import Environment
from eligrad.runs.metrics import DIVERGED, Measured


class RolloutState(NamedTuple):
    """One run at one moment, all of it; leading axis [envs] where environments differ."""

    agent: PPOState
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
    its very first observation had one, -1 if all is well."""


class RolloutRecord(NamedTuple):
    """What rollouts leave behind for the host: [runs, steps], and [runs, rollouts] of diagnostics.

    Step t of environment e is at t · num_envs + e.
    """

    ended: Bool[Array | np.ndarray, "..."]
    episode_return: Float[Array | np.ndarray, "..."]
    episode_length: Int[Array | np.ndarray, "..."]
    diagnostics: dict[str, Any]


_STEPS = ("ended", "episode_return", "episode_length")


def rollout_keys(agent_key: PRNGKeyArray, number: Int[Array, ""]) -> Shaped[Array, "2"]:
    """The keys of a rollout, for acting and for learning; rollouts count from 1."""
    return jax.random.split(jax.random.fold_in(agent_key, number))


def begin(
    agent: ActorCritic, env: Environment, params: Any, agent_seed: Array, env_seed: Array
) -> Any:
    """A run before its first rollout; agent and environments have seeds of their own."""
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
    agent: ActorCritic, env: Environment, params: Any, state: RolloutState, rollouts: int
) -> tuple[RolloutState, RolloutRecord]:
    """So many rollouts of one run, each with its update."""

    def one(state: RolloutState, _: None) -> tuple[RolloutState, RolloutRecord]:
        number = state.step // agent.config.rollout + 1
        act_key, learn_key = rollout_keys(state.agent_key, number)
        state, rollout, record = _collect(agent, env, params, state, act_key)
        learned, told = agent.learn(state.agent, rollout, learn_key)
        return state._replace(agent=learned), RolloutRecord(*record, told)

    state, records = jax.lax.scan(one, state, length=rollouts)
    flat = {name: field.reshape(-1) for name, field in records._asdict().items() if name in _STEPS}
    return state, records._replace(**flat)


def _collect(
    agent: ActorCritic, env: Environment, params: Any, state: RolloutState, key: PRNGKeyArray
) -> tuple[RolloutState, Rollout, tuple[Array, Array, Array]]:
    """One rollout, and what became of episodes in it, [time · envs]."""
    envs = agent.config.num_envs
    time = agent.config.rollout // envs
    noise = agent.policy.noise(key, (time, envs))
    # The noise has a key of its own, and so may share its number with the environments.
    env_key = jax.random.fold_in(state.env_key, state.step + 1)
    env_keys = jax.random.split(env_key, (time, envs))

    def step(state: RolloutState, inputs: tuple[Array, Array]) -> tuple[RolloutState, Any]:
        noise, keys = inputs
        observation = state.agent.observation
        action, sent = agent.act(state.agent.networks.actor, observation, noise)
        world = jax.vmap(lambda key, env_state, action: play(env, key, env_state, action, params))(
            keys, state.env, sent
        )
        experience = Experience(
            reward=world.reward,
            terminated=world.terminated,
            truncated=world.truncated,
            next_observation=world.next_observation,
            observation=world.observation,
        )
        perception, seen = agent.perceive(state.agent.perception, experience)
        ended = world.terminated | world.truncated
        episode_return = state.episode_return + world.reward
        episode_length = state.episode_length + 1
        sound = all_finite(world.reward) & all_finite(world.next_observation)
        sound &= all_finite(world.observation)
        # An environment is not to blame for what it makes of an action that is no number.
        sound |= ~all_finite(sent)
        number = state.step + envs
        row = Rollout(
            observation,
            action,
            seen.reward,
            world.terminated,
            world.truncated,
            seen.next_observation,
        )
        state = state._replace(
            agent=state.agent._replace(perception=perception, observation=seen.observation),
            env=world.state,
            step=number,
            episode_return=jnp.where(ended, 0.0, episode_return),
            episode_length=jnp.where(ended, 0, episode_length),
            fault_step=jnp.where(~sound & (state.fault_step < 0), number, state.fault_step),
        )
        return state, (row, (ended, episode_return, episode_length))

    state, (rollout, record) = jax.lax.scan(step, state, (noise, env_keys))
    return state, rollout, record


class Rollouts(DeviceEngine):
    """Many runs of one agent in one JAX environment, a rollout at a time.

    `agents` is one agent or a batch of settings: a pytree whose numeric leaves have a leading axis
    of the length of `agent_seeds`.
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
        self._advance = jax.jit(self._advance_all, static_argnums=3, donate_argnums=2)

    def _advance_all(
        self, agents: Any, params: Any, state: RolloutState, rollouts: int
    ) -> tuple[RolloutState, RolloutRecord]:
        return for_each_run(
            lambda agent, params, state: advance(agent, self.env, params, state, rollouts),
            self._shares.sharding,
        )(agents, params, state)

    def advance(self, steps: int) -> RolloutRecord:
        """Moves all runs on by whole rollouts; returns records of shape [runs, steps]."""
        rollouts = steps // self._rollout
        self._state, records = self._advance(*self._settings, self._state, rollouts)
        return self._shares.drop(records)

    def measure(self, record: RolloutRecord) -> Measured:
        """What a chunk's record says, in one number for each run."""
        return measure_rollouts(record)


def measure_rollouts(record: RolloutRecord) -> Measured:
    """Diagnostics averaged over a chunk's rollouts; a run has diverged where errors are wild."""
    told = {name: np.asarray(values).mean(axis=1) for name, values in record.diagnostics.items()}
    wild = ~(np.asarray(record.diagnostics["lambda_error"]) <= DIVERGED)
    # A policy can be lost while its critic is well.
    wild |= np.isnan(record.diagnostics["approximate_kl"])
    steps = np.shape(record.ended)[1]
    diverged = np.zeros((len(wild), steps), bool)
    # A rollout is found to be wild at its end.
    diverged[:, steps // wild.shape[1] - 1 :: steps // wild.shape[1]] = wild
    headline = f"KL {told['approximate_kl'].mean():.3f}"
    headline += f", explained variance {told['explained_variance'].mean():.2f}"
    return Measured(told, diverged, headline)
