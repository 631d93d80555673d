"""The equations of the paper in plain NumPy loops, written without looking at the library.

Everything is a sum over explicit products, not a recursion, if possible: the
library's recursions are checked against definitions.
"""

from __future__ import annotations

import numpy as np


def one_step_errors(v, r, gamma, v_next):
    return np.array([r[t] + gamma[t] * v_next[t] - v[t] for t in range(len(r))])


def path_weight(t, i, gamma, lam, rho, truncated, values):
    """What the one-step error i steps after t weighs in the TD(λ) error of t."""
    weight = rho[t] if values == "state" else 1.0
    for j in range(t + 1, t + i + 1):
        alive = 0.0 if truncated[j - 1] else gamma[j - 1]
        weight *= lam * alive * rho[j]
    return weight


def lambda_errors(delta, gamma, lam, rho, truncated, values):
    steps = len(delta)
    return np.array(
        [
            sum(
                path_weight(t, i, gamma, lam, rho, truncated, values) * delta[t + i]
                for i in range(steps - t)
            )
            for t in range(steps)
        ]
    )


def lambda_error_gradients(grad_v, grad_v_next, gamma, lam, rho, truncated, values):
    grad_delta = gamma[:, None] * grad_v_next - grad_v
    steps = len(gamma)
    return np.stack(
        [
            sum(
                path_weight(t, i, gamma, lam, rho, truncated, values) * grad_delta[t + i]
                for i in range(steps - t)
            )
            for t in range(steps)
        ]
    )


def shrinkage(regularize, beta, h, grad_h, theta, in_head):
    """What β takes from Δθ: the derivative of half the square of all weights, the head's, or h."""
    if regularize == "parameters":
        return np.array([beta * weight for weight in theta])
    if regularize == "head":
        return np.array([beta * w if head else 0.0 for w, head in zip(theta, in_head, strict=True)])
    return beta * h * grad_h


def forward_updates(rule, case, lam, beta, regularize):
    """Rows of (Δw, Δθ), from flat gradients; β is 0 for a rule that is not regularised."""
    c = case
    delta = one_step_errors(c["v"], c["r"], c["gamma"], c["v_next"])
    path = (lam, c["rho"], c["truncated"], c["values"])
    d = lambda_errors(delta, c["gamma"], *path)
    grad_d = lambda_error_gradients(c["grad_v"], c["grad_v_next"], c["gamma"], *path)
    rows_w, rows_theta = [], []
    for t in range(len(d)):
        h, gv, gd = c["h"][t], c["grad_v"][t], grad_d[t]
        rows_w.append(
            {
                "td": d[t] * gv,
                "gtd2": -h * gd,
                "tdc": d[t] * gv - h * (gv + gd),
                "tdrc": d[t] * gv - h * (gv + gd),
            }[rule]
        )
        gh = c["grad_h"][t]
        loss = shrinkage(regularize, beta, h, gh, c["theta"], c["in_head"])
        rows_theta.append((d[t] - h) * gh - loss)
    return np.stack(rows_w), np.stack(rows_theta)


def backward_updates(rule, case, lam, beta, regularize):
    """Rows of (Δw, Δθ) by eligibility traces, which are zeroed where an episode ends."""
    c = case
    delta = one_step_errors(c["v"], c["r"], c["gamma"], c["v_next"])
    z_w, z_theta, z_h = np.zeros_like(c["grad_v"][0]), np.zeros_like(c["grad_h"][0]), 0.0
    gamma_in = 0.0
    rows_w, rows_theta = [], []
    for t in range(len(delta)):
        h, gv, gh, rho = c["h"][t], c["grad_v"][t], c["grad_h"][t], c["rho"][t]
        if c["values"] == "state":
            z_w = rho * (gamma_in * lam * z_w + gv)
            z_theta = rho * (gamma_in * lam * z_theta + gh)
            z_h = rho * (gamma_in * lam * z_h + h)
        else:
            z_w = gamma_in * lam * rho * z_w + gv
            z_theta = gamma_in * lam * rho * z_theta + gh
            z_h = gamma_in * lam * rho * z_h + h
        grad_delta = c["gamma"][t] * c["grad_v_next"][t] - gv
        rows_w.append(
            {
                "td": delta[t] * z_w,
                "gtd2": -z_h * grad_delta,
                "tdc": delta[t] * z_w - h * gv - z_h * grad_delta,
                "tdrc": delta[t] * z_w - h * gv - z_h * grad_delta,
            }[rule]
        )
        loss = shrinkage(regularize, beta, h, gh, c["theta"], c["in_head"])
        rows_theta.append(delta[t] * z_theta - h * gh - loss)
        gamma_in = c["gamma"][t]
        if c["truncated"][t]:
            z_w, z_theta, z_h = 0.0 * z_w, 0.0 * z_theta, 0.0
    return np.stack(rows_w), np.stack(rows_theta)


def lambda_return(t, v, r, gamma, v_next, lam, ended):
    """The λ-return of step t by its definition as an average of n-step returns."""
    steps = len(r)
    last = next((i for i in range(t, steps) if ended[i]), steps - 1)
    n_step = []
    reward_sum, discount = 0.0, 1.0
    for i in range(t, last + 1):
        reward_sum += discount * r[i]
        discount *= gamma[i]
        n_step.append(reward_sum + discount * v_next[i])
    count = len(n_step)
    weights = [(1 - lam) * lam**n for n in range(count - 1)] + [lam ** (count - 1)]
    return sum(weight * value for weight, value in zip(weights, n_step, strict=True))
