"""Time limits: truncation at the right step, and nothing else touched."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs.core import Environment, Step, step_autoreset
from eligrad.envs.spaces import Box, Discrete
from eligrad.envs.wrappers import TimeLimit


class Walk(NamedTuple):
    position: jax.Array
    episodes: jax.Array


class Corridor(Environment[Walk]):
    """Walks on by `stride`; ends by itself at `goal` and counts its episodes."""

    name = "Corridor"
    observation_space = Box(0.0, 1e3, (1,))
    action_space = Discrete(1)

    def default_params(self):
        return {"stride": 1.0, "goal": 5.0}

    def reset(self, key, params):
        return Walk(jnp.zeros(()), jnp.zeros((), jnp.int32)), jnp.zeros((1,))

    def restart(self, key, state, params):
        fresh, observation = self.reset(key, params)
        return fresh._replace(episodes=state.episodes + 1), observation

    def step(self, key, state, action, params):
        position = state.position + params["stride"]
        ended = position >= params["goal"]
        return Step(
            state._replace(position=position),
            position[None],
            jnp.where(ended, 10.0, 1.0),
            ended,
            jnp.asarray(False),
        )


def play(env, steps, params=None):
    params = env.default_params() if params is None else params
    key = jax.random.key(0)
    state, _ = env.reset(key, params)

    def body(state, key):
        transition = step_autoreset(env, key, state, jnp.int32(0), params)
        return transition.state, transition

    return jax.jit(lambda keys: jax.lax.scan(body, state, keys)[1])(jax.random.split(key, steps))


def test_an_episode_is_cut_at_the_limit_and_the_clock_restarts():
    seen = play(TimeLimit(Corridor(), 3), 7)
    np.testing.assert_array_equal(seen.truncated, [False, False, True] * 2 + [False])
    assert not seen.terminated.any()
    np.testing.assert_array_equal(seen.next_observation[:, 0], [1, 2, 3, 1, 2, 3, 1])
    np.testing.assert_array_equal(seen.observation[:, 0], [1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(seen.reward, np.ones(7))


def test_termination_before_the_limit_is_left_alone():
    seen = play(TimeLimit(Corridor(), 6), 12)
    np.testing.assert_array_equal(seen.terminated, ([False] * 4 + [True]) * 2 + [False] * 2)
    assert not seen.truncated.any()


def test_termination_at_the_limit_is_both():
    seen = play(TimeLimit(Corridor(), 5), 10)
    np.testing.assert_array_equal(seen.terminated, ([False] * 4 + [True]) * 2)
    np.testing.assert_array_equal(seen.truncated, seen.terminated)


def test_what_survives_an_episode_still_does():
    seen = play(TimeLimit(Corridor(), 3), 9)
    np.testing.assert_array_equal(seen.state.inner.episodes, [0, 0, 1, 1, 1, 2, 2, 2, 3])


def test_of_two_limits_the_shorter_one_counts():
    seen = play(TimeLimit(TimeLimit(Corridor(), 2), 3), 6)
    np.testing.assert_array_equal(seen.truncated, [False, True] * 3)


def test_parameters_and_spaces_are_the_inner_ones():
    env = TimeLimit(Corridor(), 3)
    assert env.default_params() == Corridor().default_params()
    assert (env.name, env.action_space) == ("Corridor", Corridor.action_space)
    assert env.observation_space == Corridor.observation_space
    seen = play(env, 3, {"stride": 2.0, "goal": 5.0})
    np.testing.assert_array_equal(seen.terminated, [False, False, True])
    assert repr(env) == "TimeLimit(Corridor('Corridor'), max_steps=3)"


def test_limits_work_under_vmap():
    env = TimeLimit(Corridor(), 3)
    strides = jnp.float32([1.0, 3.0])

    def ends(stride):
        return play(env, 4, {"stride": stride, "goal": jnp.float32(5.0)}).terminated

    np.testing.assert_array_equal(jax.vmap(ends)(strides), [[0, 0, 0, 0], [0, 1, 0, 1]])


@pytest.mark.parametrize("limit", [0, -1, True, 2.5])
def test_a_limit_is_a_positive_integer(limit):
    with pytest.raises(Exception, match="max_steps"):
        TimeLimit(Corridor(), limit)
