"""What must follow from the equations: limits, boundaries, and behaving like a JAX function."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import rules
from tests.rules import cases

pytestmark = pytest.mark.usefixtures("quick_compilation")

TD, GTD2, TDC, TDRC = (cases.Variant(rules.get(name)) for name in ("td", "gtd2", "tdc", "tdrc"))


def mlp_case(seed=0, endings="several", ratios="random", dtype=np.float32):
    params = tuple(cases.init_params("mlp", 1, seed + i, dtype) for i in range(2))
    return params, cases.sequence(seed, ratios, endings, "state", dtype)


@functools.partial(jax.jit, static_argnums=0)
def explicit(variant, params, seq, lam, beta=None):
    return rules.sequence_updates(
        variant.rule, *params, *seq[:4], lam=lam, truncated_t=seq.truncated_t,
        rho_tm1=seq.rho_tm1, **variant.options("mlp", beta),
        **cases.functions("mlp", "state")._asdict(),
    )  # fmt: skip


@functools.partial(jax.jit, static_argnums=0)
def traced(variant, params, seq, lam, beta=None):
    """The updates of the backward view."""
    rule = variant.rule

    def step(traces, now):
        out = rules.backward_step(
            rule, traces, *params, *now[:4], lam=lam, reset=now.truncated_t,
            rho_tm1=now.rho_tm1, **variant.options("mlp", beta),
            **cases.functions("mlp", "state")._asdict(),
        )  # fmt: skip
        return out.traces, out.update

    return jax.lax.scan(step, rule.init(*params), seq)[1]


@cases.all_variants
def test_lambda_zero_is_the_one_step_method(variant, x64):
    """Every step's forward and backward updates are those of the step alone."""
    params, seq = mlp_case(dtype=np.float64)
    fns = cases.functions("mlp", "state")
    forward = explicit(variant, params, seq, 0.0)
    backward = traced(variant, params, seq, 0.0)
    for t in range(cases.STEPS):
        s, s_next = seq.obs_tm1[t], seq.obs_t[t]
        v, gv = jax.value_and_grad(fns.value_fn)(params[0], s)
        v_next, gv_next = jax.value_and_grad(fns.value_fn)(params[0], s_next)
        h, gh = jax.value_and_grad(fns.auxiliary_fn)(params[1], s)
        gamma, rho = seq.discount_t[t], seq.rho_tm1[t]
        delta = rho * (seq.r_t[t] + gamma * v_next - v)
        grad_delta = rho * (gamma * cases.flat(gv_next) - cases.flat(gv))
        one_step = {
            "td": delta * cases.flat(gv),
            "gtd2": -h * grad_delta,
            "tdc": delta * cases.flat(gv) - h * (cases.flat(gv) + grad_delta),
            "tdrc": delta * cases.flat(gv) - h * (cases.flat(gv) + grad_delta),
        }[variant.rule.name]
        for update in (forward, backward):
            row = jax.tree.map(lambda leaf, t=t: leaf[t], update)
            np.testing.assert_allclose(cases.flat(row.w), one_step, rtol=1e-10, atol=1e-12)
            if row.theta is not None:
                beta = 1.0 if variant.rule.regularized else 0.0
                shrunk = {
                    "parameters": cases.flat(params[1]),
                    "head": cases.in_head("mlp", params[1]) * cases.flat(params[1]),
                    "output": h * cases.flat(gh),
                }[variant.regularize]
                expected = (delta - h) * cases.flat(gh) - beta * shrunk
                np.testing.assert_allclose(cases.flat(row.theta), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("regularize", cases.REGULARIZERS)
def test_beta_zero_is_tdc_and_beta_matters(regularize):
    params, seq = mlp_case()
    tdrc = cases.Variant(TDRC.rule, regularize)
    for computed in (explicit, traced):
        tdc = computed(TDC, params, seq, 0.9)
        np.testing.assert_array_equal(
            cases.flat(computed(tdrc, params, seq, 0.9, beta=0.0)), cases.flat(tdc)
        )
        by_default = computed(tdrc, params, seq, 0.9)
        assert cases.relative_error(by_default.theta, tdc.theta) > 0.1
        np.testing.assert_array_equal(cases.flat(by_default.w), cases.flat(tdc.w))
        np.testing.assert_array_equal(
            cases.flat(computed(tdrc, params, seq, 0.9, beta=1.0)), cases.flat(by_default)
        )


def test_regularize_says_what_beta_acts_on():
    """The hidden layer of h feels "parameters", not "head"; "output" needs no theta."""
    params, seq = mlp_case()
    theta = {name: traced(v, params, seq, 0.9).theta for name, v in (
        ("tdc", TDC), *((kind, cases.Variant(TDRC.rule, kind)) for kind in cases.REGULARIZERS)
    )}  # fmt: skip
    hidden, out = ({name: t[layer] for name, t in theta.items()} for layer in ("hidden", "out"))
    np.testing.assert_array_equal(cases.flat(hidden["head"]), cases.flat(hidden["tdc"]))
    np.testing.assert_array_equal(cases.flat(out["head"]), cases.flat(out["parameters"]))
    assert cases.relative_error(hidden["parameters"], hidden["tdc"]) > 0.1
    fns = cases.functions("mlp", "state")
    v, v_next = (jax.vmap(fns.value_fn, (None, 0))(params[0], o) for o in (seq.obs_tm1, seq.obs_t))
    h = jax.vmap(fns.auxiliary_fn, (None, 0))(params[1], seq.obs_tm1)
    common = {"lam": 0.9, "truncated_t": seq.truncated_t, "rho_tm1": seq.rho_tm1}
    step = (v, seq.r_t, seq.discount_t, v_next, h)
    gained = TDRC.rule.loss(*step, **common, regularize="output", beta=0.6) - TDC.rule.loss(
        *step, **common
    )
    np.testing.assert_allclose(gained, 0.3 * np.square(h), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_output_shrinks_the_best_h_by_one_plus_beta(beta, x64):
    """Where Δθ is 0, h is that of TDC over 1 + β, state by state, however h is parameterised."""
    steps = 4
    seq = cases.sequence(0, "random", "several", "state", np.float64)
    params = cases.init_params("linear", 1, 0, np.float64)
    seq = jax.tree.map(lambda rows: rows[:steps], seq)  # fewer states than weights: h can be any
    fns = cases.functions("linear", "state")
    v, v_next = (jax.vmap(fns.value_fn, (None, 0))(params, o) for o in (seq.obs_tm1, seq.obs_t))
    delta = rules.td_error(v, seq.r_t, seq.discount_t, v_next)
    path = {"lam": 0.9, "truncated_t": seq.truncated_t, "rho_tm1": seq.rho_tm1}
    best = rules.lambda_errors(delta, seq.discount_t, **path)
    inputs = seq.obs_tm1
    zero = np.linalg.pinv(inputs) @ np.asarray(best) / (1 + beta)
    update = rules.sequence_updates(
        TDRC.rule, params, {"w": zero[:, None]}, *seq[:4], **path, beta=beta, regularize="output",
        **fns._asdict(),
    )  # fmt: skip
    np.testing.assert_allclose(cases.flat(update.theta), 0, atol=1e-12)


@pytest.mark.parametrize("variant", [v for v in cases.VARIANTS if v.rule.name in ("tdc", "tdrc")])
def test_without_h_the_corrected_rules_are_td(variant):
    params, seq = mlp_case()
    silent = jax.tree.map(np.zeros_like, params[1])
    for computed in (explicit, traced):
        ours = computed(variant, (params[0], silent), seq, 0.9).w
        td = computed(TD, params, seq, 0.9).w
        assert cases.relative_error(ours, td) < 1e-6


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
@cases.all_variants
def test_nothing_leaks_over_an_episode_boundary(variant, ending):
    """The second of two episodes gets the same updates with or without the first."""
    (params, first), (_, second) = mlp_case(1, ending), mlp_case(2, ending)
    both = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    changed = both._replace(r_t=np.concatenate([first.r_t, second.r_t + 1]))

    def early(update):
        return cases.flat(jax.tree.map(lambda rows: rows[: cases.STEPS], update))

    def late(update):
        return cases.flat(jax.tree.map(lambda rows: rows[cases.STEPS :], update))

    for computed in (explicit, traced):
        alone = computed(variant, params, second, 0.9)
        together = computed(variant, params, both, 0.9)
        np.testing.assert_allclose(late(together), cases.flat(alone), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(
            early(computed(variant, params, changed, 0.9)), early(together)
        )


@cases.all_variants
def test_a_terminal_reward_is_credited_through_the_trace(variant):
    """A last reward changes what earlier states learn iff λ > 0, in both views."""
    params, seq = mlp_case(endings="terminated", ratios="on-policy")
    richer = seq._replace(r_t=seq.r_t + np.eye(cases.STEPS, dtype=np.float32)[-1])

    def first_step(lam):
        part = "w" if not variant.rule.has_auxiliary else "theta"
        before, after = (getattr(explicit(variant, params, s, lam), part) for s in (seq, richer))
        return cases.flat(jax.tree.map(lambda a, b: np.asarray(b - a)[0], before, after))

    def last_step(lam):
        part = "w" if not variant.rule.has_auxiliary else "theta"
        before, after = (getattr(traced(variant, params, s, lam), part) for s in (seq, richer))
        return cases.flat(jax.tree.map(lambda a, b: np.asarray(b - a)[-1], before, after))

    assert not np.any(first_step(0.0))
    fns = cases.functions("mlp", "state")
    function, which = (fns.value_fn, 0) if not variant.rule.has_auxiliary else (fns.auxiliary_fn, 1)
    gradients = cases.flat_rows(jax.vmap(jax.grad(function), (None, 0))(params[which], seq.obs_tm1))
    # Forward: the first state receives the reward times the product of all decays.
    decay = 0.9 * seq.discount_t[:-1]
    np.testing.assert_allclose(first_step(0.9), np.prod(decay) * gradients[0], rtol=1e-3, atol=1e-5)
    # Backward: the last step hands the reward to every earlier state at once.
    weights = np.append(np.cumprod(decay[::-1])[::-1], 1.0)
    np.testing.assert_allclose(last_step(0.9), weights @ gradients, rtol=1e-3, atol=1e-4)


@cases.all_variants
def test_truncation_bootstraps_and_termination_does_not(variant):
    """The value of the last observation matters for a truncated end only."""
    for endings, matters in (("terminated", False), ("truncated", True)):
        params, seq = mlp_case(endings=endings)
        other = np.array(seq.obs_t)
        other[-1] += 1.0
        a = explicit(variant, params, seq, 0.9)
        b = explicit(variant, params, seq._replace(obs_t=other), 0.9)
        assert (cases.relative_error(a, b) > 1e-3) == matters


@cases.all_variants
def test_vmap_over_seeds_is_a_loop_over_seeds(variant):
    many = [mlp_case(seed) for seed in range(4)]
    params, seq = jax.tree.map(lambda *leaves: np.stack(leaves), *many)
    for computed in (explicit, traced):
        batched = jax.jit(jax.vmap(functools.partial(computed, variant), (0, 0, None)))(
            params, seq, 0.9
        )
        for i, (p, s) in enumerate(many):
            alone = computed(variant, p, s, 0.9)
            ours = jax.tree.map(lambda leaf, i=i: leaf[i], batched)
            assert cases.relative_error(ours, alone) < 1e-5


@cases.all_variants
def test_nothing_retraces(variant):
    """λ, β, ratios, discounts and resets are values: changing them compiles nothing anew."""
    for seed, lam in enumerate((0.0, 0.5, 1.0)):
        params, seq = mlp_case(seed, cases.ENDINGS[seed], cases.RATIOS[seed])
        before = explicit._cache_size(), traced._cache_size()
        for computed in (explicit, traced):
            computed(variant, params, seq, np.float32(lam), beta=np.float32(1 + seed))
        if seed:
            assert (explicit._cache_size(), traced._cache_size()) == before


def test_the_update_is_differentiable():
    """Meta-gradients: the derivative of an update in λ is that of its finite differences."""
    params, seq = mlp_case(ratios="on-policy")

    def first_weight(lam):
        return jnp.sum(explicit(TDRC, params, seq, lam).w["out"][1])

    lam, step = jnp.float32(0.5), 1e-2
    slope = (first_weight(lam + step) - first_weight(lam - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(first_weight)(lam), slope, rtol=1e-2)


def test_rules_keep_only_the_traces_they_need():
    params, _ = mlp_case()
    td, gtd2, tdc = (variant.rule.init(*params) for variant in (TD, GTD2, TDC))
    assert td.h is None
    assert td.theta is None
    assert gtd2.w is None
    assert all(part is not None for part in tdc)


class TestTraceCuts:
    """Both conventions on one recorded walk, against the rules stated in words."""

    gamma, lam = 0.9, 0.8

    def walk(self, convention):
        """Decay of the oldest trace through greedy, non-greedy, greedy steps, as weights of ∇q."""
        rule = rules.get("td")
        traces = rule.init(jnp.zeros(4))
        credited = []
        for t, greedy in enumerate((True, True, False, True)):
            cut = rules.trace_cut(convention, jnp.array(greedy), jnp.array(False))
            update, traces = rule.update(
                traces, jnp.float32(1.0), self.gamma, grad_v_tm1=jnp.eye(4)[t], lam=self.lam,
                rho_tm1=cut.rho_tm1, reset=cut.reset, values="action",
            )  # fmt: skip
            credited.append(np.asarray(update.w))
        return credited

    def test_after(self):
        k = self.gamma * self.lam
        credited = self.walk("after")
        np.testing.assert_allclose(credited[2], [k**2, k, 1, 0], rtol=1e-6)  # whole trace first
        np.testing.assert_allclose(credited[3], [0, 0, 0, 1], rtol=1e-6)  # then all is gone

    def test_watkins(self):
        k = self.gamma * self.lam
        credited = self.walk("watkins")
        np.testing.assert_allclose(credited[2], [0, 0, 1, 0], rtol=1e-6)  # the old trace is gone
        np.testing.assert_allclose(credited[3], [0, 0, k, 1], rtol=1e-6)  # its own lives on

    @pytest.mark.parametrize("convention", ["after", "watkins"])
    def test_both_end_with_the_episode(self, convention):
        assert rules.trace_cut(convention, jnp.array(True), jnp.array(True)).reset
        assert not rules.trace_cut(convention, jnp.array(True), jnp.array(False)).reset


class TestBootstraps:
    q_tm1, q_t = jnp.array([1.0, 2.0, 5.0]), jnp.array([4.0, 6.0, 6.0])

    def test_max(self):
        error = rules.q_learning_td_error(self.q_tm1, 1, 0.5, 0.5, self.q_t)
        assert error == 0.5 + 0.5 * 6.0 - 2.0
        # Of two equal maxima the first one carries the whole gradient.
        gradient = jax.grad(lambda q: rules.q_learning_td_error(self.q_tm1, 1, 0.5, 0.5, q))
        np.testing.assert_array_equal(gradient(self.q_t), [0.0, 0.5, 0.0])

    def test_sarsa(self):
        assert rules.sarsa_td_error(self.q_tm1, 2, 0.5, 0.5, self.q_t, 0) == 0.5 + 0.5 * 4.0 - 5.0

    def test_expected_sarsa(self):
        p = jnp.array([0.5, 0.25, 0.25])
        error = rules.expected_sarsa_td_error(self.q_tm1, 0, 0.5, 0.5, self.q_t, p)
        assert error == 0.5 + 0.5 * 5.0 - 1.0

    def test_whole_sequences(self):
        rng = np.random.default_rng(0)
        q_tm1, q_t = rng.normal(size=(2, 7, 3)).astype(np.float32)
        a, r = rng.integers(0, 3, 7), rng.normal(size=7).astype(np.float32)
        errors = rules.q_learning_td_error(q_tm1, a, r, 0.9, q_t)
        for t in range(7):
            one = rules.q_learning_td_error(q_tm1[t], a[t], r[t], 0.9, q_t[t])
            np.testing.assert_allclose(errors[t], one, rtol=1e-6)
            np.testing.assert_allclose(one, r[t] + 0.9 * q_t[t].max() - q_tm1[t, a[t]], rtol=1e-5)
