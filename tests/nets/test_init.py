import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.nets import orthogonal, sparse_uniform
from eligrad.nets.init import _count_zeros

KEY = jax.random.key(0)


def exact_ceil(thousandths, fan_in):
    return math.ceil(Fraction(thousandths, 1000) * fan_in)


@pytest.mark.parametrize("fan_in", [1, 9, 10, 36, 90, 128, 1024, 3136, 4096])
def test_counts_are_the_exact_ceiling(fan_in):
    sparsities = [k / 1000 for k in range(1001)]
    expected = [exact_ceil(k, fan_in) for k in range(1001)]
    found = jax.vmap(partial(_count_zeros, fan_in=fan_in))(jnp.array(sparsities, jnp.float32))
    np.testing.assert_array_equal(found, expected)


def test_counts_do_not_depend_on_compilation():
    fan_ins = range(1, 60)
    found = jax.jit(lambda s: [_count_zeros(s, n) for n in fan_ins])(0.9)
    np.testing.assert_array_equal(np.array(found), [exact_ceil(900, n) for n in fan_ins])


@pytest.mark.parametrize("shape", [(10, 7), (3, 3, 4, 16), (1024, 128), (1, 5)])
def test_each_unit_has_exactly_that_many_zeros(shape):
    init = jax.jit(lambda sparsity: sparse_uniform(KEY, shape, sparsity=sparsity))
    for thousandths in (0, 100, 500, 900, 1000):
        weights = np.asarray(init(thousandths / 1000)).reshape(-1, shape[-1])
        fan_in = len(weights)
        zeros = exact_ceil(thousandths, fan_in)
        np.testing.assert_array_equal((weights == 0).sum(axis=0), zeros)
        assert np.abs(weights).max() <= 1 / math.sqrt(fan_in)
        assert weights.dtype == np.float32


def test_weights_are_uniform_and_zeros_are_spread_evenly():
    weights = np.asarray(sparse_uniform(KEY, (400, 500), sparsity=0.9)) * math.sqrt(400)
    kept = np.sort(weights[weights != 0])
    # Kolmogorov–Smirnov distance to uniform(-1, 1): 2 / sqrt(n) is beyond the 0.1 % level.
    grid = (np.arange(len(kept)) + 0.5) / len(kept)
    assert np.abs((kept + 1) / 2 - grid).max() < 2 / math.sqrt(len(kept))
    # Each input keeps Binomial(500, 0.1) weights: 50 ± 6.7.
    kept_per_input = (weights != 0).sum(axis=1)
    assert np.abs(kept_per_input - 50).max() < 5 * 6.7
    assert kept_per_input.std() == pytest.approx(6.7, rel=0.2)


def test_units_have_different_zeros():
    zeros = np.asarray(sparse_uniform(KEY, (100, 50), sparsity=0.5)) == 0
    assert len({column.tobytes() for column in zeros.T}) == 50


def test_ensembles_have_the_numbers_of_single_agents():
    keys = jax.random.split(KEY, 4)
    sparsities = jnp.array([0.0, 0.5, 0.9, 1.0])

    def init(key, sparsity):
        return sparse_uniform(key, (64, 8), sparsity=sparsity)

    single = jax.jit(init, static_argnums=1)
    together = jax.jit(jax.vmap(init))(keys, sparsities)
    for i in (1, 2):
        np.testing.assert_array_equal(together[i], single(keys[i], float(sparsities[i])))


@pytest.mark.parametrize("sparsity", [-0.1, 1.1, float("nan")])
def test_sparsity_must_be_a_share(sparsity):
    with pytest.raises(ValueError, match=r"sparsity is .*; a number in \[0, 1\] is accepted"):
        sparse_uniform(KEY, (3, 2), sparsity=sparsity)


@pytest.mark.parametrize(("shape", "gain"), [((8, 3), 0.01), ((3, 8), math.sqrt(2))])
def test_orthogonal(shape, gain):
    weights = np.asarray(orthogonal(KEY, shape, gain=gain)) / gain
    tall = weights if shape[0] >= shape[1] else weights.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-5)


def test_orthogonal_ensembles_have_the_numbers_of_single_agents():
    keys = jax.random.split(KEY, 3)
    init = partial(orthogonal, shape=(17, 64), gain=math.sqrt(2))
    single, together = jax.jit(init), jax.jit(jax.vmap(init))(keys)
    for i in range(3):
        np.testing.assert_array_equal(together[i], single(keys[i]))
