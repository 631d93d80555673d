"""brax through our protocol. Needs the extra: pip install 'eligrad[brax]'."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs import Box, make, step_autoreset
from eligrad.envs.adapters.brax import BraxEnvironment

envs = pytest.importorskip("brax.envs", reason="brax is an extra of its own: eligrad[brax]")
# brax is no longer developed: it says so, and it uses what MJX has deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Brax System:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing .* directly from:DeprecationWarning"),
]


def test_same_transitions_as_brax_itself():
    env = BraxEnvironment("inverted_pendulum", backend="spring")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        theirs = envs.get_environment("inverted_pendulum", backend="spring")
    actions = jax.random.uniform(jax.random.key(0), (30, *env.action_space.shape), minval=-1.0)

    def ours(state, action):
        out = env.step(jax.random.key(0), state, action, ())
        return out.state, out[1:]

    def original(state, action):
        state = theirs.step(state, action)
        return state, (state.obs, state.reward, state.done > 0.5, jnp.zeros((), bool))

    first, observation = env.reset(jax.random.key(1), ())
    _, mine = jax.lax.scan(ours, first, actions)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        begun = theirs.reset(jax.random.key(1))
        _, their = jax.lax.scan(original, begun, actions)
    np.testing.assert_array_equal(observation, begun.obs)
    for a, b in zip(mine, their, strict=True):
        np.testing.assert_array_equal(a, b)
    assert bool(mine[2].any())
    assert observation.shape == env.observation_space.shape
    assert env.action_space == Box(-1.0, 1.0, (1,))


def test_a_truncated_episode_of_three_steps():
    env = make("brax/inverted_pendulum", backend="spring", max_episode_steps=3)
    step = jax.jit(lambda key, state: step_autoreset(env, key, state, jnp.zeros((1,)), ()))
    state, _ = env.reset(jax.random.key(0), ())
    cuts = []
    for t in range(7):
        out = step(jax.random.key(t), state)
        cuts.append(bool(out.truncated))
        assert not out.terminated
        assert bool(out.truncated) != bool(jnp.array_equal(out.observation, out.next_observation))
        state = out.state
    assert cuts == [False, False, True, False, False, True, False]


def test_the_usual_time_limit():
    assert make("brax/inverted_pendulum", backend="spring").max_steps == 1000


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"unknown brax environment .*'halfcheetah'"):
        make("brax/HalfCheetah")
