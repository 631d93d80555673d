"""Recorded streams with ends of both kinds, as environments of both kinds."""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box

STEPS, SIZE, ACTIONS = 60, 5, 3


def record(seed: int) -> dict[str, np.ndarray]:
    """A stream that goes its way whatever the agent does, with ends of both kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=STEPS, p=[0.8, 0.1, 0.1])
    return {
        "observation": rng.normal(size=(STEPS + 1, SIZE)).astype(np.float32),
        "final": rng.normal(size=(STEPS, SIZE)).astype(np.float32),
        "reward": rng.normal(size=STEPS).astype(np.float32),
        "terminated": kind == 1,
        "truncated": kind == 2,
    }


TAPES = jax.tree.map(lambda *leaves: np.stack(leaves), *[record(seed) for seed in (0, 1)])


class Tape(Environment):
    """Plays the recording whose number is its parameter."""

    name = "Tape"
    observation_space = Box(-np.inf, np.inf, (SIZE,))

    def __init__(self, action_space):
        self.action_space = action_space

    def default_params(self):
        return jnp.int32(0)

    def reset(self, key, params):
        return jnp.int32(0), jnp.asarray(TAPES["observation"])[params, 0]

    def step(self, key, state, action, params):
        tape = {name: jnp.asarray(rows)[params] for name, rows in TAPES.items()}
        ended = tape["terminated"][state] | tape["truncated"][state]
        onward = tape["observation"][state + 1]
        return Step(
            state + 1,
            jnp.where(ended, tape["final"][state], onward),
            tape["reward"][state],
            tape["terminated"][state],
            tape["truncated"][state],
        )

    def restart(self, key, state, params):
        return state, jnp.asarray(TAPES["observation"])[params, state]


CHOICES = gymnasium.spaces.Discrete(ACTIONS)


class GymnasiumTape(gymnasium.Env):
    """The same, independently: the seed of the first reset, odd or even, chooses the recording."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)

    def __init__(self, action_space=CHOICES):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.tape, self.t = {name: rows[seed % 2] for name, rows in TAPES.items()}, 0
        return self.tape["observation"][self.t], {}

    def step(self, action):
        t, self.t = self.t, self.t + 1
        ended = self.tape["terminated"][t] or self.tape["truncated"][t]
        observation = self.tape["final"][t] if ended else self.tape["observation"][t + 1]
        flags = bool(self.tape["terminated"][t]), bool(self.tape["truncated"][t])
        return observation, float(self.tape["reward"][t]), *flags, {}


def essence(state) -> np.ndarray:
    """All learned numbers of an agent in one vector."""
    parts = state.w, state.theta, state.traces, state.normalizer
    if hasattr(state, "actor"):
        parts = *parts, state.actor, state.actor_traces
    leaves = jax.tree.leaves(parts)
    return np.concatenate([np.asarray(leaf, np.float64).reshape(-1) for leaf in leaves])
