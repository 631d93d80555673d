"""`check_env` on what shows only when an environment is run."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs.check_behaviour import contents
from eligrad.envs.spaces import Discrete
from eligrad.envs.wrappers import TimeLimit
from tests.envs.sound import Counted, Place, Sound, changed, moving, problem_of, problems_of

pytestmark = pytest.mark.usefixtures("quickest_compilation")


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
    around = TimeLimit(inner, 5)
    before = contents(around)
    assert contents(around) == before
    inner.calls += 1
    assert {name for name in before if contents(around)[name] != before[name]} == {"env"}


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
