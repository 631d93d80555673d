"""The exact answers of a finite problem, by linear algebra in float64.

With D = diag(d), d the behaviour policy's long-run distribution, and with P_gamma and r_pi under
the *target* policy (so that importance ratios are already averaged out):

    delta^lam_pi = (I - lam P_gamma)^-1 (r_pi + P_gamma v - v)    = E_b[D_t | S_t = s]
    D_t          = rho_t (delta_t + gamma_{t+1} lam D_{t+1})        the sampled error

Everything below follows from these errors and their gradient. `values` and `gradients` are v(s; w)
and its gradient by w, row by row, so that nothing here asks whether v is linear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from eligrad._names import did_you_mean
from eligrad.problems.mdp import FiniteMDP

RULES = ("td", "gtd2", "tdc", "tdrc")


class ExpectedUpdate(NamedTuple):
    """E[Delta w_t] and E[Delta theta_t] over the behaviour policy's long run, at fixed w, theta."""

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


def expected_update(
    mdp: FiniteMDP,
    rule: str,
    *,
    values: Float[np.ndarray, "S"],
    gradients: Float[np.ndarray, "S p"],
    theta: Float[np.ndarray, " k"],
    h_features: Float[np.ndarray, "S k"],
    lam: float,
    beta: float,
) -> ExpectedUpdate:
    """The long-run mean of a rule's updates, the same for its forward and its backward view.

    With H = h_features @ theta, and V and delta as above, all by state:

        td:    w: E_d[delta grad V]                              theta: 0
        gtd2:  w: -E_d[H grad delta]                             theta: E_d[(delta - H) grad H]
        tdc:   w: E_d[delta grad V - H (grad V + grad delta)]    theta: as gtd2
        tdrc:  w: as tdc                                         theta: as gtd2, - beta theta
    """
    if rule not in RULES:
        raise ValueError(unknown("rule", rule, RULES))
    if beta < 0:
        raise ValueError(f"beta is {beta}; a number that is at least 0 is accepted")
    errors = td_errors(mdp, values, lam)
    semi_gradient = gradients.T @ (mdp.weighting * errors)
    if rule == "td":
        return ExpectedUpdate(semi_gradient, np.zeros_like(theta))
    h_values = h_features @ theta
    delta_w = -td_error_gradients(mdp, gradients, lam).T @ (mdp.weighting * h_values)
    if rule != "gtd2":
        delta_w = delta_w + semi_gradient - gradients.T @ (mdp.weighting * h_values)
    delta_theta = h_features.T @ (mdp.weighting * (errors - h_values))
    if rule == "tdrc":
        delta_theta = delta_theta - beta * theta
    return ExpectedUpdate(delta_w, delta_theta)


def unknown(what: str, name: str, accepted: tuple[str, ...]) -> str:
    """What to tell someone who asked for a `what` that does not exist."""
    hint = did_you_mean(name, accepted, all_shown=True)
    return f"there is no {what} {name!r}{hint} (accepted: {', '.join(accepted)})"


def _discounted_sum(
    mdp: FiniteMDP, rows: Float[np.ndarray, "S *rest"], lam: float
) -> Float[np.ndarray, "S *rest"]:
    """(I - lam P_gamma)^-1 rows: what `rows` adds up to along the target policy's way."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam is {lam}; a number in [0, 1] is accepted")
    return np.linalg.solve(np.eye(mdp.num_states) - lam * mdp.discounted_transitions, rows)
