"""The rules for a function `value_fn(params, observation)`: values and gradients are computed here.

Observations are any pytree. For action values pass pairs, `value_fn(w, (obs, action))`, and say
with `bootstrap_fn` what is bootstrapped from, e.g. `lambda w, obs: jnp.max(q(w, obs))`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

from eligrad.rules.rule import Rule, Traces, Update
from eligrad.rules.td_errors import td_error

ValueFunction = Callable[[Any, Any], Array]
"""From parameters and one observation to a scalar."""


class BackwardStep(NamedTuple):
    """All that one step of the backward view computed."""

    update: Update
    traces: Traces
    delta: Float[Array, ""]
    v: Float[Array, ""]
    h: Float[Array, ""] | None


def backward_step(
    rule: Rule,
    traces: Traces,
    w: PyTree,
    theta: PyTree | None,
    obs_tm1: PyTree,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    obs_t: PyTree,
    *,
    value_fn: ValueFunction,
    auxiliary_fn: ValueFunction | None = None,
    bootstrap_fn: ValueFunction | None = None,
    **options: Any,
) -> BackwardStep:
    """One step of the backward view: values, gradients, and the rule's update.

    Args:
        rule: e.g. `rules.TDRC`.
        traces: from `rule.init` or from the step before.
        w: the parameters of `value_fn`.
        theta: those of `auxiliary_fn`; None for a rule without h.
        obs_tm1: the observation acted on; with action values, pairs of observation and action.
        r_t: the reward.
        discount_t: the discount, 0 where a transition terminated.
        obs_t: the *real* next observation, also where an episode was cut off.
        value_fn: from `w` and one observation to its value.
        auxiliary_fn: from `theta` and one observation to h.
        bootstrap_fn: from `w` and one next observation to the value bootstrapped from, where that
            is not `value_fn`.
        **options: those of `Rule.update`: `lam`, `beta`, `regularize`, `rho_tm1`, `reset`, …
    """
    v_tm1, grad_v_tm1 = _value_and_grad("value_fn", value_fn, w, obs_tm1)
    v_t, grad_v_t = _value_and_grad("bootstrap_fn", bootstrap_fn or value_fn, w, obs_t)
    delta_t = td_error(v_tm1, r_t, discount_t, v_t)
    if rule.has_auxiliary:
        h_tm1, grad_h_tm1 = _value_and_grad(
            "auxiliary_fn", _required(rule, auxiliary_fn), theta, obs_tm1
        )
        options = {"theta": theta, **options}
    else:
        h_tm1 = grad_h_tm1 = None
    update, traces = rule.update(
        traces,
        delta_t,
        discount_t,
        h_tm1,
        grad_v_tm1=grad_v_tm1,
        grad_v_t=grad_v_t,
        grad_h_tm1=grad_h_tm1,
        **options,
    )
    return BackwardStep(update, traces, delta_t, v_tm1, h_tm1)


def sequence_loss(
    rule: Rule,
    w: PyTree,
    theta: PyTree | None,
    obs_tm1: PyTree,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    obs_t: PyTree,
    *,
    value_fn: ValueFunction,
    auxiliary_fn: ValueFunction | None = None,
    bootstrap_fn: ValueFunction | None = None,
    **options: Any,
) -> Float[Array, " time"]:
    """Per-step losses of one sequence; leaves of `obs_tm1` and `obs_t` have a leading time axis.

    Args:
        rule: e.g. `rules.TDRC`.
        w: the parameters of `value_fn`.
        theta: those of `auxiliary_fn`; None for a rule without h.
        obs_tm1: the observations acted on; with action values, pairs of observation and action.
        r_t: the rewards.
        discount_t: the discounts, 0 where a transition terminated.
        obs_t: the *real* next observations, also where an episode was cut off.
        value_fn: from `w` and one observation to its value.
        auxiliary_fn: from `theta` and one observation to h.
        bootstrap_fn: from `w` and one next observation to the value bootstrapped from, where that
            is not `value_fn`.
        **options: those of `Rule.loss`: `lam`, `beta`, `regularize`, `truncated_t`, …
    """
    v_tm1 = _over_time(value_fn)(w, obs_tm1)
    v_t = _over_time(bootstrap_fn or value_fn)(w, obs_t)
    if not rule.has_auxiliary:
        return rule.loss(v_tm1, r_t, discount_t, v_t, **options)
    h_tm1 = _over_time(_required(rule, auxiliary_fn))(theta, obs_tm1)
    return rule.loss(v_tm1, r_t, discount_t, v_t, h_tm1, theta=theta, **options)


def sequence_updates(
    rule: Rule,
    w: PyTree,
    theta: PyTree | None,
    obs_tm1: PyTree,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    obs_t: PyTree,
    *,
    value_fn: ValueFunction,
    auxiliary_fn: ValueFunction | None = None,
    bootstrap_fn: ValueFunction | None = None,
    **options: Any,
) -> Update:
    """The explicit forward updates of each step: -∇ of `sequence_loss`, a row for each step.

    Args:
        rule: e.g. `rules.TDRC`.
        w: the parameters of `value_fn`.
        theta: those of `auxiliary_fn`; None for a rule without h.
        obs_tm1: the observations acted on; with action values, pairs of observation and action.
        r_t: the rewards.
        discount_t: the discounts, 0 where a transition terminated.
        obs_t: the *real* next observations, also where an episode was cut off.
        value_fn: from `w` and one observation to its value.
        auxiliary_fn: from `theta` and one observation to h.
        bootstrap_fn: from `w` and one next observation to the value bootstrapped from, where that
            is not `value_fn`.
        **options: those of `Rule.updates`: `lam`, `beta`, `regularize`, `truncated_t`, …
    """
    v_tm1, grad_v_tm1 = _over_time(jax.value_and_grad(value_fn))(w, obs_tm1)
    v_t, grad_v_t = _over_time(jax.value_and_grad(bootstrap_fn or value_fn))(w, obs_t)
    gradients = {"grad_v_tm1": grad_v_tm1, "grad_v_t": grad_v_t}
    if not rule.has_auxiliary:
        return rule.updates(v_tm1, r_t, discount_t, v_t, **gradients, **options)
    h_tm1, grad_h_tm1 = _over_time(jax.value_and_grad(_required(rule, auxiliary_fn)))(
        theta, obs_tm1
    )
    return rule.updates(
        v_tm1,
        r_t,
        discount_t,
        v_t,
        h_tm1,
        **gradients,
        grad_h_tm1=grad_h_tm1,
        theta=theta,
        **options,
    )


def _over_time(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.vmap(function, in_axes=(None, 0))


def _value_and_grad(
    name: str, function: ValueFunction, params: PyTree, observation: PyTree
) -> tuple[Array, PyTree]:
    shape = jax.eval_shape(function, params, observation)
    if getattr(shape, "shape", None) != ():
        raise ValueError(f"{name} returns {shape}; a scalar array is accepted")
    return jax.value_and_grad(function)(params, observation)


def _required(rule: Rule, auxiliary_fn: ValueFunction | None) -> ValueFunction:
    if auxiliary_fn is None:
        raise ValueError(f"auxiliary_fn is None; {rule.name} learns h and needs its function")
    return auxiliary_fn
