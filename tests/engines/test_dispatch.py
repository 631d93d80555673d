"""What goes to an agent outside JAX in one array comes out of it as it went in."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import Transition, registry
from eligrad.engines import HostRuns
from eligrad.engines.dispatch import Dispatch, _from_words, _to_words
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment

pytestmark = pytest.mark.usefixtures("quickest_compilation")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (10, 10, 7)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int16", "uint8", "int8", "bool"])
@pytest.mark.parametrize("runs", [(), (3,)])
def test_observations_survive_as_words(shape, dtype, runs):
    bits = np.random.default_rng(0).integers(0, 256, (*runs, *shape, np.dtype(dtype).itemsize))
    bits = np.minimum(bits, 1) if dtype == "bool" else bits
    arrays = np.asarray(bits.astype(np.uint8).view(dtype)[..., 0])
    words = _to_words(arrays, arrays.dtype, runs)
    assert words.dtype == np.uint32
    read = jax.jit(lambda row: _from_words(row, shape, np.dtype(dtype)))
    for run in np.ndindex(*runs):
        back = np.asarray(read(words[run]))
        assert back.dtype == dtype
        assert back.shape == shape
        assert back.tobytes() == arrays[run].tobytes()


def test_observations_of_eight_bytes_survive_as_words():
    with jax.enable_x64(True):
        array = np.random.default_rng(0).normal(size=5)
        read = jax.jit(lambda words: _from_words(words, (5,), array.dtype))
        back = np.asarray(read(_to_words(array, array.dtype, ())))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


class Doubles(gymnasium.Env):
    """Observations of that dtype, as many simulators give float64."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, dtype):
        self.observation_space = gymnasium.spaces.Box(-9, 9, (3,), dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        return self._observation(), float(action), False, False, {}

    def _observation(self):
        # Numbers that float32 has, too, so that only the dtype differs.
        return np.float32(self.np_random.normal(size=3)).astype(self.observation_space.dtype)


def test_observations_of_doubles_are_learned_from_like_singles():
    def metrics(dtype):
        env = GymnasiumEnvironment(lambda: Doubles(dtype))
        agent = registry.build("qrc", registry.make_settings("qrc", {}), env)
        runs = HostRuns(agent, env, np.arange(2), np.arange(2))
        return runs.advance(5).metrics

    doubles, singles = metrics(np.float64), metrics(np.float32)
    assert np.all(singles["td_error"][:, -1] != 0)
    for name, values in singles.items():
        np.testing.assert_array_equal(doubles[name], values)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Own:
    """An agent of one's own, which keeps the dtype that its network gives."""

    dtype: str = dataclasses.field(metadata={"static": True})

    def update(self, state, transition, key):
        return state, {"td_error": transition.reward}

    def act(self, state, key):
        return state, state.astype(self.dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float16", "int32", "float32"])
def test_actions_of_any_width_come_back(dtype):
    state, observation = jnp.array([1, 0, 1], jnp.int32), np.zeros(2, np.float32)
    dispatch = Dispatch(Own(dtype), state, observation)
    key = np.asarray(jax.random.key_data(jax.random.key(0)))
    transition = Transition(np.float32(0.5), False, False, observation, observation)
    message = jnp.asarray(dispatch.message(key, key, transition))
    settings = dispatch.pack_settings(Own(dtype))
    action, metrics = dispatch.read(dispatch.observe(settings, message, dispatch.pack(state))[1])
    assert action.dtype == dtype
    assert action.tolist() == [1, 0, 1]
    assert metrics.tolist() == [0.5]
