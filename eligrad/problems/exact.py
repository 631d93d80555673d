"""The exact answers of a finite problem, by linear algebra in float64.

With D = diag(d), d the behaviour policy's long-run distribution, and with P_gamma and r_pi under
the *target* policy (so that importance ratios are already averaged out):

    delta^lam_pi = (I - lam P_gamma)^-1 (r_pi + P_gamma v - v)    = E_b[D_t | S_t = s]
    D_t          = rho_t (delta_t + gamma_{t+1} lam D_{t+1})        the sampled error

Everything below follows from these errors and their gradient. `values` and `gradients` are v(s; w)
and its gradient by w, row by row, so that nothing here asks whether v is linear.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from eligrad.problems.mdp import FiniteMDP
from eligrad.rules import Regularize, Rule


class Terms(NamedTuple):
    """A rule's Δw = error · D ∇V + correction · H ∇V + gradient · H ∇D."""

    error: float
    correction: float
    gradient: float


class ExpectedUpdate(NamedTuple):
    """The means of Δw and Δθ over the behaviour policy's long run, at fixed w and θ."""

    w: Float[np.ndarray, " p"]
    theta: Float[np.ndarray, " k"]


def true_values(mdp: FiniteMDP) -> Float[np.ndarray, "S"]:
    """v_pi, the solution of v = r_pi + P_gamma v."""
    return _discounted_sum(mdp, mdp.expected_rewards, 1.0)


def td_errors(mdp: FiniteMDP, values: Float[np.ndarray, "S"], lam: float) -> Float[np.ndarray, "S"]:
    """delta^lam_pi: the expected TD(lam) error of each state under the target policy."""
    one_step = mdp.expected_rewards + mdp.discounted_transitions @ values - values
    return _discounted_sum(mdp, one_step, lam)


def td_error_gradients(
    mdp: FiniteMDP, gradients: Float[np.ndarray, "S p"], lam: float
) -> Float[np.ndarray, "S p"]:
    """The gradient by w of `td_errors`; the reward has none."""
    return _discounted_sum(mdp, mdp.discounted_transitions @ gradients - gradients, lam)


def bellman_error(mdp: FiniteMDP, values: Float[np.ndarray, "S"], lam: float) -> float:
    """BE(w, lam) = sum_s d(s) delta^lam_pi(s)^2."""
    return float(mdp.weighting @ td_errors(mdp, values, lam) ** 2)


def best_theta(
    mdp: FiniteMDP,
    values: Float[np.ndarray, "S"],
    lam: float,
    h_features: Float[np.ndarray, "S k"],
) -> Float[np.ndarray, " k"]:
    """The theta of the linear h that attains PBE(w, lam); the smallest where there are many."""
    root = np.sqrt(mdp.weighting)
    weighted_errors = root * td_errors(mdp, values, lam)
    return np.linalg.lstsq(root[:, None] * h_features, weighted_errors, rcond=None)[0]


def settled_theta(
    mdp: FiniteMDP,
    values: Float[np.ndarray, "S"],
    lam: float,
    h_features: Float[np.ndarray, "S k"],
    beta: float,
    regularize: Regularize,
) -> Float[np.ndarray, " k"]:
    """The theta at which the mean update of theta is 0 with these values: best_theta, shrunk."""
    if regularize == "output":
        return best_theta(mdp, values, lam, h_features) / (1 + beta)
    weighted = h_features.T * mdp.weighting
    matrix = weighted @ h_features + beta * np.eye(h_features.shape[1])
    return np.linalg.lstsq(matrix, weighted @ td_errors(mdp, values, lam), rcond=None)[0]


def projected_bellman_error(
    mdp: FiniteMDP,
    values: Float[np.ndarray, "S"],
    lam: float,
    h_features: Float[np.ndarray, "S k"],
) -> float:
    """PBE(w, lam) = max_h sum_s d(s) (2 delta^lam_pi(s) h(s) - h(s)^2), h = h_features @ theta.

    Equal to delta^T D X (X^T D X)^+ X^T D delta. With tabular features it is BE.
    """
    # The best h is the projection of the errors, which makes the maximum its squared norm.
    h_values = h_features @ best_theta(mdp, values, lam, h_features)
    return float(mdp.weighting @ h_values**2)


def value_error(mdp: FiniteMDP, values: Float[np.ndarray, "S"]) -> float:
    """VE(w) = sum_s d(s) (v(s; w) - v_pi(s))^2."""
    return float(mdp.weighting @ (values - true_values(mdp)) ** 2)


def td_system(
    mdp: FiniteMDP, features: Float[np.ndarray, "S p"], lam: float
) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, " p"]]:
    """A_lam and b_lam: for linear values the expected TD(lam) update is b_lam - A_lam w."""
    weighted = features.T * mdp.weighting
    matrix = -weighted @ td_error_gradients(mdp, features, lam)
    vector = weighted @ _discounted_sum(mdp, mdp.expected_rewards, lam)
    return matrix, vector


def td_fixed_point(
    mdp: FiniteMDP, features: Float[np.ndarray, "S p"], lam: float
) -> Float[np.ndarray, " p"]:
    """A_lam^-1 b_lam; the smallest of the fixed points where the features leave a choice."""
    matrix, vector = td_system(mdp, features, lam)
    # Zero is judged by the size of the features: A_lam may be singular through and through.
    scale = float(mdp.weighting @ np.sum(features**2, axis=1))
    w = scipy.linalg.pinv(matrix, atol=1e-12 * scale, rtol=0.0) @ vector
    residual = float(np.max(np.abs(matrix @ w - vector)))
    if residual > 1e-8 * max(1.0, float(np.max(np.abs(vector)))):
        raise ValueError(
            f"TD({lam}) has no fixed point with these features: A_lam is singular and b_lam lies "
            f"outside its range (residual {residual:.2g}); try another lam or other features"
        )
    return w


@functools.cache
def terms(rule: Rule) -> Terms:
    """What a rule's Δw is made of, read off its own forward formula.

    TD(λ) is (1, 0, 0), GTD2(λ) is (0, 0, -1), TDC(λ) and TDRC(λ) are (1, -1, -1). An update of this
    form is linear in D and ∇D, which alone are sampled: its mean is the update of their means.
    """
    units = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    others = np.random.default_rng(0).normal(size=(8, 4))
    d, h, grad_v, grad_d = np.concatenate([units, others]).T
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        h_tm1 = jnp.asarray(h) if rule.has_auxiliary else None
        updates = jax.vmap(rule.forward)(
            jnp.asarray(d), h_tm1, jnp.asarray(grad_v), jnp.asarray(grad_d)
        )
    found = Terms(*(float(update) for update in updates[:3]))
    if not np.allclose(np.asarray(updates), np.dot(found, [d * grad_v, h * grad_v, h * grad_d])):
        raise ValueError(
            f"the forward update of rule {rule.name!r} is no sum of D ∇V, H ∇V and H ∇D; only such "
            "a rule has a mean update in closed form"
        )
    return found


def expected_update(
    mdp: FiniteMDP,
    rule: Rule,
    *,
    values: Float[np.ndarray, "S"],
    gradients: Float[np.ndarray, "S p"],
    theta: Float[np.ndarray, " k"],
    h_features: Float[np.ndarray, "S k"],
    lam: float,
    beta: float | None,
    regularize: Regularize,
) -> ExpectedUpdate:
    """The long-run mean of a rule's updates, the same for its forward and its backward view.

    With H = h_features @ theta, and V and delta as above, all by state:

        w:      the rule's own combination of E_d[delta grad V], E_d[H grad V], E_d[H grad delta]
        theta:  E_d[(delta - H) grad H], less beta theta for "parameters" and "head" (all of a
                linear h is its head), or beta E_d[H grad H] for "output"; 0 for a rule without h

    Args:
        mdp: the process.
        rule: one whose update is made of `Terms`.
        values: v(s; w) of all states.
        gradients: its gradient by w.
        theta: the weights of the linear h.
        h_features: what h is linear in.
        lam: the trace parameter.
        beta: regularisation of h; the rule's own default where None.
        regularize: what beta acts on.
    """
    shrinkage = np.asarray(rule.resolve_beta(beta, regularize), np.float64)
    error, correction, gradient = terms(rule)
    weighting, errors = mdp.weighting, td_errors(mdp, values, lam)
    h_values = h_features @ theta
    delta_w = gradients.T @ (weighting * (error * errors + correction * h_values))
    delta_w += gradient * td_error_gradients(mdp, gradients, lam).T @ (weighting * h_values)
    if not rule.has_auxiliary:
        return ExpectedUpdate(delta_w, np.zeros_like(theta))
    shrunk = h_features.T @ (weighting * h_values) if regularize == "output" else theta
    delta_theta = h_features.T @ (weighting * (errors - h_values)) - shrinkage * shrunk
    return ExpectedUpdate(delta_w, delta_theta)


def joint_system(
    mdp: FiniteMDP,
    rule: Rule,
    *,
    gradients: Float[np.ndarray, "S p"],
    h_features: Float[np.ndarray, "S k"],
    lam: float,
    beta: float,
    regularize: Regularize,
    h_step_ratio: float,
) -> Float[np.ndarray, "n n"]:
    """M of the mean motion M x of small deviations x of (w, theta) from a solution.

    In orthonormal coordinates of the directions that change v or h; of w alone for a rule without
    h. The arguments are those of `expected_update`.
    """
    error, correction, gradient = terms(rule)
    v, h = (rows @ scipy.linalg.orth(rows.T) for rows in (gradients, h_features))
    v_delta = td_error_gradients(mdp, v, lam)
    weighting = mdp.weighting[:, None]
    w_by_w = error * v.T @ (weighting * v_delta)
    if not rule.has_auxiliary:
        return w_by_w
    covariance = h.T @ (weighting * h)
    shrunk = covariance if regularize == "output" else np.eye(len(covariance))
    w_by_theta = (correction * v + gradient * v_delta).T @ (weighting * h)
    theta_by_w = h.T @ (weighting * v_delta)
    theta_by_theta = -covariance - beta * shrunk
    return np.block(
        [[w_by_w, w_by_theta], [h_step_ratio * theta_by_w, h_step_ratio * theta_by_theta]]
    )


def _discounted_sum(
    mdp: FiniteMDP, rows: Float[np.ndarray, "S *rest"], lam: float
) -> Float[np.ndarray, "S *rest"]:
    """(I - lam P_gamma)^-1 rows: what `rows` adds up to along the target policy's way."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam is {lam}; a number in [0, 1] is accepted")
    return np.linalg.solve(np.eye(mdp.num_states) - lam * mdp.discounted_transitions, rows)
