"""The known answers of the classical problems, and the registry that holds them."""

import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp

from eligrad import problems
from tests.problems import cases

pytestmark = pytest.mark.usefixtures("quickest_compilation")

GRADIENT_RULES = ("gtd2", "tdc", "tdrc")


def test_registry_gives_what_it_names():
    assert problems.names() == (
        "random_walk_5",
        "random_walk_19",
        "boyan_chain",
        "baird",
        "spiral",
        "random_mdp",
    )
    for name in problems.names():
        assert problems.get(name).name == name
    assert repr(problems.get("baird")) == (
        "LinearProblem('baird', FiniteMDP(7 states, 2 actions, 0 terminal))"
    )


def test_unknown_problem_names_the_nearest():
    with pytest.raises(ValueError, match=r"problem is 'bairds'; .*did you mean 'baird'"):
        problems.get("bairds")
    with pytest.raises(ValueError, match="problem is 'xyz'; one of random_walk_5, "):
        problems.get("xyz")


def test_the_example_of_the_package_runs(capsys):
    """Taken from the docstring itself, so that it cannot rot."""
    text = problems.__doc__ or ""
    block = re.search(r"few lines:\n\n(.*?)\n\nThe conventions", text, re.DOTALL)
    assert block is not None
    lines = [line.removeprefix("    ") for line in block.group(1).split("\n")]
    scope: dict = {}
    exec("\n".join(lines), scope)
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert float(printed["td"]) > 1e6
    assert float(printed["tdrc"]) < 1.0 < problems.baird().value_error(problems.baird().initial)
    assert scope["values"].shape == (1000,)


@pytest.mark.parametrize("problem", cases.ALL.values(), ids=cases.ALL)
def test_value_fn_agrees_with_exact_values_and_gradients(problem, x64):
    w, _ = cases.random_parameters(problem)
    states = jnp.arange(problem.mdp.num_states)
    value_and_grad = jax.vmap(jax.value_and_grad(problem.value_fn), (None, 0))
    values, gradients = value_and_grad(jnp.asarray(w), problem.observe(states))
    np.testing.assert_allclose(values, problem.values(w), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradients, problem.gradients(w), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("problem", cases.ALL.values(), ids=cases.ALL)
def test_observations_of_terminal_successors_are_zero(problem):
    seen = problem.observe(jnp.arange(problem.mdp.num_successors))
    np.testing.assert_allclose(
        seen[: problem.mdp.num_states], problem.observations, rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(seen[problem.mdp.num_states :], 0.0)
    np.testing.assert_allclose(problem.initial_params(), problem.initial, rtol=1e-6)
    # Single precision is the default, from end to end.
    value = problem.value_fn(problem.initial_params(), seen[0])
    assert value.dtype == seen.dtype == jnp.float32
    assert float(value) == pytest.approx(problem.values(problem.initial)[0], rel=1e-6)


@pytest.mark.parametrize("num_states", [1, 5, 19])
def test_random_walk_values(num_states):
    walk = problems.random_walk(num_states)
    expected = 2 * np.arange(1, num_states + 1) / (num_states + 1) - 1
    np.testing.assert_allclose(walk.true_values, expected, atol=1e-12)
    np.testing.assert_allclose(walk.td_fixed_point(0.3), expected, atol=1e-10)
    assert walk.value_error(walk.initial) == pytest.approx(walk.mdp.weighting @ expected**2)


def test_random_walk_needs_a_middle():
    with pytest.raises(ValueError, match="num_states is 4; an odd number"):
        problems.random_walk(4)


def test_boyan_values_are_linear_in_the_features():
    chain = problems.boyan_chain()
    np.testing.assert_allclose(chain.true_values, -2.0 * np.arange(12, -1, -1), atol=1e-12)
    for lam in (0.0, 0.5, 1.0):
        np.testing.assert_allclose(chain.td_fixed_point(lam), [-24, -16, -8, 0], atol=1e-10)
    np.testing.assert_array_equal(chain.features[[0, 1, 6, 11]], BOYAN_FEATURES)
    np.testing.assert_allclose(chain.features.sum(axis=1), 1.0)


BOYAN_FEATURES = [[1, 0, 0, 0], [0.75, 0.25, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.25, 0.75]]


@pytest.mark.parametrize("boyan_state", [12, 5, 1])
def test_boyan_values_by_telling_the_story(boyan_state):
    """Boyan's own numbering, as in the paper, with nothing of the library in the loop."""
    rng, returns = random.Random(boyan_state), []
    for _ in range(4000):
        state, total = boyan_state, 0
        while state > 0:
            total += -2 if state == 1 else -3
            state -= 1 if state == 1 else rng.choice((1, 2))
        returns.append(total)
    standard_error = np.std(returns) / np.sqrt(len(returns))
    exact = problems.boyan_chain().true_values[12 - boyan_state]
    assert abs(np.mean(returns) - exact) <= 4 * standard_error


def dynamics(problem, rule, lam):
    """The matrix and the offset of the expected motion of (w, theta) under a rule."""
    p, k = len(problem.initial), problem.observations.shape[1]

    def motion(both):
        return np.concatenate(problem.expected_update(rule, both[:p], both[p:], lam))

    offset = motion(np.zeros(p + k))
    return np.stack([motion(unit) - offset for unit in np.eye(p + k)], axis=1), offset


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_baird_td_diverges_and_gradient_td_does_not(lam):
    problem = problems.get("baird")
    assert isinstance(problem, problems.LinearProblem)
    assert np.linalg.eigvals(problem.td_system(lam)[0]).real.min() < -0.1
    start = np.concatenate([problem.initial, np.zeros(8)])
    first = problem.value_error(problem.initial)

    def later(rule, time):
        matrix, offset = dynamics(problem, rule, lam)
        np.testing.assert_array_equal(offset, 0.0)
        return problem.value_error((scipy.linalg.expm(matrix * time) @ start)[:8])

    assert later("td", 100.0) > 1e6 * first
    for rule in GRADIENT_RULES:
        growth = np.linalg.eigvals(dynamics(problem, rule, lam)[0]).real.max()
        assert growth < 1e-10  # 0: eight weights for seven states leave one direction at rest
        assert later(rule, 1e6) < 1e-6 * first


def test_baird_system_from_the_definition():
    """A_0 = E_b[rho x (x - gamma x')^T], transition by transition."""
    problem = problems.get("baird")
    assert isinstance(problem, problems.LinearProblem)
    matrix = np.zeros((8, 8))
    for state in range(7):
        x = problem.features[state]
        # Behaviour is solid once in seven, with a ratio of seven; dashed steps have ratio zero.
        matrix += 1 / 7 * 1 / 7 * 7 * np.outer(x, x - 0.99 * problem.features[6])
    np.testing.assert_allclose(problem.td_system(0.0)[0], matrix, atol=1e-14)
    np.testing.assert_array_equal(problem.values(problem.initial), [3.0] * 6 + [12.0])


def test_stable_problems_are_stable():
    """Where TD is on-policy and linear, all rules find the fixed point."""
    for name in ("random_walk_5", "boyan_chain"):
        problem = cases.LINEAR[name]
        for rule in ("td", *GRADIENT_RULES):
            matrix, offset = dynamics(problem, rule, 0.5)
            p = len(problem.initial)
            moving = slice(0, p if rule == "td" else None)
            matrix, offset = matrix[moving, moving], offset[moving]
            assert np.linalg.eigvals(matrix).real.max() < 0
            rest = np.linalg.solve(matrix, -offset)[:p]
            np.testing.assert_allclose(rest, problem.td_fixed_point(0.5), atol=1e-8)


def spiral_path(velocity, time, size=1):
    path = solve_ivp(lambda _, y: velocity(y), (0, time), np.zeros(size), rtol=1e-8)
    assert path.success
    return path.y.T


def test_spiral_solves_its_defining_equation():
    """dV/dw = (Q + 0.05 I) V, with V(0) = (100, -70, -30) as in the paper."""
    problem = problems.get("spiral")
    q = np.array([[1, 0.5, 1.5], [1.5, 1, 0.5], [0.5, 1.5, 1]])
    np.testing.assert_allclose(problem.values(np.zeros(1)), [100, -70, -30])
    for w in (-3.0, 0.0, 1.7, 5.0):
        values = problem.values(np.array([w]))
        np.testing.assert_allclose(
            problem.gradients(np.array([w]))[:, 0], (q + 0.05 * np.eye(3)) @ values, rtol=1e-9
        )
        solution = scipy.linalg.expm((q + 0.05 * np.eye(3)) * w) @ [100, -70, -30]
        np.testing.assert_allclose(values, solution, rtol=1e-6, atol=1e-6 * np.abs(values).max())


def test_spiral_td_diverges_on_policy():
    problem = problems.get("spiral")
    np.testing.assert_array_equal(problem.true_values, 0.0)
    np.testing.assert_array_equal(problem.mdp.behaviour, problem.mdp.target)
    theta = np.zeros(3)
    path = spiral_path(lambda w: problem.expected_update("td", w, theta, 0.0).w, time=6.3e-3)
    norms = np.array([np.linalg.norm(problem.values(w)) for w in path])
    assert np.all(np.diff(norms) > 0)
    # dw/dt = c exp(2 w / 20) has the solution exp(w / 20) = 1 / sqrt(1 - c t / 10): infinite soon.
    first = problem.expected_update("td", path[0], theta, 0.0).w[0]
    assert norms[-1] / norms[0] == pytest.approx((1 - first * 6.3e-3 / 10) ** -0.5, rel=1e-4)
    assert norms[-1] > 10 * norms[0]


def test_spiral_descent_does_not_diverge():
    problem = problems.get("spiral")
    tabular = np.eye(3)

    def descent(w):
        best = problem.best_theta(w, 0.0, tabular)
        return problem.expected_update("gtd2", w, best, 0.0, h_features=tabular).w

    path = spiral_path(descent, time=1.0)
    errors = np.array([problem.bellman_error(w, 0.0) for w in path])
    norms = np.array([np.linalg.norm(problem.values(w)) for w in path])
    assert np.all(np.diff(errors) < 0)
    assert norms[-1] < 0.5 * norms[0]


def test_spiral_constants_often_printed_let_td_come_to_rest():
    """Why the second axis is not (23.094, -98.15, 75.056)."""
    problem = problems.get("spiral")
    operator = 0.9 * problem.mdp.transitions[:, 0] - np.eye(3)
    a, b, rate = np.array([100, -70, -30]), np.array([23.094, -98.15, 75.056]), 0.866

    def velocity(w):
        axes = np.exp(0.05 * w) * np.cos(rate * w), np.exp(0.05 * w) * np.sin(rate * w)
        values = a * axes[0] - b * axes[1]
        slope = 0.05 * values - rate * (a * axes[1] + b * axes[0])
        return np.array([slope @ operator @ values / 3])

    (w,) = spiral_path(lambda y: velocity(y[0]), time=1.0)[-1]
    assert 0 < w < 2 * np.pi / rate
    assert abs(velocity(w)[0]) < 1.0 < velocity(0.0)[0]
