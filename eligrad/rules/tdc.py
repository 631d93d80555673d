r"""TDC(λ) and TDRC(λ): the semi-gradient with a gradient correction.

Forward:  $\Delta w_t = D_t \nabla V_t - H_t \nabla (V_t + D_t)$.
Backward: $\Delta w_t = \delta_t z^w_t - H_t \nabla V_t - z^h_t \nabla \delta_t$.
TDRC is TDC with its auxiliary parameters regularised: $\Delta \theta_t$ loses $\beta \theta$. With
β = 0 it is TDC; the larger β, the smaller h, and the closer the rule is to TD(λ).
"""

from __future__ import annotations

import dataclasses

import jax
from jaxtyping import Array, PyTree

from eligrad.rules.rule import Coefficients, Rule


def value_loss(v: Array, h: Array, d: Array) -> Array:
    """H D - (D - H) V with H and (D - H) fixed."""
    fixed_h, fixed_gap = jax.lax.stop_gradient((h, d - h))
    return fixed_h * d - fixed_gap * v


def forward(d: Array, h: Array, grad_v: PyTree, grad_d: PyTree) -> PyTree:
    """D ∇V - H ∇(V + D)."""
    return jax.tree.map(lambda gv, gd: d * gv - h * (gv + gd), grad_v, grad_d)


def backward(delta: Array, h: Array, z_h: Array) -> Coefficients:
    """δ z_w - H ∇V - z_h ∇δ."""
    return Coefficients(z_w=delta, grad_v=-h, grad_delta=-z_h)


TDC = Rule(
    name="tdc",
    title="TDC(λ)",
    value_loss=value_loss,
    forward=forward,
    backward=backward,
    has_auxiliary=True,
    traces_w=True,
)
"""TDC(λ), the semi-gradient with a gradient correction."""

TDRC = dataclasses.replace(TDC, name="tdrc", title="TDRC(λ)", default_beta=1.0)
"""TDRC(λ), TDC(λ) with h regularised."""
