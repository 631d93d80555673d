"""`check_env`: sound environments pass, and each broken one is told what is wrong with it."""

import functools
import pickle
import random
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import envs
from eligrad.envs import list_envs
from eligrad.envs.check import InvalidEnvironmentError, check_env
from eligrad.envs.check_behaviour import Attributes, random_action
from eligrad.envs.core import Environment, Step
from eligrad.envs.probes_gymnasium import make_probe
from eligrad.envs.spaces import Box, Discrete
from eligrad.envs.wrappers import TimeLimit

pytestmark = pytest.mark.usefixtures("quick_compilation")

FALSE = np.asarray(False)


class Place(NamedTuple):
    x: jax.Array
    steps: jax.Array


class Sound(Environment[Place]):
    """A noisy walk on [-1, 1] that ends at the right. Every broken one below changes one thing."""

    name = "Walk-v0"
    observation_space = Box(-1.0, 1.0, (1,))
    action_space = Discrete(2)

    def default_params(self):
        return {"noise": 0.1, "goal": 0.9}

    def reset(self, key, params):
        x = jax.random.uniform(key, (), minval=-0.5, maxval=0.0)
        return Place(x, jnp.zeros((), jnp.int32)), self.observe(x)

    def observe(self, x):
        return x[None]

    def move(self, key, state, action, params):
        shift = jnp.where(action == 1, 0.2, -0.1)
        x = state.x + shift + params["noise"] * jax.random.uniform(key, minval=-1.0)
        return Place(jnp.clip(x, -1.0, 1.0), state.steps + 1)

    def step(self, key, state, action, params):
        place = self.move(key, state, action, params)
        return Step(
            state=place,
            observation=self.observe(place.x),
            reward=-jnp.abs(place.x),
            terminated=place.x > params["goal"],
            truncated=place.steps >= 30,
        )


def problems_of(env, params=None):
    with pytest.raises(InvalidEnvironmentError) as raised:
        check_env(env, params)
    return raised.value.problems


def problem_of(env, params=None):
    (problem,) = problems_of(env, params)
    return problem


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


class Counted(Sound):
    action_space = Box(0, 1, (2,), np.int32)
    observation_space = Discrete(21)

    def observe(self, x):
        return jnp.round((x + 1) * 10).astype(jnp.int32)

    def move(self, key, state, action, params):
        return super().move(key, state, action[0], params)


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
@pytest.mark.parametrize("name", list_envs())
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
        ("observation_space", Box(1.0, -1.0, (1,)), "low may not exceed high"),
        ("observation_space", Box(np.nan, 1.0, (1,)), "neither may be NaN"),
        ("observation_space", Box(0.0, 1.0, (1,), "U1"), "no number type"),
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


def changed(**replacements):
    """`Sound`, with other values in its `Step`."""

    class Changed(Sound):
        def step(self, key, state, action, params):
            stepped = super().step(key, state, action, params)
            return stepped._replace(**{k: f(stepped) for k, f in replacements.items()})

    return Changed()


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


def moving(move):
    """`Sound`, with another way of moving."""
    return type("Moving", (Sound,), {"move": move})()


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


# What shows when it is run.


def test_observations_outside_their_space():
    class Low(Sound):
        def reset(self, key, params):
            state, _ = super().reset(key, params)
            return state, jnp.float32([-2.0])

    class High(Sound):
        def observe(self, x):
            return jnp.where(x > 0.5, 3.0, x)[None]

    assert "after reset was -2.0 at index (0,); observation_space allows -1.0 to 1.0" in problem_of(
        Low()
    )
    assert "after random steps was 3.0 at index (0,)" in problem_of(High())


def test_choices_outside_their_space():
    class Wide(Counted):
        observation_space = Discrete(5)

    assert "observation_space allows 0 to 4" in problems_of(Wide())[0]


def test_not_a_number():
    class Root(Sound):
        def observe(self, x):
            return jnp.where(x < 0.3, x, jnp.log(-x))[None]

    assert "was nan at index (0,)" in problem_of(Root())
    infinite = changed(reward=lambda s: 1.0 / jnp.where(s.terminated, 0.0, 1.0))
    assert "the reward was inf at step" in problem_of(infinite)


class SelfResetting(Sound):
    """Begins the next episode inside `step`, as some libraries' environments do."""

    def keys(self, key):
        return key, key

    def step(self, key, state, action, params):
        step_key, reset_key = self.keys(key)
        s = super().step(step_key, state, action, params)
        fresh = self.reset(reset_key, params)
        state, observation = jax.tree.map(
            lambda a, b: jnp.where(s.terminated | s.truncated, a, b),
            fresh,
            (s.state, s.observation),
        )
        return s._replace(state=state, observation=observation)


class SelfResettingWithItsOwnKey(SelfResetting):
    def keys(self, key):
        step_key, reset_key = jax.random.split(key)
        return step_key, reset_key


class SelfResettingToOnePlace(SelfResetting):
    def reset(self, key, params):
        x = jnp.zeros(())
        return Place(x, jnp.zeros((), jnp.int32)), self.observe(x)


@pytest.mark.parametrize(
    "kind", [SelfResetting, SelfResettingWithItsOwnKey, SelfResettingToOnePlace]
)
def test_steps_that_begin_the_next_episode(kind):
    assert "begin the next episode by itself, and the final observation is lost" in problem_of(
        kind()
    )


def test_randomness_of_python_and_numpy():
    def python_noise(self, key, state, action, params):
        return state._replace(x=state.x * random.random())

    def numpy_noise(self, key, state, action, params):
        return state._replace(x=state.x * np.random.default_rng().random())

    for noise in (python_noise, numpy_noise):
        problem = problem_of(moving(noise))
        assert "step gives different results (the same function, compiled twice): " in problem
        assert ".state.x is " in problem
        assert "jax.random with the given key" in problem


def test_randomness_in_reset():
    class Unseeded(Sound):
        def reset(self, key, params):
            return super().reset(jax.random.key(random.randrange(10**6)), params)

    assert problem_of(Unseeded()).startswith("reset gives different results (the same function")


def test_callbacks_with_a_memory():
    class Callback(Sound):
        calls = [0]  # noqa: RUF012

        def observe(self, x):
            def count():
                self.calls[0] += 1
                return np.float32([self.calls[0] % 7 / 10])

            return jax.pure_callback(count, jax.ShapeDtypeStruct((1,), jnp.float32))

    assert "called twice with the same key)" in problem_of(Callback())


def test_results_that_depend_on_compilation():
    class Peeks(Sound):
        def observe(self, x):
            return jnp.zeros(1) if isinstance(x, jax.core.Tracer) else jnp.ones(1)

    assert "compiled and not compiled)" in problem_of(Peeks())


def test_counters_on_self():
    class Counter(Sound):
        calls = 0

        def move(self, key, state, action, params):
            self.calls += 1
            return super().move(key, state, action, params)

    problem = problem_of(Counter())
    assert problem.startswith("self.calls changed while the environment was used")

    inner = Counter()
    around = Attributes(TimeLimit(inner, 5))
    assert around.changes() == []
    inner.calls += 1
    (problem,) = around.changes()
    assert problem.startswith("self.env changed")


def test_lists_and_arrays_on_self():
    class Memory(Sound):
        def __init__(self):
            self.log = []
            self.visits = np.zeros(3)

        def move(self, key, state, action, params):
            self.log.append("moved")
            self.visits[0] += 1
            return super().move(key, state, action, params)

    problems = problems_of(Memory())
    assert [problem.partition(" ")[0] for problem in problems] == ["self.log", "self.visits"]


def test_values_kept_between_calls():
    class Keeps(Sound):
        last = 0.0

        def move(self, key, state, action, params):
            place = super().move(key, state, action, params)._replace(x=state.x + self.last)
            self.last = state.x
            return place

    problems = problems_of(Keeps())
    assert any("UnexpectedTracerError" in p and "put it into the state" in p for p in problems)
    assert any(p.startswith("self.last changed") for p in problems)


def test_failures_under_vmap_alone():
    class Callback(Sound):
        def observe(self, x):
            shape = jax.ShapeDtypeStruct((1,), jnp.float32)
            return jax.pure_callback(lambda x: np.float32(x)[None], shape, x, vmap_method=None)

    assert "jax.vmap" in problem_of(Callback())
