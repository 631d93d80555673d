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
    from eligrad.rules.convenience import BackwardStep as BackwardStep
    from eligrad.rules.convenience import backward_step as backward_step
    from eligrad.rules.convenience import sequence_loss as sequence_loss
    from eligrad.rules.convenience import sequence_updates as sequence_updates
    from eligrad.rules.cuts import Cut as Cut
    from eligrad.rules.cuts import trace_cut as trace_cut
    from eligrad.rules.gtd2 import GTD2 as GTD2
    from eligrad.rules.multistep import lambda_error_gradients as lambda_error_gradients
    from eligrad.rules.multistep import lambda_errors as lambda_errors
    from eligrad.rules.registry import Regularize as Regularize
    from eligrad.rules.registry import TraceCut as TraceCut
    from eligrad.rules.registry import get as get
    from eligrad.rules.registry import names as names
    from eligrad.rules.registry import register as register
    from eligrad.rules.regularizers import Head as Head
    from eligrad.rules.rule import Coefficients as Coefficients
    from eligrad.rules.rule import Rule as Rule
    from eligrad.rules.rule import Traces as Traces
    from eligrad.rules.rule import Update as Update
    from eligrad.rules.td import TD as TD
    from eligrad.rules.td_errors import expected_sarsa_td_error as expected_sarsa_td_error
    from eligrad.rules.td_errors import expected_value as expected_value
    from eligrad.rules.td_errors import greedy_value as greedy_value
    from eligrad.rules.td_errors import q_learning_td_error as q_learning_td_error
    from eligrad.rules.td_errors import sarsa_td_error as sarsa_td_error
    from eligrad.rules.td_errors import taken as taken
    from eligrad.rules.td_errors import td_error as td_error
    from eligrad.rules.tdc import TDC as TDC
    from eligrad.rules.tdc import TDRC as TDRC

__getattr__, __dir__ = lazy(__name__)
