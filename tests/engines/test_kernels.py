"""Parts of a step as one kernel: faster on CPUs, with the results of the plain program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad._base import kernels
from eligrad.agents import QLambda, QLambdaConfig, default_network
from eligrad.engines.stream import Runs
from eligrad.envs import make
from eligrad.nets import AtariCNN, layer_norm

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="for CPUs")


def calls(function, *arguments):
    """How often the compiled program calls a kernel that is not inlined."""
    return jax.jit(function).lower(*arguments).compile().as_text().count("xla_cpu_small_call=")


def train(steps, chunk, **settings):
    env = make("MinAtar/Breakout-v1")
    network = default_network(env.observation_space.shape, env.action_space.n)
    agent = QLambda(QLambdaConfig(exploration_steps=500, **settings), network)
    runs = Runs(agent, env, env.default_params(), np.arange(1), np.arange(1))
    records = [runs.advance(chunk) for _ in range(steps // chunk)]
    return runs, np.concatenate([np.asarray(r.metrics["td_error"][0]) for r in records])


@pytest.mark.parametrize("h", ["network", "features"])
def test_a_thousand_steps_are_those_of_the_plain_program(h, monkeypatch):
    runs, errors = train(1000, 250, h=h)
    monkeypatch.setattr(kernels, "_available", lambda: False)
    plain, expected = train(1000, 250, h=h)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(errors, expected, rtol=1e-3, atol=1e-4)
    for one, other in zip(
        *(jax.tree.leaves((r.state.agent.w, r.state.agent.theta)) for r in (runs, plain)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


def test_kernels_are_in_use_for_one_run_alone(monkeypatch):
    def norm(x):
        return layer_norm(x)

    def norm_of_one_run(x):
        with kernels.for_one_run():
            return layer_norm(x)

    x = jnp.arange(64.0)
    assert calls(norm, x) == 0
    assert calls(norm_of_one_run, x) > 0
    assert not kernels.in_use()
    np.testing.assert_allclose(jax.jit(norm_of_one_run)(x), norm(x), rtol=1e-6)
    jax.clear_caches()
    monkeypatch.setattr(kernels, "_available", lambda: False)
    assert calls(norm_of_one_run, x) == 0


def test_large_arrays_are_left_to_the_compiler():
    """Sums of more numbers than MOST_NUMBERS would not compile within a kernel."""
    network = AtariCNN((40, 40, 4), 3, sparsity=0.9, key=jax.random.key(0))

    def gradient(network):
        with kernels.for_one_run():
            return jax.grad(lambda network: network(jnp.ones((40, 40, 4)))[0])(network)

    with_kernels, plain = (
        jax.jit(gradient),
        jax.jit(jax.grad(lambda n: n(jnp.ones((40, 40, 4)))[0])),
    )
    for one, other in zip(
        *(jax.tree.leaves(f(network)) for f in (with_kernels, plain)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("size", [1, kernels.MOST_NUMBERS, kernels.MOST_NUMBERS + 1])
def test_sizes_that_are_accepted_compile(size):
    def loss(x):
        with kernels.for_one_run():
            return jnp.sum(layer_norm(x) ** 3)

    gradient = jax.jit(jax.grad(loss))(jnp.arange(float(size)))
    expected = jax.grad(lambda x: jnp.sum(layer_norm(x) ** 3))(jnp.arange(float(size)))
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)
