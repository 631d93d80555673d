"""Overshooting-bounded gradient descent (Elsayed, Vasan & Mahmood, 2024), plain and adaptive.

Both take the eligibility trace z where optax says "updates", and the TD error δ as the extra
argument `td_error`; both return what is to be *added* to the parameters::

    updates, state = optimizer.update(trace, state, params, td_error=td_error)
    params = optax.apply_updates(params, updates)

All hyper-parameters may be traced: make the optimiser inside the function that is vmapped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from eligrad._number import Number, check_number


def obgd(learning_rate: Number, kappa: Number) -> optax.GradientTransformationExtraArgs:
    """ObGD: a step α δ z, shortened where it might overshoot the target.

    With the norm taken over the whole tree::

        M  = α κ max(|δ|, 1) |z|₁
        Δw = α / max(M, 1) · δ z
    """
    _check_kappa(kappa)

    def init(params: PyTree) -> optax.EmptyState:
        del params
        return optax.EmptyState()

    def update(
        updates: PyTree, state: Any, params: Any = None, *, td_error: Number, **extra_args: Any
    ) -> tuple[PyTree, Any]:
        del params, extra_args
        return _bounded_step(updates, td_error, learning_rate, kappa), state

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


class AdaptiveObGDState(NamedTuple):
    """How many updates were made, and the running mean of their squares."""

    updates_made: Int[Array, ""]
    second_moment: PyTree


def adaptive_obgd(
    learning_rate: Number,
    kappa: Number,
    beta2: Number = 0.999,
    eps: Number = 1e-8,
) -> optax.GradientTransformationExtraArgs:
    """ObGD of a trace whose every entry is divided by the root mean square of its recent updates.

    The t-th update is::

        v  = β₂ v + (1 - β₂) (δ z)²
        u  = z / sqrt(v / (1 - β₂^t) + ε)
        M  = α κ max(|δ|, 1) |u|₁
        Δw = α / max(M, 1) · δ u
    """
    _check_kappa(kappa)
    check_number("beta2", beta2, lambda b: 0 <= b < 1, "a number in [0, 1)")
    # Of a Python float this is exact in double precision; 1 - float32(0.999) is 1e-5 off.
    forgetting = 1.0 - beta2

    def init(params: PyTree) -> AdaptiveObGDState:
        return AdaptiveObGDState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(
        updates: PyTree,
        state: AdaptiveObGDState,
        params: Any = None,
        *,
        td_error: Number,
        **extra_args: Any,
    ) -> tuple[PyTree, AdaptiveObGDState]:
        del params, extra_args
        updates_made = jnp.asarray(optax.safe_increment(state.updates_made))
        dtype = _scalar_dtype(updates)
        log_beta2 = jnp.log1p(-jnp.asarray(forgetting, dtype))
        correction = -jnp.expm1(updates_made.astype(dtype) * log_beta2)

        def track(v: Array, z: Array) -> Array:
            square = jnp.square(jnp.asarray(td_error, z.dtype) * z)
            return v + jnp.asarray(forgetting, z.dtype) * (square - v)

        def precondition(v: Array, z: Array) -> Array:
            mean_square = v / correction.astype(v.dtype)
            return z / jnp.sqrt(mean_square + jnp.asarray(eps, z.dtype))

        second_moment = jax.tree.map(track, state.second_moment, updates)
        direction = jax.tree.map(precondition, second_moment, updates)
        step = _bounded_step(direction, td_error, learning_rate, kappa)
        return step, AdaptiveObGDState(updates_made, second_moment)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def _bounded_step(
    direction: PyTree, td_error: Number, learning_rate: Number, kappa: Number
) -> PyTree:
    """α / max(M, 1) · δ d with M = α κ max(|δ|, 1) |d|₁."""
    dtype = _scalar_dtype(direction)
    norms = (jnp.sum(jnp.abs(leaf), dtype=dtype) for leaf in jax.tree.leaves(direction))
    norm = sum(norms, jnp.zeros((), dtype))
    error, rate, safety = (jnp.asarray(x, dtype) for x in (td_error, learning_rate, kappa))
    bound = rate * safety * jnp.maximum(jnp.abs(error), 1.0) * norm
    scale = rate / jnp.maximum(bound, 1.0) * error
    return jax.tree.map(lambda leaf: scale.astype(leaf.dtype) * leaf, direction)


def _scalar_dtype(tree: PyTree) -> Any:
    """Double where a leaf is; single otherwise, also for leaves of half precision."""
    has_double = any(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(tree))
    return jnp.float64 if has_double else jnp.float32


def _check_kappa(kappa: Number) -> None:
    check_number("kappa", kappa, lambda k: k > 0, "a number above 0 (2 is usual)")
