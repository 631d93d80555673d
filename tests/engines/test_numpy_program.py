"""A policy in NumPy does what the compiled one does."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from eligrad.agents import DiscretePolicy, GaussianPolicy, from_equinox
from eligrad.agents.policies import over_batch
from eligrad.engines.numpy_program import Untranslatable, translate
from eligrad.nets import tanh_mlp

RNG = np.random.default_rng(0)
RUNS, ENVS, SIZE = 3, 2, 5


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def assert_same(function, params, *inputs):
    """The same numbers, dtypes and tree as compiled, for parameters and inputs seen or not."""
    program = translate(function, jax.tree.map(np.zeros_like, params), *inputs)
    ours = program.bind(params)
    for _ in range(2):  # a second call sees nothing of the first
        inputs = [np.asarray(-x if x.dtype.kind == "f" else x) for x in inputs]
        found, wanted = ours(*inputs), jax.jit(function)(params, *inputs)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=2e-6)


X, Y, POSITIVE = numbers(4, 3), numbers(4, 3), np.abs(numbers(4, 3)) + np.float32(0.1)
FUNCTIONS = {
    "arithmetic": lambda p, x, y: (p + x * y - x / p, jnp.maximum(x, y), jnp.minimum(x, p), -x),
    "powers": lambda p, x, y: (jnp.square(x), x**3, p**x, lax.rsqrt(p), jnp.sqrt(p)),
    "logarithms": lambda p, x, y: (jnp.exp(x), jnp.log(p), jnp.log1p(p), jnp.expm1(y)),
    "waves": lambda p, x, y: (jnp.tanh(x), jnp.sin(y), jnp.cos(p * x)),
    "activations": lambda p, x, y: [
        f(x)
        for f in (jax.nn.relu, jax.nn.leaky_relu, jax.nn.sigmoid, jax.nn.silu, jax.nn.elu)
    ],
    "gelu": lambda p, x, y: (jax.nn.gelu(x, approximate=False), jax.nn.gelu(x)),
    "softmax": lambda p, x, y: (jax.nn.softmax(x), jax.nn.log_softmax(p * y)),
    "comparisons": lambda p, x, y: (x < y, x >= p, (x > y) & (y > p), ~(x == y), x != y),
    "choices": lambda p, x, y: (jnp.where(x > y, x, p), jnp.clip(x, -0.5, 0.5), jnp.sign(x)),
    "reductions": lambda p, x, y: (
        x.sum(0), x.max(1), y.min(), x.mean(), jnp.var(y, axis=1), jnp.all(x > y), jnp.any(x > y, 0)
    ),
    "argmax": lambda p, x, y: (jnp.argmax(x, axis=1), jnp.argmax(y * p, axis=0).astype(jnp.int32)),
    "shapes": lambda p, x, y: (
        x.T, x.reshape(2, 6), x[None], jnp.concatenate([x, y], axis=1), x[1:3, ::2], y[..., 0]
    ),
    "broadcasts": lambda p, x, y: (
        jnp.broadcast_to(x[0], (4, 3)), x + jnp.broadcast_to(y[:, :1], (4, 3)), jnp.ones(3) * x[0]
    ),
    "products": lambda p, x, y: (
        x @ p.T, x[0] @ p.T, p[0] @ y[1], jnp.einsum("ij,ik->jk", x, y),
        jnp.einsum("bi,bj->bij", x, p), jnp.tensordot(x, y, axes=2),
    ),
    "barriers": lambda p, x, y: lax.stop_gradient(lax.optimization_barrier((x + p, y))),
    "of parameters alone": lambda p, x, y: (jnp.tanh(p), x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations(name):
    assert_same(FUNCTIONS[name], POSITIVE, X, Y)


def test_several_runs_have_products_of_their_own():
    weights, inputs = numbers(RUNS, SIZE, 4), numbers(RUNS, ENVS, SIZE)
    assert_same(jax.vmap(over_batch(lambda w, x: x @ w, 1)), weights, inputs)


def policies():
    def made(out):
        return from_equinox(
            lambda key, _: tanh_mlp(SIZE, out, hidden=(8, 8), output_gain=1.0, key=key)
        )

    yield DiscretePolicy(made(4), 4)
    yield GaussianPolicy(made(2), (-1.0, -1.0), (1.0, 1.0), (2,))
    yield GaussianPolicy(made(2), (-2.0, -np.inf), (3.0, 4.0), (2, 1))


@pytest.mark.parametrize("policy", list(policies()), ids=["choices", "unit box", "box"])
def test_policies(policy):
    def act(actor, observation, noise):
        action = over_batch(policy, 1)(actor, observation).sample(noise)
        return action, policy.to_environment(action)

    actors = jax.vmap(policy.init)(jax.random.split(jax.random.key(1), RUNS))
    actors = jax.tree.map(lambda leaf: np.asarray(leaf) + 0.1 * numbers(*leaf.shape), actors)
    noise = numbers(RUNS, *policy.noise(jax.random.key(0), (ENVS,)).shape)
    assert_same(jax.vmap(act), actors, numbers(RUNS, ENVS, SIZE), noise)


def test_what_is_computed_once():
    """Nothing of the parameters is computed again at every call."""

    def heavy(p, x):
        return x + jnp.exp(jnp.log(jnp.tanh(p)))

    program = translate(heavy, POSITIVE, X)
    assert len(program._fixed) == 3
    assert len(program._moving) == 1


def test_an_unknown_operation_is_named():
    layer = eqx.nn.Conv2d(1, 1, 2, key=jax.random.key(0))
    with pytest.raises(Untranslatable, match="no translation of 'conv_general_dilated' to NumPy"):
        translate(lambda p, x: layer(x), X, numbers(1, 4, 4))
