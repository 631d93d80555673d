"""The sampled rules against exact answers: expectations, fixed points, divergence."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import demo, problems, rules
from eligrad.rules import registry
from tests.rules import cases

pytestmark = pytest.mark.usefixtures("quickest_compilation")
CHAINS, BURN_IN, STEPS = 2000, 60, 60
BETA = 0.7


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def mean_updates(name, variant, steps, keys, w, theta, lam):
    """The backward updates of many chains at fixed parameters, averaged over the later steps."""
    problem, rule = problems.get(name), variant.rule

    def chain(key):
        # Begun where the behaviour policy is in the long run: an episodic chain of nearly fixed
        # length would keep its beat for hundreds of steps.
        start_key, key = jax.random.split(key)
        weighting = jnp.asarray(problem.mdp.weighting, jnp.float32)
        start = jax.random.choice(start_key, len(weighting), p=weighting).astype(jnp.int32)
        stream = problems.sample(problem.mdp, key, steps, state=start)
        experience = (
            problem.observe(stream.state), stream.reward, stream.discount,
            problem.observe(stream.next_state), stream.ratio,
        )  # fmt: skip
        extra = {"auxiliary_fn": (lambda th, x: x @ th) if rule.has_auxiliary else None}
        if rule.regularized:
            extra |= {"beta": BETA, "regularize": variant.regularize}
        if variant.regularize == "head":
            extra["head"] = lambda theta: theta  # a linear h has no other layer

        def step(traces, now):
            *transition, ratio = (x.astype(jnp.float32) for x in now)
            out = rules.backward_step(
                rule, traces, w, theta if rule.has_auxiliary else None, *transition,
                value_fn=problem.value_fn, lam=lam, rho_tm1=ratio, **extra,
            )  # fmt: skip
            return out.traces, out.update

        traces = rule.init(w, theta if rule.has_auxiliary else None)
        updates = jax.lax.scan(step, traces, experience)[1]
        return jax.tree.map(lambda rows: jnp.mean(rows[BURN_IN:], axis=0), updates)

    return jax.vmap(chain)(keys)


@cases.all_variants
@pytest.mark.parametrize(
    ("name", "lam"),
    [("random_walk_5", 0.8), ("boyan_chain", 0.5), ("random_mdp", 0.5), ("baird", 0.2)],
)
def test_sampled_updates_have_the_closed_form_as_their_mean(name, lam, variant):
    """On- and off-policy, at random parameters, within 4.5 standard errors in every component."""
    assert_closed_form_is_the_mean(name, lam, variant)


def assert_closed_form_is_the_mean(name, lam, variant):
    problem = problems.get(name)
    rng = np.random.default_rng(1)
    w = rng.normal(size=problem.initial.shape).astype(np.float32)
    theta = rng.normal(size=problem.observations.shape[1]).astype(np.float32)
    keys = jax.random.split(jax.random.key(2), CHAINS)
    sampled = mean_updates(name, variant, BURN_IN + STEPS, keys, w, theta, lam)
    beta = BETA if variant.rule.regularized else None
    exact = problem.expected_update(
        variant.rule, w, theta, lam, beta, regularize=variant.regularize
    )
    for part in ("w", "theta"):
        rows = getattr(sampled, part)
        if rows is None:
            continue
        rows = np.asarray(rows, np.float64)
        error = rows.mean(axis=0) - getattr(exact, part)
        spread = rows.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        assert np.all(np.abs(error) <= 4.5 * spread + 1e-6), (part, error / spread)
        # And the estimate is sharp enough to tell the rules apart.
        assert np.max(np.abs(getattr(exact, part)) / (spread + 1e-12)) > 20


@pytest.mark.parametrize(
    "variant", [v for v in cases.VARIANTS if v.rule.has_auxiliary], ids=lambda v: v.label
)
@pytest.mark.parametrize("lam", [0.0, 0.9])
@pytest.mark.parametrize("name", ["random_walk_5", "random_walk_19", "boyan_chain"])
def test_gradient_rules_lead_to_the_td_fixed_point(name, lam, variant):
    """Along their expected direction, which the test above ties to the sampled rules."""
    problem = problems.get(name)
    fixed = problem.td_fixed_point(lam)
    size = fixed.size
    zero = np.zeros(2 * size)

    def direction(x):
        update = problem.expected_update(
            variant.rule, x[:size], x[size:], lam, regularize=variant.regularize
        )
        return np.concatenate([update.w, update.theta])

    # The direction is affine: where it vanishes, and whether all of it leads there.
    offset = direction(zero)
    matrix = np.stack([direction(basis) - offset for basis in np.eye(2 * size)], axis=1)
    standstill = np.linalg.solve(matrix, -offset)
    assert np.linalg.eigvals(matrix).real.max() < 0
    np.testing.assert_allclose(standstill[:size], fixed, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(standstill[size:], 0, atol=1e-8)


@functools.cache
def results():
    """The demonstration on its two counterexamples, with few seeds."""
    return {
        (setting.problem, name): demo.run(setting, name, seeds=4)
        for setting in demo.SETTINGS[:2]
        for name in rules.names()
    }


@pytest.mark.parametrize("problem", ["baird", "spiral"])
def test_td_diverges_and_gradient_td_does_not(problem):
    assert results()[problem, "td"][0].lam == 0
    assert results()[problem, "td"][0].diverged.all()
    for name in ("gtd2", "tdc", "tdrc"):
        for result in results()[problem, name]:
            assert not result.diverged.any(), (name, result.lam)
            pbe = np.median(result.pbe, axis=0)
            assert pbe[-1] < 0.5 * pbe[0], (name, result.lam)


def test_the_table_and_the_figure(tmp_path):
    flat = [result for group in results().values() for result in group]
    text = demo.table(flat)
    assert "diverged in 4 of 4 seeds" in text
    assert text.count("stable") == 2 * 3 * len(demo.LAMBDAS)
    demo.figure(flat, tmp_path / "demo.png")
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]
    assert (tmp_path / "demo.png").stat().st_size > 20_000


def test_too_much_regularisation_gives_the_divergence_of_td_back():
    """On the spiral h has one-hot inputs, and β = 1 is large: what `demo` says of it."""
    problem = problems.get("spiral")
    w = np.zeros(1)
    for beta, upwards in ((1.0, True), (0.05, True), (0.03, False), (0.0, False)):
        shrink = 1 / (1 + 3 * beta)
        theta = shrink * problem.best_theta(w, 0.0)
        settled = problem.expected_update("tdrc", w, theta, 0.0, beta=beta)
        np.testing.assert_allclose(settled.theta, 0, atol=1e-9)
        assert (settled.w[0] > 0) == upwards


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_output_is_between_td_and_tdc(beta):
    """With h settled: β of 1 + β parts TD and one part TDC; on every problem, so on the spiral."""
    for name in problems.names():
        problem = problems.get(name)
        w = np.random.default_rng(0).normal(size=problem.initial.shape)
        best = problem.best_theta(w, 0.5)
        settled = problem.expected_update(
            "tdrc", w, best / (1 + beta), 0.5, beta, regularize="output"
        )
        np.testing.assert_allclose(settled.theta, 0, atol=1e-9)
        td, tdc = (problem.expected_update(rule, w, best, 0.5).w for rule in ("td", "tdc"))
        between = (beta * td + tdc) / (1 + beta)
        np.testing.assert_allclose(settled.w, between, atol=1e-12 * max(1, np.abs(td).max()))


def mean_of_td_and_gtd2(d, h, grad_v, grad_d):
    """The mean of TD(λ) and GTD2(λ): a rule that the library does not have."""
    return jax.tree.map(lambda gv, gd: 0.5 * d * gv - 0.5 * h * gd, grad_v, grad_d)


@pytest.fixture
def own_rule(monkeypatch):
    """A rule of a user's own in the registry, for one test."""
    td, gtd2 = rules.get("td"), rules.get("gtd2")
    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))

    def backward(delta, h, z_h):
        return rules.Coefficients(z_w=0.5 * delta, grad_delta=-0.5 * z_h)

    return rules.register(
        rules.Rule(
            name="mean",
            title="half TD(λ), half GTD2(λ)",
            value_loss=lambda v, h, d: 0.5 * (td.value_loss(v, None, d) + gtd2.value_loss(v, h, d)),
            forward=mean_of_td_and_gtd2,
            backward=backward,
            has_auxiliary=True,
            traces_w=True,
            default_beta=0.5,
        )
    )


@pytest.mark.parametrize("regularize", cases.REGULARIZERS)
def test_problems_know_a_rule_of_your_own(own_rule, regularize):
    problem = problems.get("random_mdp")
    w, theta = np.random.default_rng(3).normal(size=(2, 5))
    ours = problem.expected_update("mean", w, theta, 0.5, regularize=regularize)
    td, gtd2 = (problem.expected_update(rule, w, theta, 0.5) for rule in ("td", "gtd2"))
    np.testing.assert_allclose(ours.w, (td.w + gtd2.w) / 2, atol=1e-12)
    tdrc = problem.expected_update("tdrc", w, theta, 0.5, 0.5, regularize=regularize)
    np.testing.assert_allclose(ours.theta, tdrc.theta, atol=1e-12)
    assert_closed_form_is_the_mean("boyan_chain", 0.5, cases.Variant(own_rule, regularize))
    assert problems.stability(problem, "mean", 0.5, regularize=regularize).stable
    system = problem.joint_system(own_rule, 0.5, 0.5, regularize, 1.0)
    td = problem.joint_system(rules.TD, 0.5, 0.0, "parameters", 1.0)
    np.testing.assert_allclose(system[:5, :5], td / 2, atol=1e-12)


def test_the_demo_shows_a_rule_of_your_own(own_rule, tmp_path, monkeypatch, capsys):
    setting = dataclasses.replace(demo.SETTINGS[2], steps=600)
    monkeypatch.setattr(demo, "SETTINGS", (setting,))
    demo.main(tmp_path / "demo.png", seeds=2)
    printed = capsys.readouterr().out
    assert printed.count(own_rule.title) == len(demo.LAMBDAS)
    assert (tmp_path / "demo.png").stat().st_size > 20_000


def test_a_rule_without_a_closed_form_is_refused():
    """The mean of a product of two sampled things is not the product of their means."""
    problem = problems.get("random_walk_5")
    residual = dataclasses.replace(
        rules.get("td"),
        name="residual",
        forward=lambda d, h, grad_v, grad_d: jax.tree.map(lambda gd: -d * gd, grad_d),
    )
    with pytest.raises(ValueError, match=r"rule 'residual' is no sum of D ∇V, H ∇V and H ∇D"):
        problem.expected_update(residual, np.zeros(5), np.zeros(5), 0.5)
