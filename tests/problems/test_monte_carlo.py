"""Expected updates in closed form against long sampled streams, in both views.

The estimates are made in plain NumPy from the definitions of the two views: the forward one goes
back through the stream, the backward one forth with traces. Neither shares code with the library.
"""

import numpy as np
import pytest

from tests.problems import cases

pytestmark = pytest.mark.usefixtures("quickest_compilation")

# Ratios multiply along a trace: lam is such that the traces' variance is finite off-policy.
CASES = {
    "random_walk_5": 0.8,
    "random_walk_19": 0.6,
    "boyan_chain": 0.9,
    "baird": 0.2,
    "spiral": 0.5,
    "random_mdp": 0.5,
    "skewed_walk": 0.8,
    "anything_goes": 0.7,
}
NUM_STEPS, EDGE = cases.NUM_STEPS, 60
BETA = 0.7


class Tables:
    """v, h and their gradients by state; nothing beyond the end of an episode."""

    def __init__(self, problem, w, theta):
        terminals = problem.mdp.num_successors - problem.mdp.num_states
        self.v = np.pad(problem.values(w), (0, terminals))
        self.dv = np.pad(problem.gradients(w), ((0, terminals), (0, 0)))
        self.dh = np.pad(problem.observations, ((0, terminals), (0, 0)))
        self.h = self.dh @ theta

    def one_step(self, chains, t):
        """delta_t and its gradient, for all chains."""
        here, there, discount = chains.state[:, t], chains.next_state[:, t], chains.discount[:, t]
        delta = chains.reward[:, t] + discount * self.v[there] - self.v[here]
        return delta, discount[:, None] * self.dv[there] - self.dv[here]


def forward_view(chains, tables, lam):
    """Mean updates of each chain by D_t; the last steps only feed the recursion."""
    sums = {"td": 0.0, "gtd2": 0.0, "tdc": 0.0, "theta": 0.0, "output": 0.0}
    error = np.zeros(cases.NUM_CHAINS)
    slope = np.zeros((cases.NUM_CHAINS, tables.dv.shape[1]))
    for t in reversed(range(EDGE, NUM_STEPS)):
        delta, ddelta = tables.one_step(chains, t)
        rho, decay = chains.ratio[:, t], chains.discount[:, t] * lam
        error = rho * (delta + decay * error)
        slope = rho[:, None] * (ddelta + decay[:, None] * slope)
        if t >= NUM_STEPS - EDGE:
            continue
        here = chains.state[:, t]
        h, dv, dh = tables.h[here][:, None], tables.dv[here], tables.dh[here]
        sums["td"] += error[:, None] * dv
        sums["gtd2"] += -h * slope
        sums["tdc"] += error[:, None] * dv - h * (dv + slope)
        sums["theta"] += (error[:, None] - h) * dh
        sums["output"] += (error[:, None] - (1 + BETA) * h) * dh
    return {name: total / (NUM_STEPS - 2 * EDGE) for name, total in sums.items()}


def backward_view(chains, tables, lam):
    """Mean updates of each chain by traces; the first steps only fill the traces."""
    sums = {"td": 0.0, "gtd2": 0.0, "tdc": 0.0, "theta": 0.0, "output": 0.0}
    z_h = np.zeros((cases.NUM_CHAINS, 1))
    z_w = np.zeros((cases.NUM_CHAINS, tables.dv.shape[1]))
    z_theta = np.zeros((cases.NUM_CHAINS, tables.dh.shape[1]))
    decay = np.zeros((cases.NUM_CHAINS, 1))
    for t in range(NUM_STEPS - EDGE):
        delta, ddelta = tables.one_step(chains, t)
        delta, rho, here = delta[:, None], chains.ratio[:, t][:, None], chains.state[:, t]
        h, dv, dh = tables.h[here][:, None], tables.dv[here], tables.dh[here]
        z_h = rho * (decay * z_h + h)
        z_w = rho * (decay * z_w + dv)
        z_theta = rho * (decay * z_theta + dh)
        decay = lam * chains.discount[:, t][:, None]
        if t < EDGE:
            continue
        sums["td"] += delta * z_w
        sums["gtd2"] += -z_h * ddelta
        sums["tdc"] += delta * z_w - h * dv - z_h * ddelta
        sums["theta"] += delta * z_theta - h * dh
        sums["output"] += delta * z_theta - (1 + BETA) * h * dh
    return {name: total / (NUM_STEPS - 2 * EDGE) for name, total in sums.items()}


def closed_form(problem, w, theta, lam):
    """The library's answers, under the names of the estimates."""
    by_rule = {rule: problem.expected_update(rule, w, theta, lam) for rule in ("td", "gtd2", "tdc")}
    shrunk, output = (
        problem.expected_update("tdrc", w, theta, lam, BETA, regularize=regularize)
        for regularize in ("parameters", "output")
    )
    np.testing.assert_allclose(shrunk.w, by_rule["tdc"].w)
    np.testing.assert_allclose(output.w, by_rule["tdc"].w)
    np.testing.assert_allclose(by_rule["gtd2"].theta, by_rule["tdc"].theta)
    np.testing.assert_allclose(shrunk.theta + BETA * theta, by_rule["tdc"].theta)
    return {rule: by_rule[rule].w for rule in ("td", "gtd2", "tdc")} | {
        "theta": by_rule["tdc"].theta,
        "output": output.theta,
    }


def deviation(estimates, expected):
    """How many standard errors each component is off."""
    scores = {}
    for name, by_chain in estimates.items():
        standard_error = by_chain.std(axis=0, ddof=1) / np.sqrt(cases.NUM_CHAINS)
        scores[name] = np.abs(by_chain.mean(axis=0) - expected[name]) / (standard_error + 1e-12)
    return scores


@pytest.mark.parametrize("view", [forward_view, backward_view])
@pytest.mark.parametrize("name", CASES)
def test_closed_form_is_the_mean_of_samples(name, view):
    problem, lam = cases.ALL[name], CASES[name]
    w, theta = cases.random_parameters(problem, seed=2)
    estimates = view(cases.stationary_chains(name), Tables(problem, w, theta), lam)
    for rule, scores in deviation(estimates, closed_form(problem, w, theta, lam)).items():
        assert np.max(scores) < 4.5, (rule, scores)
    # The estimates are sharp enough to tell. Each refutes an answer that is 20 % too small; and
    # together they refute another lam (alone they need not: GTD2's w on Baird hardly feels lam).
    smaller = {rule: 0.8 * mean for rule, mean in closed_form(problem, w, theta, lam).items()}
    for rule, scores in deviation(estimates, smaller).items():
        assert np.max(scores) > 6, (rule, scores)
    other = deviation(estimates, closed_form(problem, w, theta, lam - 0.2))
    assert max(np.max(scores) for scores in other.values()) > 6, other
