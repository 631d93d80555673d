"""Overshooting-bounded gradient descent (Elsayed, Vasan & Mahmood, 2024), plain and adaptive.

Published for Q(λ), whose direction is δ z. Here the bound shortens the whole direction g of any
rule, by the trace z of the parameters that move: z_w for w, z_θ for θ. With g = δ z it is the
published optimiser.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from eligrad._base.array_checks import Number, check_number
from eligrad._base.kernels import total


def obgd(learning_rate: Number, kappa: Number) -> optax.GradientTransformationExtraArgs:
    """ObGD: a step α g, shortened where it might overshoot the target.

    With the norm taken over the whole tree:

        M  = α κ max(|δ|, 1) |z|₁
        Δw = α / max(M, 1) · g

    Where M is above 1, α cancels, and κ is what decides on the length of a step. With α = 1 that is
    nearly always so.
    """
    _check_kappa(kappa)

    def init(params: PyTree) -> optax.EmptyState:
        del params
        return optax.EmptyState()

    def update(
        updates: PyTree,
        state: Any,
        params: Any = None,
        *,
        td_error: Number,
        trace: PyTree,
        **extra_args: Any,
    ) -> tuple[PyTree, Any]:
        del params, extra_args
        check_trace("obgd", trace)
        return _bounded(updates, trace, td_error, learning_rate, kappa), state

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
    """ObGD of a direction whose every entry is divided by the root mean square of its recent past.

    The trace that bounds the step is divided alike. The t-th update is:

        v  = β₂ v + (1 - β₂) g²,    s = sqrt(v / (1 - β₂^t) + ε)
        M  = α κ max(|δ|, 1) |z / s|₁
        Δw = α / max(M, 1) · g / s

    Args:
        learning_rate: the step size α.
        kappa: a larger one makes smaller steps.
        beta2: how much of the mean square is kept in a step.
        eps: added under the root.
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
        trace: PyTree,
        **extra_args: Any,
    ) -> tuple[PyTree, AdaptiveObGDState]:
        del params, extra_args
        check_trace("adaptive_obgd", trace)
        updates_made = jnp.asarray(optax.safe_increment(state.updates_made))
        dtype = scalar_dtype(updates)
        log_beta2 = jnp.log1p(-jnp.asarray(forgetting, dtype))
        correction = -jnp.expm1(updates_made.astype(dtype) * log_beta2)

        def track(v: Array, g: Array) -> Array:
            return v + jnp.asarray(forgetting, g.dtype) * (jnp.square(g) - v)

        def precondition(v: Array, x: Array) -> Array:
            mean_square = v / correction.astype(v.dtype)
            return x / jnp.sqrt(mean_square + jnp.asarray(eps, x.dtype))

        second_moment = jax.tree.map(track, state.second_moment, updates)
        gradient = jax.tree.map(precondition, second_moment, updates)
        trace = jax.tree.map(precondition, second_moment, trace)
        step = _bounded(gradient, trace, td_error, learning_rate, kappa)
        return step, AdaptiveObGDState(updates_made, second_moment)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def _bounded(
    gradient: PyTree, trace: PyTree, td_error: Number, learning_rate: Number, kappa: Number
) -> PyTree:
    """-α / max(M, 1) · gradient, with M = α κ max(|δ|, 1) |z|₁."""
    dtype = scalar_dtype(gradient)
    norms = (total(jnp.abs(leaf).astype(dtype)) for leaf in jax.tree.leaves(trace))
    norm = sum(norms, jnp.zeros((), dtype))
    rate, safety = (jnp.asarray(x, dtype) for x in (learning_rate, kappa))
    bound = rate * safety * larger_than_one(td_error, dtype) * norm
    scale = -rate / jnp.maximum(bound, 1.0)
    return jax.tree.map(lambda leaf: scale.astype(leaf.dtype) * leaf, gradient)


def larger_than_one(td_error: Number, dtype: Any) -> Float[Array, ""]:
    """max(|δ|, 1)."""
    return jnp.maximum(jnp.abs(jnp.asarray(td_error, dtype)), 1.0)


def scalar_dtype(tree: PyTree) -> Any:
    """Double where a leaf is; single otherwise, also for leaves of half precision."""
    has_double = any(leaf.dtype == jnp.float64 for leaf in jax.tree.leaves(tree))
    return jnp.float64 if has_double else jnp.float32


def check_trace(optimizer: str, trace: PyTree) -> None:
    """Raises ValueError if there is no trace."""
    if trace is None:
        raise ValueError(
            f"trace is None; {optimizer} needs the eligibility trace of the parameters"
        )


def _check_kappa(kappa: Number) -> None:
    check_number("kappa", kappa, lambda k: k > 0, "a number above 0 (2 is usual)")
