"""Certificates against known numbers, other algebra, and runs on both sides of borders."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp

from eligrad import problems, rules
from tests.problems import cases

pytestmark = pytest.mark.usefixtures("quickest_compilation")

LAMBDAS = (0.0, 0.5, 0.9)
REGULARIZERS = ("parameters", "head", "output")


@pytest.mark.parametrize(
    ("name", "rule", "regularize", "slowest"),
    [
        ("baird", "tdrc", "parameters", (-0.0009, -0.0018, -0.0119)),
        ("baird", "tdrc", "output", (-0.0027, -0.0055, -0.0305)),
        ("baird", "td", "parameters", (0.24, 0.18, 0.03)),
        ("boyan_chain", "tdrc", "parameters", (-0.054, -0.094, -0.125)),
        ("boyan_chain", "tdrc", "output", (-0.034, -0.048, -0.122)),
        ("boyan_chain", "tdc", "parameters", (-0.006, -0.018, -0.092)),
    ],
)
def test_slowest_modes_are_the_known_ones(name, rule, regularize, slowest):
    """To the digits in which they were written down."""
    digits = max(len(f"{abs(x)}".partition(".")[2]) for x in slowest)
    for lam, expected in zip(LAMBDAS, slowest, strict=True):
        certificate = problems.stability(problems.get(name), rule, lam, regularize=regularize)
        assert round(certificate.slowest, digits) == expected
        assert certificate.stable == (expected < 0)


def textbook(problem, rule, lam, beta, regularize):
    """The joint matrix as papers print it, in all weights."""
    a = problem.td_system(lam)[0]
    c = sum(
        d * np.outer(x, x) for d, x in zip(problem.mdp.weighting, problem.features, strict=True)
    )
    shrinking = c + beta * (c if regularize == "output" else np.eye(len(c)))
    return {
        "td": -a,
        "gtd2": np.block([[0 * a, a.T], [-a, -shrinking]]),
        "tdc": np.block([[-a, a.T - c], [-a, -shrinking]]),
        "tdrc": np.block([[-a, a.T - c], [-a, -shrinking]]),
    }[rule]


def motion(problem, rule, lam, beta, regularize, ratio):
    """The matrix of the mean updates of all weights, one column for each: no algebra of its own."""
    p, k = len(problem.initial), problem.observations.shape[1]

    def update(both):
        mean = problem.expected_update(rule, both[:p], both[p:], lam, beta, regularize=regularize)
        return np.concatenate([mean.w, ratio * mean.theta])

    rest = update(np.zeros(p + k))
    return np.stack([update(unit) - rest for unit in np.eye(p + k)], axis=1)


def in_order(eigenvalues):
    return np.sort_complex(np.round(eigenvalues, 9))


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("rule", ["td", "gtd2", "tdc", "tdrc"])
@pytest.mark.parametrize("problem", cases.LINEAR.values(), ids=cases.LINEAR)
def test_eigenvalues_are_those_of_the_mean_updates(problem, rule, lam):
    regularized = rule == "tdrc"
    beta = 0.3 if regularized else 0.0
    for regularize in REGULARIZERS if regularized else REGULARIZERS[:1]:
        options = {"beta": beta, "regularize": regularize}
        for ratio in (1.0, 0.2):
            ours = problems.stability(problem, rule, lam, h_step_ratio=ratio, **options).eigenvalues
            whole = motion(problem, rule, lam, beta, regularize, ratio)
            if rule == "td":
                whole = whole[: len(problem.initial), : len(problem.initial)]
            if ratio == 1.0:
                np.testing.assert_allclose(
                    whole, textbook(problem, rule, lam, beta, regularize), atol=1e-12
                )
            # Weights that change no value rest or, where they are decayed, die out by themselves.
            unseen = len(problem.initial) - np.linalg.matrix_rank(problem.features)
            decay = 0.0 if regularize == "output" else -ratio * beta
            extra = [0.0] * unseen + ([decay] * unseen if rule != "td" else [])
            np.testing.assert_allclose(
                in_order(np.append(ours, extra)),
                in_order(np.linalg.eigvals(whole)),
                atol=1e-6,
            )


def test_the_slowest_mode_comes_first():
    certificate = problems.stability(problems.get("random_mdp"), "gtd2", 0.5)
    assert certificate.slowest == certificate.eigenvalues.real.max()
    assert np.all(np.diff(certificate.eigenvalues.real) <= 0)


def test_baird_has_no_mode_at_rest():
    """Eight weights, seven states: the eighth direction changes nothing and does not count."""
    problem = problems.get("baird")
    assert len(problems.stability(problem, "td", 0.0).eigenvalues) == 7
    for rule in ("gtd2", "tdc", "tdrc"):
        certificate = problems.stability(problem, rule, 0.0)
        assert len(certificate.eigenvalues) == 14
        assert certificate.stable


def test_a_mode_at_rest_is_not_stable():
    """Baird's star with one feature, such that A is 0 but for rounding."""
    star = problems.get("baird").mdp
    inside = np.roots([1 - 0.99, -6 * 0.99, 6]).min()
    feature = np.append(np.ones(6), inside)[:, None]
    resting = problems.LinearProblem("resting", star, feature, np.ones(1))
    for rule in ("td", "tdc"):
        certificate = problems.stability(resting, rule, 0.0)
        assert abs(certificate.slowest) < 1e-12
        assert not certificate.stable


def growth(problem, lam, beta, regularize, ratio, time):
    """By how much the mean value error grows, by the mean updates alone."""
    matrix = motion(problem, "tdrc", lam, beta, regularize, ratio)
    p = len(problem.initial)
    start = np.concatenate([problem.initial, np.zeros(len(matrix) - p)])
    later = scipy.linalg.expm(matrix * time) @ start
    return problem.value_error(later[:p]) / problem.value_error(problem.initial)


@pytest.mark.parametrize("regularize", ["parameters", "output"])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_mean_updates_agree_at_every_border_of_beta(lam, regularize):
    problem = problems.get("baird")
    certificate = problems.stability(problem, "tdrc", lam, regularize=regularize)
    borders = [x for ends in certificate.stable_betas for x in ends if 0 < x < np.inf]
    # By "parameters" with a small λ some β between stable ones are unstable.
    assert len(borders) == (3 if regularize == "parameters" and lam < 0.9 else 1)
    assert certificate.largest_beta == borders[-1]
    for border in borders:
        near = problems.stability(problem, "tdrc", lam, beta=border, regularize=regularize)
        assert abs(near.slowest) < 1e-6
        for beta in (0.9 * border, border / 0.9):
            stable = any(low < beta < high for low, high in certificate.stable_betas)
            assert (
                problems.stability(problem, "tdrc", lam, beta=beta, regularize=regularize).stable
                == stable
            )
            grown = growth(problem, lam, beta, regularize, 1.0, time=5e6 if beta < 1 else 1e4)
            assert (grown < 1e-3) == stable
            assert (grown > 1e3) == (not stable)


@pytest.mark.parametrize("regularize", ["parameters", "output"])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_mean_updates_agree_at_the_border_of_the_step_sizes(lam, regularize):
    problem = problems.get("baird")
    certificate = problems.stability(problem, "tdrc", lam, regularize=regularize)
    ((border, end),) = certificate.stable_h_step_ratios
    assert 0.01 < border < 0.2
    assert end == np.inf
    for ratio, stable in ((border / 0.9, True), (0.9 * border, False)):
        grown = growth(problem, lam, 1.0, regularize, ratio, time=2e4)
        assert (grown < 1e-3, grown > 1e3) == (stable, not stable)


def test_ranges_where_everything_or_nothing_is_stable():
    chain, baird = problems.get("boyan_chain"), problems.get("baird")
    for rule in ("td", "gtd2", "tdc"):
        certificate = problems.stability(chain, rule, 0.5)
        assert certificate.stable_betas == ((0.0, 0.0),)
        assert certificate.stable_h_step_ratios == ((0.0, np.inf),)
    for regularize in REGULARIZERS:
        certificate = problems.stability(chain, "tdrc", 0.5, regularize=regularize)
        assert certificate.stable_betas == ((0.0, np.inf),)
        assert certificate.largest_beta == np.inf
    nothing = problems.stability(baird, "td", 0.5)
    assert nothing.stable_betas == nothing.stable_h_step_ratios == ()
    assert nothing.largest_beta is None


@pytest.mark.parametrize(("regularize", "share"), [("parameters", 3.0), ("output", 1.0)])
def test_the_border_of_the_spiral_is_known_at_lambda_zero(regularize, share):
    """h keeps 1 / (1 + share β) of its size, and the rule needs about 8/9 of it."""
    spiral = problems.get("spiral")
    td, tdc = (problems.stability(spiral, rule, 0.0).slowest for rule in ("td", "tdc"))
    needed = td / (td - tdc)
    assert needed == pytest.approx(8 / 9, rel=2e-3)
    certificate = problems.stability(spiral, "tdrc", 0.0, regularize=regularize)
    assert certificate.largest_beta == pytest.approx((1 / needed - 1) / share, rel=1e-6)


@pytest.mark.parametrize(("regularize", "lam"), [("parameters", 0.85), ("output", 0.78)])
def test_the_spiral_needs_a_large_lambda_with_beta_one(regularize, lam):
    """As the documentation says."""
    spiral = problems.get("spiral")
    assert not problems.stability(spiral, "tdrc", lam - 0.01, regularize=regularize).stable
    assert problems.stability(spiral, "tdrc", lam + 0.01, regularize=regularize).stable


@pytest.mark.parametrize("w", [-40.0, -1.0, 0.7, 25.0])
def test_the_growth_on_the_spiral_has_one_sign(w):
    """At any w the rate of |v| is that at w = 0 times |v|²."""
    spiral = problems.get("spiral")
    at = np.array([w])
    for rule, lam in (("td", 0.0), ("tdrc", 0.5), ("gtd2", 0.9)):
        beta = 0.2 if rule == "tdrc" else 0.0
        theta = spiral.best_theta(at, lam) / (1 + beta) if rule != "td" else np.zeros(3)
        options = {"beta": beta, "regularize": "output" if rule == "tdrc" else "parameters"}
        drift = spiral.expected_update(rule, at, theta, lam, **options).w[0]
        scale = np.sum(spiral.values(at) ** 2) / np.sum(spiral.values(np.zeros(1)) ** 2)
        slowest = problems.stability(spiral, rule, lam, **options).slowest
        assert 0.05 * drift == pytest.approx(slowest * scale, rel=1e-9)


@pytest.mark.parametrize("ratio", [1.0, 0.1])
@pytest.mark.parametrize("regularize", ["parameters", "output"])
def test_mean_updates_agree_on_the_spiral_near_its_solution(regularize, ratio):
    """With h begun at 0, not settled: v shrinks below the border, and grows above it."""
    spiral = problems.get("spiral")
    for lam in (0.0, 0.5):
        border = problems.stability(spiral, "tdrc", lam, regularize=regularize).largest_beta
        for beta, stable in ((0.8 * border, True), (border / 0.8, False)):

            def velocity(_, both, lam=lam, beta=beta):
                mean = spiral.expected_update(
                    "tdrc", both[:1], both[1:], lam, beta, regularize=regularize
                )
                return np.concatenate([mean.w, ratio * mean.theta])

            start = np.array([-150.0, 0.0, 0.0, 0.0])
            path = solve_ivp(
                velocity, (0, 500 / ratio), start, method="LSODA", rtol=1e-9, atol=1e-12
            )
            sizes = [np.linalg.norm(spiral.values(w[:1])) for w in path.y.T[path.t > 100 / ratio]]
            assert (sizes[-1] < sizes[0]) == stable


@functools.partial(jax.jit, static_argnames=("name", "regularize", "steps"))
@functools.partial(jax.vmap, in_axes=(None, None, None, 0, None, None, None, None))
def sampled(name, regularize, steps, key, lam, beta, step_size, h_step_size):
    """An online learner's mean square value in multiples of the first: its peak, and in the end."""
    problem = problems.get(name)
    stream = problems.sample(problem.mdp, key, steps)
    experience = (
        problem.observe(stream.state), stream.reward, stream.discount,
        problem.observe(stream.next_state), stream.ratio,
    )  # fmt: skip
    states = jnp.asarray(problem.observations, jnp.float32)

    def square(w):
        return jnp.mean(jax.vmap(problem.value_fn, (None, 0))(w, states) ** 2)

    def step(carry, now):
        w, theta, traces = carry
        *transition, rho = (x.astype(jnp.float32) for x in now)
        out = rules.backward_step(
            rules.TDRC, traces, w, theta, *transition, value_fn=problem.value_fn,
            auxiliary_fn=lambda theta, x: x @ theta, lam=lam, rho_tm1=rho, beta=beta,
            regularize=regularize,
        )  # fmt: skip
        moving = square(w) < 1e8  # beyond, all is clear, and numbers would overflow
        w = w + jnp.where(moving, step_size, 0.0) * out.update.w
        theta = theta + jnp.where(moving, h_step_size, 0.0) * out.update.theta
        return (w, theta, out.traces), square(w)

    w, theta = problem.initial_params().astype(jnp.float32), jnp.zeros(states.shape[1], jnp.float32)
    squares = jax.lax.scan(step, (w, theta, rules.TDRC.init(w, theta)), experience)[1] / square(w)
    return jnp.max(squares), jnp.mean(squares[-steps // 10 :])


@pytest.mark.parametrize(
    ("name", "regularize", "lam", "stable_and_not"),
    [
        # β and the step sizes of v and h, on either side of a border.
        ("baird", "parameters", 0.0, [(7.0, 0.003, 0.003), (40.0, 0.003, 0.003)]),
        ("baird", "output", 0.0, [(4.0, 0.003, 0.003), (30.0, 0.003, 0.003)]),
        ("baird", "output", 0.5, [(4.0, 0.003, 0.003), (30.0, 0.003, 0.003)]),
        ("baird", "output", 0.0, [(4.0, 0.003, 0.0015), (4.0, 0.003, 0.00006)]),
        ("spiral", "parameters", 0.0, [(0.02, 1e-5, 0.1), (0.15, 1e-5, 0.1)]),
        ("spiral", "output", 0.0, [(0.06, 1e-5, 0.1), (0.4, 1e-5, 0.1)]),
    ],
)
def test_sampled_runs_agree_on_both_sides_of_a_border(name, regularize, lam, stable_and_not):
    """Values may rise before they fall, tens of times on Baird; unstable ones leave for good."""
    keys = jax.random.split(jax.random.key(0), 8)
    for (beta, step_size, h_step_size), stable in zip(stable_and_not, (True, False), strict=True):
        certificate = problems.stability(
            problems.get(name), "tdrc", lam, beta=beta, regularize=regularize,
            h_step_ratio=h_step_size / step_size,
        )  # fmt: skip
        assert certificate.stable == stable
        steps = 50_000 if name == "baird" else 30_000
        peak, last = sampled(name, regularize, steps, keys, lam, beta, step_size, h_step_size)
        assert np.all((peak < 100) & (last < 0.4 * peak) if stable else peak > 1000), (peak, last)


def test_arguments_are_refused_by_name():
    problem = problems.get("baird")
    with pytest.raises(ValueError, match=r"lam is 1\.5; values in \[0, 1\]"):
        problems.stability(problem, "tdc", 1.5)
    with pytest.raises(ValueError, match=r"h_step_ratio is 0\.0; numbers above 0"):
        problems.stability(problem, "tdc", 0.5, h_step_ratio=0.0)
    with pytest.raises(ValueError, match=r"beta is 0\.5; tdc does not regularise h"):
        problems.stability(problem, "tdc", 0.5, beta=0.5)
    with pytest.raises(ValueError, match="rule is 'tdr'"):
        problems.stability(problem, "tdr", 0.5)


def test_a_family_of_values_of_your_own_says_how_it_moves():
    class Own(problems.Problem):
        pass

    known = problems.get("boyan_chain")
    own = Own("own", known.mdp, known.observations, known.initial)
    with pytest.raises(NotImplementedError, match="Own must define joint_system"):
        _ = problems.stability(own, "td", 0.5).stable


def test_a_certificate_can_be_read():
    baird = problems.get("baird")
    assert repr(problems.stability(baird, "td", 0.0)) == (
        "Stability(TD(λ) on baird, λ = 0: unstable, slowest mode 0.239)"
    )
    output = problems.stability(baird, "tdrc", 0.5, regularize="output")
    assert repr(output) == (
        "Stability(TDRC(λ) on baird, λ = 0.5, β = 1 on 'output': stable, slowest mode -0.00552)"
    )
    assert dataclasses.replace(output, beta=20.0).stable is False
