"""gymnax through our protocol: the same transitions as gymnax itself, under strict promotion."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs import Box, Discrete, make, step_autoreset

gymnax = pytest.importorskip("gymnax", reason="gymnax is an extra of its own: eligrad[gymnax]")
NAMES = sorted(
    # MNIST downloads its data.
    set(gymnax.registered_envs) - {"MNISTBandit-bsuite"}
)


def draw_action(space, key):
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n)
    return jax.random.uniform(key, space.shape, space.dtype, space.low, space.high)


@pytest.mark.parametrize("name", NAMES)
def test_fits_the_protocol(name):
    env = make(f"gymnax/{name}")
    params = env.default_params()
    key = jax.random.key(0)
    state, observation = jax.eval_shape(env.reset, key, params)
    action = jax.eval_shape(lambda k: draw_action(env.action_space, k), key)
    stepped = jax.eval_shape(env.step, key, state, action, params)
    assert observation.shape == env.observation_space.shape
    assert observation.dtype == env.observation_space.dtype
    assert (stepped.reward.dtype, stepped.reward.shape) == (jnp.float32, ())
    assert (stepped.terminated.dtype, stepped.truncated.dtype) == (jnp.bool_, jnp.bool_)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), stepped.state) == jax.tree.map(
        lambda x: (x.shape, x.dtype), state
    )


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_same_transitions_as_gymnax_itself(name):
    env = make(f"gymnax/{name}")
    theirs, params = gymnax.make(name)
    if name == "Pendulum-v1":
        params = params.replace(max_steps_in_episode=7)
    steps = 60

    def ours(carry, key):
        state, _ = carry
        action = draw_action(env.action_space, jax.random.fold_in(key, 1))
        out = step_autoreset(env, key, state, action, params)
        told = (out.observation, out.reward, out.terminated, out.truncated, out.next_observation)
        return (out.state, out.observation), told

    def original(carry, key):
        state, _ = carry
        action = draw_action(env.action_space, jax.random.fold_in(key, 1))
        observation, state, reward, terminated, truncated, info = theirs.step(
            key, state, action, params
        )
        out = (observation, reward, terminated, truncated, info["final_observation"])
        return (state, observation), out

    keys = jax.random.split(jax.random.key(1), steps)
    first = env.reset(jax.random.key(2), params)
    _, mine = jax.lax.scan(ours, first, keys)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        observation, state = theirs.reset(jax.random.key(2), params)
        state = jax.tree.map(jnp.asarray, state)
        _, their = jax.lax.scan(original, (state, observation), keys)
    for a, b in zip(mine, their, strict=True):
        np.testing.assert_array_equal(a, b)
    terminated, truncated = mine[2], mine[3]
    assert bool(truncated.any() if name == "Pendulum-v1" else terminated.any())


def test_a_truncated_episode_of_three_steps():
    env = make("gymnax/Pendulum-v1")
    params = env.default_params().replace(max_steps_in_episode=3)
    state, _ = env.reset(jax.random.key(0), params)

    @jax.jit
    def step(key, state):
        bare = env.step(jax.random.split(key)[0], state, jnp.zeros((1,)), params)
        return step_autoreset(env, key, state, jnp.zeros((1,)), params), bare.observation

    cuts = []
    for t in range(7):
        out, reached = step(jax.random.key(t), state)
        np.testing.assert_array_equal(out.next_observation, reached)
        assert bool(out.truncated) != bool(jnp.array_equal(out.observation, reached))
        assert not out.terminated
        cuts.append(bool(out.truncated))
        state = out.state
    assert cuts == [False, False, True, False, False, True, False]


def test_parameters_can_be_mapped_over():
    env = make("gymnax/Pendulum-v1")
    params = env.default_params()
    many = jax.vmap(lambda g: params.replace(g=g))(jnp.array([1.0, 10.0]))

    def speed(params):
        state, _ = env.reset(jax.random.key(0), params)
        return env.step(jax.random.key(1), state, jnp.zeros((1,)), params).observation[2]

    axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, many)
    slow, fast = jax.jit(jax.vmap(speed, in_axes=(axes,)))(many)
    assert slow != fast


def test_spaces():
    env = make("gymnax/MountainCarContinuous-v0")
    assert env.action_space == Box(-1.0, 1.0, (1,))
    # Declared as integers, observed as floats.
    assert make("gymnax/Catch-bsuite").observation_space.dtype == np.float32


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"unknown gymnax environment .*'CartPole-v1'"):
        make("gymnax/Cartpole-v1")
