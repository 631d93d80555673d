"""Gradient TD(λ) as pure functions: no environment, no network class, no training loop.

The forward view of a rule is a loss over a sequence:

    losses = rules.TDRC.loss(v_tm1, r_t, discount_t, v_t, h_tm1, lam=0.95, theta=theta)

and its backward view a pair `init` / `update` with eligibility traces:

    traces = rules.TDRC.init(w, theta)
    update, traces = rules.TDRC.update(
        traces, delta_t, discount_t, h_tm1, grad_v_tm1=..., lam=0.8, ...
    )

A loss is to be minimised. `update.w` and `update.theta` are the paper's Δw and Δθ, to be *added*,
times a step size. An optax optimiser takes a gradient and steps against it: wrap it by
`eligrad.optim.ascend`, which changes the sign, to feed it an update. `sequence_loss`,
`sequence_updates` and `backward_step` do the calls of `value_fn`, `auxiliary_fn` and `jax.grad` for
you.
"""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.rules.convenience import (
        BackwardStep,
        backward_step,
        sequence_loss,
        sequence_updates,
    )
    from eligrad.rules.cuts import Cut, trace_cut
    from eligrad.rules.gtd2 import GTD2
    from eligrad.rules.multistep import lambda_error_gradients, lambda_errors
    from eligrad.rules.registry import Regularize, TraceCut, get, names, register
    from eligrad.rules.regularizers import Head
    from eligrad.rules.rule import Rule, Traces, Update
    from eligrad.rules.td import TD
    from eligrad.rules.td_errors import (
        expected_sarsa_td_error,
        expected_value,
        greedy_value,
        q_learning_td_error,
        sarsa_td_error,
        taken,
        td_error,
    )
    from eligrad.rules.tdc import TDC, TDRC

__all__ = [
    "GTD2",
    "TD",
    "TDC",
    "TDRC",
    "BackwardStep",
    "Cut",
    "Head",
    "Regularize",
    "Rule",
    "TraceCut",
    "Traces",
    "Update",
    "backward_step",
    "expected_sarsa_td_error",
    "expected_value",
    "get",
    "greedy_value",
    "lambda_error_gradients",
    "lambda_errors",
    "names",
    "q_learning_td_error",
    "register",
    "sarsa_td_error",
    "sequence_loss",
    "sequence_updates",
    "taken",
    "td_error",
    "trace_cut",
]

__getattr__, __dir__ = lazy(__name__)
