r"""TD(λ): the semi-gradient baseline.

Forward:  $\Delta w_t = D_t \nabla V_t$. Backward: $\Delta w_t = \delta_t z^w_t$.
It treats the target as a constant, which is why it can diverge off-policy or with a network.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, PyTree

from eligrad.rules.rule import Coefficients, Rule


def value_loss(v: Array, h: None, d: Array) -> Array:
    """Half the squared distance to a fixed λ-return; its value is D² / 2."""
    return 0.5 * (jax.lax.stop_gradient(d + v) - v) ** 2


def forward(d: Array, h: None, grad_v: PyTree, grad_d: PyTree) -> PyTree:
    """D ∇V."""
    return jax.tree.map(lambda gv: d * gv, grad_v)


def backward(delta: Array, h: None, z_h: None) -> Coefficients:
    """δ z_w."""
    return Coefficients(z_w=delta)


TD = Rule(
    name="td",
    title="TD(λ)",
    value_loss=value_loss,
    forward=forward,
    backward=backward,
    has_auxiliary=False,
    traces_w=True,
)
"""TD(λ), the semi-gradient baseline: no h."""
