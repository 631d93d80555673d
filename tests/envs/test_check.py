"""`check_env`: sound environments pass, and each broken one is told what is wrong with it."""

import functools
import pickle
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import envs
from eligrad.envs import list_envs
from eligrad.envs.check import InvalidEnvironmentError, check_env
from eligrad.envs.check_behaviour import random_action
from eligrad.envs.core import Environment
from eligrad.envs.probes_gymnasium import make_probe
from eligrad.envs.spaces import Box, Discrete
from eligrad.envs.wrappers import TimeLimit
from tests.envs.sound import FALSE, Counted, Place, Sound, changed, moving, problem_of, problems_of

pytestmark = pytest.mark.usefixtures("quickest_compilation")

# Sound ones.


class Cached(Sound):
    @functools.cached_property
    def table(self):
        return np.linspace(0.0, 1.0, 3)

    def observe(self, x):
        return x[None] + jnp.float32(self.table[0])


class Controlled(Sound):
    action_space = Box(-np.inf, np.float32([1.0, 2.0]), (2,))

    def move(self, key, state, action, params):
        return super().move(key, state, (action.sum() > 0).astype(jnp.int32), params)


class Keyed(NamedTuple):
    place: Place
    key: jax.Array


class CarriesAKey(Sound):
    """The state may hold a random key."""

    def reset(self, key, params):
        place, observation = super().reset(key, params)
        return Keyed(place, key), observation

    def step(self, key, state, action, params):
        mine, rest = jax.random.split(state.key)
        stepped = super().step(mine, state.place, action, params)
        return stepped._replace(state=Keyed(stepped.state, rest))


def probe(name):
    return make_probe(f"Probe/{name}-v0").jax_env


@pytest.mark.parametrize(
    "make",
    [
        Sound,
        Controlled,
        Counted,
        CarriesAKey,
        lambda: TimeLimit(Cached(), 7),
        lambda: probe("Reward"),
        lambda: probe("Truncation"),
    ],
)
def test_sound_environments_pass(make):
    assert check_env(make()) is None


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in list_envs() if not name.startswith("Test/")])
def test_our_own_environments_pass(name):
    check_env(envs.make(name))


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1.0, 1.0),
        (20.0, 30.0),
        (-np.inf, np.inf),
        (-np.inf, -50.0),
        (50.0, np.inf),
        (np.finfo(np.float32).min, np.finfo(np.float32).max),
    ],
)
def test_random_actions_lie_in_their_space(low, high):
    space = Box(low, high, (3,))
    for seed in range(5):
        assert space.contains(random_action(space, jax.random.key(seed)))


# What can be read off.


def test_a_gymnasium_environment_is_sent_elsewhere():
    class Foreign(gym.Env):
        pass

    assert "gymnasium.utils.env_checker" in problem_of(Foreign())


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("name", 3, "name is 3"),
        (
            "action_space",
            gym.spaces.Discrete(2),
            "action_space is Discrete(2); an eligrad.envs.Box",
        ),
        ("action_space", Discrete(0), "n must be an integer of at least 1"),
        ("observation_space", Box(0.0, 1.0, (1,), "U1"), "is not a type of numbers"),
    ],
)
def test_descriptions(attribute, value, expected):
    env = type("Described", (Sound,), {attribute: value})()
    assert expected in problem_of(env)


def test_all_problems_are_listed_at_once():
    env = type("Described", (Sound,), {"name": None, "action_space": 2, "observation_space": 1})()
    problems = problems_of(env)
    assert len(problems) == 3
    with pytest.raises(
        InvalidEnvironmentError, match=r"Described has 3 problems:\n1\. name.*\n2\. "
    ):
        check_env(env)


def test_the_error_names_the_environment_and_pickles():
    with pytest.raises(ValueError, match=r"Sound \('Walk-v0'\) has 1 problem:\n1\. params"):
        check_env(Sound(), {"noise": "loud", "goal": 0.9})
    error = InvalidEnvironmentError("Walk", ["one", "two"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("bad", ["loud", jnp.sum, 1j, jax.random.key(0)])
def test_parameters_are_numbers(bad):
    problem = problem_of(Sound(), {"noise": bad, "goal": 0.9})
    assert problem.startswith("params['noise'] is ")
    assert "__init__" in problem


def test_default_params_that_raise():
    class Raises(Sound):
        def default_params(self):
            raise KeyError("size")

    assert problem_of(Raises()) == "default_params() raised KeyError: 'size'"


# What reset, step and restart return.


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("reward", lambda s: s.reward[None], "reward has shape (1,) and dtype float32"),
        ("reward", lambda s: jnp.int32(1), "reward has shape () and dtype int32"),
        ("reward", lambda s: 1.0, "reward is 1.0, of type float; it must be a JAX array"),
        ("terminated", lambda s: s.terminated.astype(jnp.float32), "must be a Boolean scalar"),
        ("terminated", lambda s: False, "terminated is False, of type bool"),
        ("truncated", lambda s: s.truncated[None], "truncated has shape (1,) and dtype bool"),
        ("truncated", lambda s: FALSE, "truncated is array(False), of type ndarray"),
        ("observation", lambda s: s.state.x, "step's observation has shape (); observation_space"),
        ("observation", lambda s: jnp.int32([0]), "step's observation has dtype int32"),
        ("observation", lambda s: {"x": s.observation}, "must be one JAX array"),
        ("state", lambda s: tuple(s.state), "step returns a state of structure"),
        (
            "state",
            lambda s: s.state._replace(x=s.observation),
            "state.x is float32[1] after step, and float32[] after reset",
        ),
        (
            "state",
            lambda s: s.state._replace(steps=s.state.x),
            "state.steps is float32[] after step, and int32[] after reset",
        ),
    ],
)
def test_steps_are_read(field, value, expected):
    assert expected in problem_of(changed(**{field: value}))


def test_several_fields_at_once():
    env = changed(reward=lambda s: 1.0, terminated=lambda s: True, observation=lambda s: s.state.x)
    assert len(problems_of(env)) == 3


def test_a_step_in_gymnasiums_order():
    class Tuple(Sound):
        def step(self, key, state, action, params):
            s = super().step(key, state, action, params)
            return s.observation, s.reward, s.terminated, s.truncated, {}

    assert "step returned a tuple; return eligrad.envs.Step(" in problem_of(Tuple())


def test_reset_returns_a_pair():
    class Alone(Sound):
        def reset(self, key, params):
            return super().reset(key, params)[1]

    class Three(Sound):
        def reset(self, key, params):
            return (*super().reset(key, params), {})

    assert "return the pair (state, observation)" in problem_of(Alone())
    assert "reset returned a tuple of 3" in problem_of(Three())


def test_reset_observations_are_read():
    class Twice(Sound):
        def reset(self, key, params):
            state, observation = super().reset(key, params)
            return state, jnp.concatenate([observation, observation])

    first, second = problems_of(Twice())
    assert first == "reset's observation has shape (2,); observation_space says (1,)"
    assert second == "restart's observation has shape (2,); observation_space says (1,)"


def test_restart_resembles_reset():
    class Grows(Sound):
        def restart(self, key, state, params):
            fresh, observation = self.reset(key, params)
            return (fresh, state), observation[0]

    problems = problems_of(Grows())
    assert "restart's observation has shape ()" in problems[0]
    assert "restart returns a state of structure" in problems[1]


def test_missing_methods():
    class Unfinished(Environment):
        name = "Unfinished"
        observation_space = Box(0.0, 1.0, (1,))
        action_space = Discrete(2)

    assert "Unfinished must define reset" in problem_of(Unfinished())


# What cannot be compiled.


def branch(self, key, state, action, params):
    if action == 1:
        return state
    return Sound.move(self, key, state, action, params)


def numpy_call(self, key, state, action, params):
    return state._replace(x=np.clip(np.asarray(state.x), -1, 1))


def list_index(self, key, state, action, params):
    return state._replace(x=state.x * [0.5, 0.25][action])


def python_float(self, key, state, action, params):
    return state._replace(x=jnp.float32(float(state.x)))


@pytest.mark.parametrize(
    ("move", "hint"),
    [
        (branch, "use jnp.where, jax.lax.cond"),
        (numpy_call, "use jax.numpy's"),
        (list_index, "make the list an array"),
        (python_float, "keep it an array"),
    ],
)
def test_python_on_arrays(move, hint):
    problem = problem_of(moving(move))
    assert problem.startswith("step(key, state, action, params) cannot be compiled: ")
    assert hint in problem


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2.0, -2.0, (1,)), "low is 2.0 and high -2.0; low at most high"),
        ((np.nan, 2.0, (1,)), "low is nan"),
        ((0.0, 1.0, (-1,)), r"shape is \(-1,\)"),
    ],
)
def test_boxes_that_hold_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Box(*arguments)


def test_the_shape_of_a_box(unchecked):
    """A list is a shape, too; a number or a fraction is none."""
    box = Box(0.0, 1.0, [np.int64(2)])
    assert box.shape == (2,)
    assert hash(box) == hash(Box(0.0, 1.0, (2,)))
    for shape in (3, (2.0,)):
        with pytest.raises(TypeError, match="a tuple of sizes is accepted"):
            Box(0.0, 1.0, shape)


def test_a_box_may_be_made_in_a_compiled_function():
    high = jax.jit(lambda x: jnp.minimum(x, Box(-jnp.ones(2), jnp.ones(2), (2,)).high))
    np.testing.assert_array_equal(high(np.array([0.0, 3.0])), [0.0, 1.0])
