"""Objectives, fixed points and expected updates, each against another way to the same number."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eligrad.problems import LinearProblem, baird, random_mdp
from tests.problems import cases

LAMBDAS = [0.0, 0.4, 0.9, 1.0]
all_problems = pytest.mark.parametrize("problem", cases.ALL.values(), ids=cases.ALL)
linear_problems = pytest.mark.parametrize("problem", cases.LINEAR.values(), ids=cases.LINEAR)
lambdas = pytest.mark.parametrize("lam", LAMBDAS)


def lambda_operator(mdp, values, lam):
    """T^lam v as the mixture of n-step operators, (1 - lam) sum lam^(n-1) T^n v, term by term."""
    kernel = np.zeros((mdp.num_states, mdp.num_states))
    rewards = np.zeros(mdp.num_states)
    for s, a in np.ndindex(mdp.num_states, mdp.num_actions):
        for n in range(mdp.num_successors):
            probability = mdp.target[s, a] * mdp.transitions[s, a, n]
            rewards[s] += probability * mdp.rewards[s, a, n]
            if n < mdp.num_states:
                kernel[s, n] += probability * mdp.discounts[s, a, n]
    mixture, n_step, weight = np.zeros_like(values), values, 1.0 - lam
    for _ in range(4000):
        n_step = rewards + kernel @ n_step
        mixture = mixture + weight * n_step
        weight *= lam
    # Whatever weight is left (all of it when lam = 1) is on the longest return.
    return mixture + (1.0 if lam == 1 else weight / (1 - lam)) * n_step * (lam > 0)


def numerical_gradient(function, w, step=1e-5):
    """Central differences."""
    shifts = step * np.eye(len(w))
    return np.array([(function(w + e) - function(w - e)) / (2 * step) for e in shifts])


@all_problems
@lambdas
def test_bellman_error_is_the_distance_to_the_lambda_operator(problem, lam):
    w, _ = cases.random_parameters(problem)
    values = problem.values(w)
    errors = lambda_operator(problem.mdp, values, lam) - values
    np.testing.assert_allclose(problem.td_errors(w, lam), errors, rtol=1e-9, atol=1e-9)
    assert problem.bellman_error(w, lam) == pytest.approx(problem.mdp.weighting @ errors**2)


@all_problems
@lambdas
def test_projected_error_is_the_norm_of_an_explicit_projection(problem, lam):
    w, _ = cases.random_parameters(problem)
    rng = np.random.default_rng(1)
    values, weighting = problem.values(w), np.diag(problem.mdp.weighting)
    features = rng.normal(size=(problem.mdp.num_states, 2))
    project = features @ np.linalg.inv(features.T @ weighting @ features) @ features.T @ weighting
    projected = project @ (lambda_operator(problem.mdp, values, lam) - values)
    assert problem.projected_bellman_error(w, lam, features) == pytest.approx(
        projected @ weighting @ projected, rel=1e-8
    )


@all_problems
@lambdas
def test_tabular_limit_and_order_of_the_objectives(problem, lam):
    w, _ = cases.random_parameters(problem)
    error = problem.bellman_error(w, lam)
    tabular = np.eye(problem.mdp.num_states)
    assert problem.projected_bellman_error(w, lam, tabular) == pytest.approx(error, rel=1e-10)
    assert problem.projected_bellman_error(w, lam) <= error * (1 + 1e-10)
    # An h that can only see two states measures the error of these two.
    seen = problem.mdp.weighting[:2] @ problem.td_errors(w, lam)[:2] ** 2
    assert problem.projected_bellman_error(w, lam, tabular[:, :2]) == pytest.approx(seen)


@all_problems
def test_projected_error_is_the_maximum_over_h(problem):
    w, theta = cases.random_parameters(problem)
    weighting, errors = problem.mdp.weighting, problem.td_errors(w, 0.5)

    def objective(theta):
        h = problem.observations @ theta
        return weighting @ (2 * errors * h - h**2)

    best, maximum = problem.best_theta(w, 0.5), problem.projected_bellman_error(w, 0.5)
    assert objective(best) == pytest.approx(maximum, rel=1e-10)
    for scale in (1e-3, 0.1, 1.0):
        assert objective(best + scale * theta) < maximum
        assert objective(best - scale * theta) < maximum


@linear_problems
@lambdas
def test_fixed_point_zeroes_update_and_projected_error(problem, lam):
    w = problem.td_fixed_point(lam)
    _, theta = cases.random_parameters(problem)
    scale = np.max(np.abs(problem.expected_update("td", w + 1.0, theta, lam).w))
    np.testing.assert_allclose(
        problem.expected_update("td", w, theta, lam).w / scale, 0, atol=1e-10
    )
    assert problem.projected_bellman_error(w, lam) < 1e-18
    assert problem.projected_bellman_error(w + 1.0, lam) > 1e-6
    for rule in ("gtd2", "tdc", "tdrc"):
        update = problem.expected_update(rule, w, np.zeros_like(theta), lam)
        np.testing.assert_allclose(np.concatenate(update) / scale, 0, atol=1e-10)


@linear_problems
def test_fixed_point_at_lambda_one_is_the_projection_of_the_true_values(problem):
    root = np.sqrt(problem.mdp.weighting)
    best = np.linalg.lstsq(root[:, None] * problem.features, root * problem.true_values, rcond=None)
    np.testing.assert_allclose(problem.td_fixed_point(1.0), best[0], rtol=1e-8, atol=1e-10)


def test_fixed_points_differ_where_features_cannot_tell_all():
    problem = random_mdp()
    mdp = problem.mdp
    on_policy = dataclasses.replace(problem, mdp=dataclasses.replace(mdp, target=mdp.behaviour))
    for each in (problem, on_policy):
        errors = [each.value_error(each.td_fixed_point(lam)) for lam in (0.0, 1.0)]
        assert errors[1] < errors[0] - 0.01


def test_no_fixed_point_is_said_so():
    """Baird's star with one feature, 1 outside and x inside, such that A_0 = 0 and b_0 is not."""
    star = baird().mdp
    paid = dataclasses.replace(star, rewards=np.ones_like(star.rewards))
    inside = np.roots([1 - 0.99, -6 * 0.99, 6]).min()
    feature = np.append(np.ones(6), inside)[:, None]
    with pytest.raises(ValueError, match="no fixed point"):
        LinearProblem("singular", paid, feature, np.zeros(1)).td_fixed_point(0.0)
    nearby = LinearProblem("regular", paid, feature + np.eye(7)[:, 6:] * 1e-3, np.zeros(1))
    assert np.abs(nearby.td_fixed_point(0.0)) > 100


@all_problems
@lambdas
def test_gtd2_with_the_best_h_descends_the_projected_error(problem, lam):
    w, _ = cases.random_parameters(problem)
    theta = problem.best_theta(w, lam)
    update = problem.expected_update("gtd2", w, theta, lam)
    descent = -0.5 * numerical_gradient(lambda w: problem.projected_bellman_error(w, lam), w)
    scale = np.max(np.abs(descent))
    np.testing.assert_allclose(update.w / scale, descent / scale, atol=1e-6)
    np.testing.assert_allclose(update.theta, 0, atol=1e-9 * max(1, np.max(np.abs(theta))))


@linear_problems
@lambdas
def test_rules_differ_as_their_table_says(problem, lam):
    w, theta = cases.random_parameters(problem)
    td, gtd2, tdc = (problem.expected_update(r, w, theta, lam) for r in ("td", "gtd2", "tdc"))
    tdrc, by_head, by_output = (
        problem.expected_update("tdrc", w, theta, lam, 0.3, regularize=regularize)
        for regularize in ("parameters", "head", "output")
    )
    correction = problem.features.T @ (problem.mdp.weighting * (problem.features @ theta))
    np.testing.assert_allclose(tdc.w, gtd2.w + td.w - correction, atol=1e-12)
    np.testing.assert_allclose(tdrc.w, tdc.w)
    np.testing.assert_allclose(tdc.theta, gtd2.theta)
    np.testing.assert_allclose(tdrc.theta, tdc.theta - 0.3 * theta, atol=1e-12)
    np.testing.assert_array_equal(by_head.theta, tdrc.theta)
    np.testing.assert_allclose(by_output.theta, tdc.theta - 0.3 * correction, atol=1e-12)
    np.testing.assert_array_equal(by_output.w, tdrc.w)
    np.testing.assert_array_equal(td.theta, np.zeros_like(theta))
    # With h in the same features, TDC and GTD2 agree once h has settled.
    best = problem.best_theta(w, lam)
    settled = [problem.expected_update(rule, w, best, lam).w for rule in ("gtd2", "tdc")]
    np.testing.assert_allclose(*settled, atol=1e-9 * max(1, np.max(np.abs(settled))))


@linear_problems
@lambdas
def test_td_system_is_the_expected_update(problem, lam):
    w, theta = cases.random_parameters(problem)
    matrix, vector = problem.td_system(lam)
    update = problem.expected_update("td", w, theta, lam)
    np.testing.assert_allclose(vector - matrix @ w, update.w, rtol=1e-10, atol=1e-10)


@given(seed=st.integers(0, 10_000), lam=st.floats(0, 1))
def test_true_values_solve_everything(seed, lam):
    """v_pi has no error for any lam, whatever the problem."""
    problem = cases.anything_goes(seed)
    tabular = LinearProblem("tabular", problem.mdp, np.eye(6), np.zeros(6))
    assert tabular.bellman_error(problem.true_values, lam) < 1e-20
    assert tabular.value_error(problem.true_values) < 1e-20
    np.testing.assert_allclose(
        tabular.td_fixed_point(lam), problem.true_values, rtol=1e-6, atol=1e-8
    )


def test_arguments_are_refused_by_name():
    problem = random_mdp()
    w, theta = cases.random_parameters(problem)
    with pytest.raises(ValueError, match=r"lam is 1.5; a number in \[0, 1\]"):
        problem.bellman_error(w, 1.5)
    with pytest.raises(ValueError, match=r"w has shape \(4,\); \(5,\) is accepted"):
        problem.values(w[:4])
    with pytest.raises(ValueError, match=r"theta has shape \(4,\); \(5,\) is accepted"):
        problem.expected_update("tdc", w, theta[:4], 0.5)
    with pytest.raises(ValueError, match=r"h_features has shape \(3, 3\); \(10, k\)"):
        problem.projected_bellman_error(w, 0.5, np.eye(3))
    with pytest.raises(ValueError, match=r"rule is 'tdcr'; .*did you mean 'td(r)?c'\?"):
        problem.expected_update("tdcr", w, theta, 0.5)
    with pytest.raises(ValueError, match=r"beta is -1\.0"):
        problem.expected_update("tdrc", w, theta, 0.5, -1.0)
    with pytest.raises(ValueError, match=r"beta is 0\.3; tdc does not regularise h"):
        problem.expected_update("tdc", w, theta, 0.5, 0.3)
