"""Initial weights: functions of a key and a shape whose last axis counts the output units.

All other axes together are one unit's incoming weights; their number is its fan-in. To hand one of
these to a network, bind its number: `functools.partial(sparse_uniform, sparsity=0.9)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eligrad._base.array_checks import Number, check_number

Initializer = Callable[[PRNGKeyArray, tuple[int, ...]], Array]
"""From a key and a shape to weights."""


def sparse_uniform(
    key: PRNGKeyArray, shape: tuple[int, ...], *, sparsity: Number
) -> Float[Array, "..."]:
    """Sparse initialisation (Elsayed et al., 2024): most incoming weights of each unit are 0.

    Weights are uniform in ±1/sqrt(fan_in); then exactly ceil(sparsity · fan_in) of each unit's
    incoming weights, drawn without replacement, are set to 0. Sparsity 0 is a dense uniform
    initialisation. The sparsity may be traced, so that a `vmap` can run over it.
    """
    check_number("sparsity", sparsity, lambda s: 0 <= s <= 1, "a number in [0, 1]")
    fan_in, units = math.prod(shape[:-1]), shape[-1]
    weights_key, zeros_key = jax.random.split(key)
    bound = 1 / math.sqrt(fan_in)
    weights = jax.random.uniform(
        weights_key, (fan_in, units), jnp.float32, minval=-bound, maxval=bound
    )
    is_zero = _draw_places(zeros_key, _count_zeros(sparsity, fan_in), fan_in, units)
    return jnp.where(is_zero, 0.0, weights).reshape(shape)


def orthogonal(key: PRNGKeyArray, shape: tuple[int, ...], *, gain: Number) -> Float[Array, "..."]:
    """`gain` times a matrix with orthonormal columns (or rows, where units outnumber fan-in)."""
    return jax.nn.initializers.orthogonal(gain)(key, shape, jnp.float32)


def _draw_places(
    key: PRNGKeyArray, count: Int[Array, ""], fan_in: int, units: int
) -> Bool[Array, "fan_in units"]:
    """In each column, `count` places drawn without replacement.

    Sorting random numbers whose lowest bit is a mark shuffles the marks: one sort of one array,
    several times faster than a permutation of the marks by random keys.
    """
    marks = jnp.arange(fan_in, dtype=jnp.int32) < count
    shape = (fan_in, units)
    marks = jnp.broadcast_to(marks[:, None], shape).astype(jnp.uint32)
    tickets = (jax.random.bits(key, shape, jnp.uint32) & ~jnp.uint32(1)) | marks
    return (lax.sort(tickets, dimension=0, is_stable=False) & jnp.uint32(1)) == 1


def _count_zeros(sparsity: Number, fan_in: int) -> Int[Array, ""]:
    """ceil(sparsity · fan_in), for the decimal number that a 32-bit sparsity stands for.

    The nearest float to a decimal may lie above it, and ceil would then count one too many. Two
    roundings (of the sparsity, of the product) can add up to 2^-23 of the product, so that much is
    forgiven: exact for three decimals up to a fan-in of 4096, for two decimals up to 40 000.
    """
    product = jnp.asarray(sparsity, jnp.float32) * fan_in
    return jnp.ceil(product * (1 - 2**-23)).astype(jnp.int32)
