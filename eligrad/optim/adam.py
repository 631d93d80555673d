"""Adam with an eligibility trace: the optimiser of Adaptive Q(λ) (Gogianu et al., 2026)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from eligrad._base.array_checks import Number, check_number
from eligrad.optim.bounded import check_trace, larger_than_one, scalar_dtype


class TraceAdamState(NamedTuple):
    """Faded sums of squares, and of ones: their quotient is the second moment."""

    squares: PyTree
    weight: Float[Array, ""]


def trace_adam(
    learning_rate: Number, trace_decay: Number, eps: Number = 1e-8
) -> optax.GradientTransformationExtraArgs:
    """Adam whose first moment is the eligibility trace, and whose second forgets as the trace does.

    For Q(λ), whose direction is δ z, with d = γ λ and δ clipped to ±1:

        s  = d s + (∇V)²,    n = d n + 1,    v = s / n
        Δw = α clip(δ) z / (sqrt(v) + ε)

    v is Adam's second moment with β₂ = d and its bias corrected. z is the trace itself, a sum and
    no average; v is not emptied where the trace is. The direction g of a gradient rule has a
    correction c beside δ z, -H ∇V - z_h ∇δ for w. It is shortened by as much as clipping shortens
    δ, and its squares join those of the gradient, so that its steps are bounded, too:

        c  = (g - δ z) / max(|δ|, 1)
        s  = d s + (∇V)² + c²
        Δw = α / max(|δ|, 1) · g / (sqrt(v) + ε)

    For θ the same, with h in place of V.

    Args:
        learning_rate: the step size α.
        trace_decay: d = γ λ, by which the trace fades in one step.
        eps: added to the root.
    """
    check_number("trace_decay", trace_decay, lambda d: 0 <= d <= 1, "a number in [0, 1]")

    def init(params: PyTree) -> TraceAdamState:
        leaves = jax.tree.leaves(params)
        dtype = jnp.result_type(*leaves) if leaves else jnp.float32
        return TraceAdamState(jax.tree.map(jnp.zeros_like, params), jnp.zeros((), dtype))

    def update(
        updates: PyTree,
        state: TraceAdamState,
        params: Any = None,
        *,
        td_error: Number,
        trace: PyTree,
        grad_output: PyTree,
        **extra_args: Any,
    ) -> tuple[PyTree, TraceAdamState]:
        del params, extra_args
        check_trace("trace_adam", trace)
        dtype = scalar_dtype(updates)
        delta, rate, decay = (jnp.asarray(x, dtype) for x in (td_error, learning_rate, trace_decay))
        shorter = 1.0 / larger_than_one(delta, dtype)
        weight = decay * state.weight.astype(dtype) + 1.0

        def track(s: Array, gradient: Array, z: Array, grad: Array) -> Array:
            kind = s.dtype
            # `updates` is a gradient to descend, the negative of the direction.
            correction = shorter.astype(kind) * (gradient + delta.astype(kind) * z)
            return decay.astype(kind) * s + jnp.square(grad) + jnp.square(correction)

        def step(s: Array, gradient: Array) -> Array:
            root = jnp.sqrt(s / weight.astype(s.dtype)) + jnp.asarray(eps, s.dtype)
            return -(rate * shorter).astype(s.dtype) * gradient / root

        squares = jax.tree.map(track, state.squares, updates, trace, grad_output)
        return jax.tree.map(step, squares, updates), TraceAdamState(
            squares, weight.astype(state.weight.dtype)
        )

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]
