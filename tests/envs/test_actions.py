"""Actions that are none of the environment's are refused, while tracing where possible."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from eligrad.envs import make, step_autoreset


@pytest.mark.parametrize("name", ["MinAtar/Breakout-v1", "Probe/Action-v0"])
def test_discrete(name):
    env = make(name)
    params = env.default_params()
    state, _ = env.reset(jax.random.key(0), params)

    def play(action):
        return step_autoreset(env, jax.random.key(1), state, action, params)

    with pytest.raises(TypeError, match=r"dtype float32; .* accepts an integer from 0 to"):
        play(jnp.float32(0.5))
    with pytest.raises(TypeError, match="dtype float32"):
        jax.eval_shape(play, jax.ShapeDtypeStruct((), jnp.float32))
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        play(jnp.zeros(2, jnp.int32))
    with pytest.raises(ValueError, match=r"the action is 7; .* accepts 0 to"):
        play(jnp.int32(7))
    with pytest.raises(ValueError, match="the action is -1"):
        play(jnp.int32(-1))


def test_continuous():
    env = make("Probe/Continuous-v0")
    state, _ = env.reset(jax.random.key(0), env.default_params())
    with pytest.raises(TypeError, match=r"dtype int32; .* accepts a float"):
        step_autoreset(env, jax.random.key(1), state, jnp.zeros(1, jnp.int32), env.default_params())
    with pytest.raises(ValueError, match=r"the action is \[1000\.\]"):
        step_autoreset(env, jax.random.key(1), state, jnp.full(1, 1e3), env.default_params())
