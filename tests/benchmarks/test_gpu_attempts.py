"""Playing every action gives the same run, bit for bit; a convolution as a sum, up to rounding."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.gpu_attempts import WAYS, changed, convolve_by_sum, play_each
from eligrad.agents import QLambda, QLambdaConfig, default_network
from eligrad.engines import stream
from eligrad.envs import make
from eligrad.nets import cnn, init
from eligrad.nets.layers import Affine
from tests.engines import tiny
from tests.engines.tiny import ENV

RUNS = 3


def train(env, agent, steps, way):
    def begin(seed):
        return stream.begin(agent, env, env.default_params(), seed, seed)

    def advance(state):
        return stream.advance(agent, env, env.default_params(), state, steps)

    with changed(way):
        return jax.jit(jax.vmap(advance))(jax.jit(jax.vmap(begin))(jnp.arange(RUNS)))


def bits(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def check_same(env, agent):
    (state, record), expected = (train(env, agent, 300, way) for way in ("each", "as it is"))
    assert np.asarray(record.ended).sum() > RUNS
    paths, _ = jax.tree.flatten_with_path(expected)
    for (path, want), got in zip(paths, jax.tree.leaves((state, record)), strict=True):
        assert bits(got) == bits(want), jax.tree_util.keystr(path)


def test_random_environment():
    check_same(ENV, tiny.agent())


@pytest.mark.nightly
@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_games(game):
    env = make(f"MinAtar/{game}-v1")
    network = default_network(env.observation_space.shape, env.action_space.n)
    check_same(env, QLambda(QLambdaConfig(exploration_steps=200), network))


def test_what_no_number_equals_is_picked_as_it_is(monkeypatch):
    """A sum over a mask would lose -0.0, and make NaN of what was not chosen."""
    values = jnp.array([-0.0, jnp.nan])
    step = ENV.step
    monkeypatch.setattr(
        ENV, "step", lambda key, state, a, p: step(key, state, a, p)._replace(reward=values[a])
    )
    key, params = jax.random.key(0), ENV.default_params()
    state, _ = ENV.reset(key, params)
    for action in map(jnp.int32, range(2)):
        picked, plain = (
            jax.jit(lambda a, play=play: play(ENV, key, state, a, params))(action)
            for play in (play_each, stream.play)
        )
        assert bits(picked.reward) == bits(plain.reward)


@pytest.mark.parametrize("window", [cnn.Window(5, 3, 1), cnn.Window(2, 4, 2)])
def test_a_convolution_as_a_sum(window):
    """Values, and derivatives in the image and all parameters, in both modes."""
    image_key, key = jax.random.split(jax.random.key(0))
    image = jax.random.normal(image_key, (8, 10, 3))
    filters = Affine(
        window.size**2 * 3,
        window.filters,
        init=functools.partial(init.orthogonal, gain=1.0),
        key=key,
    )
    filters = jax.tree.map(lambda leaf: leaf + 0.1, filters)

    def value(convolve, image, filters):
        return jnp.sum(jnp.sin(convolve(image, filters, window)))

    for derivative in (jax.grad, jax.jacfwd):
        want, got = (
            jax.jit(derivative(lambda *x, how=how: value(how, *x), argnums=(0, 1)))(image, filters)
            for how in (cnn.convolve, convolve_by_sum)
        )
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        cnn.convolve(image, filters, window), convolve_by_sum(image, filters, window), atol=1e-5
    )


def test_nothing_stays_changed():
    before = stream.play, cnn.convolve
    for way in WAYS:
        with pytest.raises(KeyError), changed(way):
            raise KeyError
        assert (stream.play, cnn.convolve) == before
