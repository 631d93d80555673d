"""Agents, networks and environments that do not fit are refused before anything is compiled."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import eligrad
from eligrad.agents import PRESETS, Network, QLambda, default_network
from eligrad.agents.network import check_network
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.probes import OffPolicy
from eligrad.envs.registry import as_environment, plain_params
from eligrad.training import prepare


def linear(inputs: int, outputs: int, dtype: Any = jnp.float32) -> Network:
    return Network(
        lambda key: jnp.zeros((inputs, outputs), dtype), lambda w, x: x @ w.astype(float)
    )


MISFITS = [
    (linear(4, 3), r"network\.apply.*shape \(4,\) gives shape \(3,\); \(2,\) is accepted"),
    (linear(4, 1), r"gives shape \(1,\); \(2,\) is accepted"),
    (linear(5, 2), r"network\.apply\(params, observation\).*shape \(4,\) fails"),
    (linear(4, 2, jnp.int32), r"network\.init gives an array of dtype int32; arrays of float32"),
    (linear(4, 2, jnp.bfloat16), r"network\.init gives an array of dtype bfloat16; arrays of flo"),
    (Network(lambda key, s: jnp.zeros(4), lambda w, x: w @ x), r"gives shape \(\)"),
    (Network(lambda: jnp.zeros(4), lambda w, x: x), r"network\.init\(key\) fails: TypeError"),
]


@pytest.mark.parametrize(("network", "message"), MISFITS)
@pytest.mark.parametrize("env", ["CartPole-v1", "Probe/OffPolicy-v0"])
def test_a_network_that_does_not_fit(network, message, env):
    with pytest.raises(ValueError, match=message):
        eligrad.QRC(env, network=network)
    with pytest.raises(ValueError, match=message):
        prepare(QLambda(PRESETS["qrc"], network), env, steps=10)


def test_a_network_that_fits():
    eligrad.QRC("CartPole-v1", network=linear(4, 2))
    eligrad.QRC("CartPole-v1", network=default_network((4,), 2))


def test_what_is_no_network():
    module: Any = eqx.nn.Linear(4, 2, key=jax.random.key(0))
    with pytest.raises(TypeError, match=r"network is a Linear; .*from_equinox\(make\)"):
        check_network("network", module, OffPolicy().observation_space, 2, "one for each action")


@pytest.mark.parametrize("source", [CartPoleEnv, lambda: CartPoleEnv()])
def test_a_gymnasium_class_or_function_is_an_environment(source):
    for world in (as_environment(source, 7), eligrad.QRC(source, max_episode_steps=7)._environment):
        assert isinstance(world, GymnasiumEnvironment)
        assert world.max_episode_steps == 7


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (CartPoleEnv(), "a Gymnasium class or a function that makes one is accepted"),
        (gymnasium.make("CartPole-v1"), "a Gymnasium class or a function that makes one"),
        (None, "env is None; a name, an environment of eligrad"),
        (OffPolicy, "env is the class OffPolicy; an object of it is accepted"),
    ],
)
def test_what_is_no_environment(env, message):
    with pytest.raises(TypeError, match=message):
        as_environment(env, None)


def test_continuous_actions_are_refused_at_once():
    with pytest.raises(ValueError, match="continuous actions"):
        eligrad.QRC("Pendulum-v1")


def test_a_policy_for_another_number_of_actions():
    agent = prepare("ppo", "CartPole-v1", steps=64, rollout=64).agent
    with pytest.raises(
        ValueError, match="'Acrobot-v1': policy chooses among 2 actions; there are 3"
    ):
        prepare(agent, "Acrobot-v1", steps=64)


@pytest.mark.parametrize("value", [np.float32(0.5), [0.1, 0.2]])
def test_numbers_of_an_environment_are_plain(value):
    assert plain_params({"a": value}) == {"a": np.asarray(value).tolist()}
    with pytest.raises(ValueError, match="b of env_params is inf; finite numbers are accepted"):
        plain_params({"a": value, "b": np.inf})
