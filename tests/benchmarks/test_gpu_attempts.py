"""The changes that are measured on a GPU give the same run up to rounding."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.gpu_attempts import WAYS, changed, convolve_by_sum, matmul_by_rows
from eligrad._base import kernels
from eligrad.agents import QLambda, QLambdaConfig, default_network
from eligrad.engines import stream
from eligrad.envs import make
from eligrad.nets import cnn, init, layers
from eligrad.nets.layers import Affine
from tests.engines import tiny
from tests.engines.tiny import ENV

RUNS = 3


def train(env, agent, steps, way):
    def begin(seed):
        return stream.begin(agent, env, env.default_params(), seed, seed)

    def advance(state):
        return stream.advance(agent, env, env.default_params(), state, steps)[1]

    with changed(way):
        return jax.jit(jax.vmap(advance))(jax.jit(jax.vmap(begin))(jnp.arange(RUNS)))


def check_same(env, agent, way):
    got, want = (train(env, agent, 300, each) for each in (way, "as it is"))
    assert np.asarray(want.ended).sum() > RUNS
    np.testing.assert_array_equal(got.ended, want.ended)
    np.testing.assert_array_equal(got.episode_return, want.episode_return)
    for name, values in want.metrics.items():
        np.testing.assert_allclose(got.metrics[name], values, rtol=1e-3, atol=1e-4, err_msg=name)


def test_random_environment():
    check_same(ENV, tiny.agent(), "ahead")


@pytest.mark.nightly
@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_games(game):
    env = make(f"MinAtar/{game}-v1")
    network = default_network(env.observation_space.shape, env.action_space.n)
    check_same(env, QLambda(QLambdaConfig(exploration_steps=200), network), "sum, ahead")


def test_a_product_by_rows():
    """Values and derivatives, of several networks with several observations each."""
    key, weight_key = jax.random.split(jax.random.key(0))
    x, weight = jax.random.normal(key, (2, 3, 70)), jax.random.normal(weight_key, (2, 70, 40))

    def value(product, x, weight):
        return jnp.sum(jnp.sin(product(x, 0.1 * weight)))

    for derivative in (jax.value_and_grad, jax.jacfwd):
        want, got = (
            jax.vmap(jax.vmap(derivative(functools.partial(value, product), (0, 1)), (0, None)))(
                x, weight
            )
            for product in (layers._matmul, matmul_by_rows)
        )
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), got, want)


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
    def now():
        return stream._step, cnn.convolve, layers._matmul, kernels.apart

    before = now()
    for way in WAYS:
        with pytest.raises(KeyError), changed(way):
            raise KeyError
        assert now() == before
