"""The sampled rules against exact answers: expectations, fixed points, divergence."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import demo, problems, rules

pytestmark = pytest.mark.usefixtures("quick_compilation")
CHAINS, BURN_IN, STEPS = 2000, 60, 60
BETA = 0.7


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def mean_updates(name, rule_name, steps, keys, w, theta, lam):
    """The backward updates of many chains at fixed parameters, averaged over the later steps."""
    problem, rule = problems.get(name), rules.get(rule_name)

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
        extra = {}
        if rule.has_auxiliary:
            extra = {"auxiliary_fn": lambda th, x: x @ th}
            extra["beta"] = BETA if rule_name == "tdrc" else 0.0

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


@pytest.mark.parametrize("rule_name", rules.names())
@pytest.mark.parametrize(
    ("name", "lam"),
    [("random_walk_5", 0.8), ("boyan_chain", 0.5), ("random_mdp", 0.5), ("baird", 0.2)],
)
def test_sampled_updates_have_the_closed_form_as_their_mean(name, lam, rule_name):
    """On- and off-policy, at random parameters, within 4.5 standard errors in every component."""
    problem = problems.get(name)
    rng = np.random.default_rng(1)
    w = rng.normal(size=problem.initial.shape).astype(np.float32)
    theta = rng.normal(size=problem.observations.shape[1]).astype(np.float32)
    keys = jax.random.split(jax.random.key(2), CHAINS)
    sampled = mean_updates(name, rule_name, BURN_IN + STEPS, keys, w, theta, lam)
    exact = problem.expected_update(rule_name, w, theta, lam, beta=BETA)
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


@pytest.mark.parametrize("rule_name", ["gtd2", "tdc", "tdrc"])
@pytest.mark.parametrize("lam", [0.0, 0.9])
@pytest.mark.parametrize("name", ["random_walk_5", "random_walk_19", "boyan_chain"])
def test_gradient_rules_lead_to_the_td_fixed_point(name, lam, rule_name):
    """Along their expected direction, which the test above ties to the sampled rules."""
    problem = problems.get(name)
    fixed = problem.td_fixed_point(lam)
    size = fixed.size
    zero = np.zeros(2 * size)

    def direction(x):
        update = problem.expected_update(rule_name, x[:size], x[size:], lam)
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
