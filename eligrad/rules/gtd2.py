r"""GTD2(λ): the gradient of PBE(λ) itself, as a saddle point.

Forward:  $\Delta w_t = -H_t \nabla D_t$. Backward: $\Delta w_t = -z^h_t \nabla \delta_t$.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, PyTree

from eligrad.rules.rule import Coefficients, Rule


def value_loss(v: Array, h: Array, d: Array) -> Array:
    """H D with H fixed."""
    return jax.lax.stop_gradient(h) * d


def forward(d: Array, h: Array, grad_v: PyTree, grad_d: PyTree) -> PyTree:
    """-H ∇D."""
    return jax.tree.map(lambda gd: -h * gd, grad_d)


def backward(delta: Array, h: Array, z_h: Array) -> Coefficients:
    """-z_h ∇δ."""
    return Coefficients(grad_delta=-z_h)


GTD2 = Rule(
    name="gtd2",
    title="GTD2(λ)",
    value_loss=value_loss,
    forward=forward,
    backward=backward,
    has_auxiliary=True,
    traces_w=False,
)
"""GTD2(λ), the gradient of PBE(λ)."""
