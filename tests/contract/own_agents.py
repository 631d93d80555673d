"""Two small agents as a user would write them, one file and one registry call each.

`mean` learns the mean reward of each action, step by step. `mean-policy` makes actions more
likely whose rewards were above the average of a rollout.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from eligrad import normalize
from eligrad.agents import RolloutAgent, StreamingAgent, register
from eligrad.agents.streaming import NormalizedTransition, Normalizer

STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MeanConfig:
    step_size: Any = 0.1
    """How fast means move."""
    epsilon: Any = 0.2
    """Share of random actions."""

    def check(self) -> None:
        if isinstance(self.epsilon, jax.core.Tracer):
            return
        if np.any(np.clip(self.epsilon, 0, 1) != self.epsilon):  # one number, or one for each run
            raise ValueError(f"epsilon is {self.epsilon}; a number in [0, 1] is accepted")


class MeanState(NamedTuple):
    means: Any
    action: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mean(StreamingAgent):
    config: MeanConfig
    actions: int = dataclasses.field(metadata=STATIC)

    def init(self, key, observation):
        return MeanState(jnp.zeros(self.actions, jnp.float32), jnp.zeros((), jnp.int32))

    def act(self, state, key):
        action = self.sampled_action(state, None, key)
        return state._replace(action=action), action

    def update(self, state, transition, key):
        error = transition.reward - state.means[state.action]
        means = state.means.at[state.action].add(self.config.step_size * error)
        spread = jnp.max(means) - jnp.min(means)
        return state._replace(means=means), {"td_error": error, "spread": spread}

    def interrupt(self, state, observation):
        return state

    def greedy_action(self, state, observation):
        return jnp.argmax(state.means).astype(jnp.int32)

    def sampled_action(self, state, observation, key):
        explore, which = jax.random.split(key)
        random = jax.random.randint(which, (), 0, self.actions, jnp.int32)
        greedy = jnp.argmax(state.means).astype(jnp.int32)
        return jnp.where(jax.random.uniform(explore) < self.config.epsilon, random, greedy)


def make_mean(config, observation_space, action_space, network=None):
    return Mean(config, action_space.n)


register("mean", title="Mean reward", config=MeanConfig(), build=make_mean)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolicyConfig:
    step_size: Any = 0.5
    gamma: Any = 0.99
    rollout: int = dataclasses.field(default=32, metadata=STATIC)
    num_envs: int = dataclasses.field(default=1, metadata=STATIC)

    def check(self) -> None: ...


class PolicyState(NamedTuple):
    logits: Any
    normalizer: Normalizer
    observation: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MeanPolicy(RolloutAgent):
    config: PolicyConfig
    actions: int = dataclasses.field(metadata=STATIC)

    def init(self, key, observation):
        stats = normalize.update_batch(
            normalize.init_stats(observation.shape[1:]), observation.astype(jnp.float32)
        )
        scale = normalize.init_reward_scale(observation.shape[:1])
        seen = normalize.normalize(stats, observation)
        return PolicyState(jnp.zeros(self.actions, jnp.float32), Normalizer(stats, scale), seen)

    def noise(self, key, shape):
        return jax.random.gumbel(key, (*shape, self.actions), jnp.float32)

    def actor(self, state):
        return state.logits

    def act(self, actor, observation, noise):
        action = jnp.argmax(actor[None] + noise, axis=-1).astype(jnp.int32)
        return action, action

    def normalize(self, normalizer, transition):
        ended = transition.terminated | transition.truncated
        rewards = normalize.update_reward_scale(
            normalizer.rewards, transition.reward, ended, self.config.gamma
        )
        stats = normalize.update_batch(normalizer.observations, transition.observation)
        seen = NormalizedTransition(
            normalize.scale_reward(rewards, transition.reward),
            normalize.normalize(stats, transition.next_observation),
            normalize.normalize(stats, transition.observation),
        )
        return Normalizer(stats, rewards), seen

    def learn(self, state, rollout, key):
        advantage = rollout.reward - jnp.mean(rollout.reward)
        taken = jax.nn.one_hot(rollout.action, self.actions, dtype=jnp.float32)
        gradient = jnp.mean(advantage[..., None] * taken, axis=(0, 1))
        logits = state.logits + self.config.step_size * gradient
        best = jnp.max(jax.nn.softmax(logits))
        return state._replace(logits=logits), {"confidence": best}

    def interrupt(self, state, observation):
        stats = normalize.update_batch(state.normalizer.observations, observation)
        return state._replace(observation=normalize.normalize(stats, observation))

    def greedy_action(self, state, observation):
        return jnp.argmax(state.logits).astype(jnp.int32)

    def sampled_action(self, state, observation, key):
        return jnp.argmax(state.logits + self.noise(key, ())).astype(jnp.int32)


def make_policy(config, observation_space, action_space, network=None):
    return MeanPolicy(config, action_space.n)


register("mean-policy", title="Mean policy", config=PolicyConfig(), build=make_policy)
