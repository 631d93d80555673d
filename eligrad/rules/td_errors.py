r"""One-step errors, $\delta_t = R_{t+1} + \gamma_{t+1} \hat v(S_{t+1}) - \hat v(S_t)$.

Names are time-indexed: `tm1` is the state an action was taken in, `t` the one it led to.
A transition that terminated has `discount_t` 0; no other flag enters. All functions take one
transition or arrays of them, with any leading axes.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from eligrad._base import array_checks as check


def td_error(v_tm1: ArrayLike, r_t: ArrayLike, discount_t: ArrayLike, v_t: ArrayLike) -> Array:
    r"""$\delta = r_t + \gamma_t v_t - v_{t-1}$; `v_t` is the value of the *real* next state.

    At a truncation that is the episode's last observation, not the first one of the next episode.

    Args:
        v_tm1: value of the state acted in.
        r_t: reward.
        discount_t: discount of the transition, 0 where it terminated.
        v_t: value of the state that followed.
    """
    v_tm1, v_t = check.real("v_tm1", v_tm1), check.real("v_t", v_t)
    r_t = check.real("r_t", r_t, like=v_tm1)
    check.within("discount_t", discount_t, 0.0, 1.0)
    check.same_shape(v_tm1=v_tm1, r_t=r_t, v_t=v_t)
    discount_t = check.number("discount_t", discount_t, like=r_t)
    if discount_t.ndim:
        check.same_shape(r_t=r_t, discount_t=discount_t)
    return r_t + discount_t * v_t - v_tm1


def q_learning_td_error(
    q_tm1: ArrayLike, a_tm1: ArrayLike, r_t: ArrayLike, discount_t: ArrayLike, q_t: ArrayLike
) -> Array:
    r"""$\delta = r_t + \gamma_t \max_a q_t(a) - q_{t-1}(a_{t-1})$, differentiable through max.

    Args:
        q_tm1: action values of the state acted in.
        a_tm1: the action taken.
        r_t: reward.
        discount_t: discount of the transition, 0 where it terminated.
        q_t: action values of the state that followed.
    """
    return td_error(taken(q_tm1, a_tm1), r_t, discount_t, greedy_value(q_t))


def sarsa_td_error(
    q_tm1: ArrayLike,
    a_tm1: ArrayLike,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    q_t: ArrayLike,
    a_t: ArrayLike,
) -> Array:
    r"""$\delta = r_t + \gamma_t q_t(a_t) - q_{t-1}(a_{t-1})$.

    Args:
        q_tm1: action values of the state acted in.
        a_tm1: the action taken.
        r_t: reward.
        discount_t: discount of the transition, 0 where it terminated.
        q_t: action values of the state that followed.
        a_t: the action taken there.
    """
    return td_error(taken(q_tm1, a_tm1), r_t, discount_t, taken(q_t, a_t))


def expected_sarsa_td_error(
    q_tm1: ArrayLike,
    a_tm1: ArrayLike,
    r_t: ArrayLike,
    discount_t: ArrayLike,
    q_t: ArrayLike,
    probabilities_t: ArrayLike,
) -> Array:
    r"""$\delta = r_t + \gamma_t \sum_a \pi_t(a) q_t(a) - q_{t-1}(a_{t-1})$.

    Args:
        q_tm1: action values of the state acted in.
        a_tm1: the action taken.
        r_t: reward.
        discount_t: discount of the transition, 0 where it terminated.
        q_t: action values of the state that followed.
        probabilities_t: the policy's probabilities there.
    """
    return td_error(taken(q_tm1, a_tm1), r_t, discount_t, expected_value(q_t, probabilities_t))


def taken(q: ArrayLike, a: ArrayLike) -> Array:
    """The value of the action taken, `q[a]`, for one transition or an array of them."""
    q, a = _action_values(q), jnp.asarray(a)
    if not jnp.issubdtype(a.dtype, jnp.integer):
        raise TypeError(f"the action has dtype {a.dtype}; an integer dtype is accepted")
    if a.shape != q.shape[:-1]:
        raise ValueError(
            f"the action has shape {a.shape} and the values {q.shape}; one action for each "
            f"state, shape {q.shape[:-1]}, is accepted"
        )
    # A sum over a mask: cheaper than a gather in a batch, and so is its gradient.
    chosen = a[..., None] == jnp.arange(q.shape[-1], dtype=a.dtype).reshape(
        (1,) * a.ndim + (q.shape[-1],)
    )
    return jnp.sum(jnp.where(chosen, q, jnp.zeros_like(q)), axis=-1)


def greedy_value(q: ArrayLike) -> Array:
    """The largest action value; where several are largest, the first one carries the gradient."""
    q = _action_values(q)
    return taken(q, jnp.argmax(q, axis=-1))


def expected_value(q: ArrayLike, probabilities: ArrayLike) -> Array:
    """The mean action value under a policy's probabilities."""
    q, probabilities = _action_values(q), check.real("probabilities", probabilities)
    check.same_shape(q=q, probabilities=probabilities)
    return jnp.sum(q * probabilities, axis=-1)


def _action_values(q: ArrayLike) -> Array:
    q = check.real("q", q)
    if q.ndim == 0 or q.shape[-1] == 0:
        raise ValueError(f"q has shape {q.shape}; a last axis over the actions is needed")
    return q
