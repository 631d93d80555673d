"""Theorem 1 and its neighbours: four computations of one update must agree.

For each rule, with each regulariser of h: the gradient of the loss, the explicit recursion, the
eligibility traces, and a NumPy program written from the equations.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eligrad import rules
from tests.rules import cases, reference

pytestmark = pytest.mark.usefixtures("quickest_compilation")

LAMBDAS = (0.0, 0.3, 0.9, 1.0)
DTYPES = {"float32": (np.float32, 1e-4), "float64": (np.float64, 1e-10)}
BETA = 0.7
REGULARIZED_GTD2 = cases.Variant(dataclasses.replace(rules.get("gtd2"), default_beta=1.0), "output")
"""Whatever learns h can be regularised."""


@functools.cache
def computations(variant: cases.Variant, network: str, values: str):
    """The three totals of a sequence, each compiled once: loss gradient, explicit, traces."""
    rule = variant.rule
    fns = cases.functions(network, values)._asdict()
    fixed = {"values": values, **variant.options(network, BETA), **fns}

    def options(lam):
        return {"lam": lam, **fixed}

    def by_loss(params, seq, lam):
        def total(params):
            losses = rules.sequence_loss(
                rule, *params, *seq[:4], **options(lam),
                truncated_t=seq.truncated_t, rho_tm1=seq.rho_tm1,
            )  # fmt: skip
            return jnp.sum(losses)

        gradient_w, gradient_theta = jax.grad(total)(params)
        return rules.Update(
            jax.tree.map(jnp.negative, gradient_w), jax.tree.map(jnp.negative, gradient_theta)
        )

    def by_recursion(params, seq, lam):
        return rules.sequence_updates(
            rule, *params, *seq[:4], **options(lam),
            truncated_t=seq.truncated_t, rho_tm1=seq.rho_tm1,
        )  # fmt: skip

    def by_traces(params, seq, lam):
        def step(traces, now):
            out = rules.backward_step(
                rule, traces, *params, *now[:4], **options(lam),
                reset=now.truncated_t, rho_tm1=now.rho_tm1,
            )  # fmt: skip
            return out.traces, out.update

        return jax.lax.scan(step, rule.init(*params), seq)[1]

    return jax.jit(by_loss), jax.jit(by_recursion), jax.jit(by_traces)


def params_for(network: str, values: str, seed: int, dtype) -> tuple:
    outputs = 1 if values == "state" else cases.ACTIONS
    return tuple(cases.init_params(network, outputs, 2 * seed + i, dtype) for i in range(2))


def total(update: rules.Update) -> rules.Update:
    return jax.tree.map(lambda rows: np.sum(np.asarray(rows), axis=0), update)


@functools.cache
def values_and_gradients(network: str, values: str):
    fns = cases.functions(network, values)

    def rows(function):
        return jax.jit(jax.vmap(jax.value_and_grad(function), in_axes=(None, 0)))

    return rows(fns.value_fn), rows(fns.bootstrap_fn or fns.value_fn), rows(fns.auxiliary_fn)


@pytest.mark.parametrize(
    "precision", ["float64", pytest.param("float32", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("values", ["state", "action"])
@pytest.mark.parametrize("network", cases.NETWORKS)
@cases.all_variants
def test_forward_and_backward_totals_agree(variant, network, values, precision):
    dtype, tolerance = DTYPES[precision]
    with jax.enable_x64(precision == "float64"):

        @settings(max_examples=30)
        @given(
            lam=st.sampled_from(LAMBDAS),
            ratios=st.sampled_from(cases.RATIOS),
            endings=st.sampled_from(cases.ENDINGS),
            seed=st.integers(0, 10_000),
        )
        def agree(lam, ratios, endings, seed):
            params = params_for(network, values, seed, dtype)
            seq = cases.sequence(seed, ratios, endings, values, dtype)
            by_loss, by_recursion, by_traces = computations(variant, network, values)
            lam = np.asarray(lam, dtype)
            forward = by_loss(params, seq, lam)
            explicit = total(by_recursion(params, seq, lam))
            backward = total(by_traces(params, seq, lam))
            for part in ("w", "theta"):
                one = getattr(forward, part)
                if part == "theta" and not variant.rule.has_auxiliary:
                    assert not np.any(cases.flat(one)), "TD must not touch theta"
                    continue
                assert cases.relative_error(one, getattr(explicit, part)) < tolerance
                assert cases.relative_error(one, getattr(backward, part)) < tolerance

        agree()


@pytest.mark.parametrize("endings", cases.ENDINGS)
@pytest.mark.parametrize("ratios", cases.RATIOS)
@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("values", ["state", "action"])
@pytest.mark.parametrize("variant", [*cases.VARIANTS, REGULARIZED_GTD2], ids=lambda v: v.label)
def test_agrees_with_numpy(variant, values, lam, ratios, endings, x64):
    """Step by step, not only in total, against the independent program."""
    network, dtype = "mlp", np.float64
    params = params_for(network, values, 7, dtype)
    seq = cases.sequence(11, ratios, endings, values, dtype)
    value, bootstrap, auxiliary = values_and_gradients(network, values)
    v, grad_v = value(params[0], seq.obs_tm1)
    v_next, grad_v_next = bootstrap(params[0], seq.obs_t)
    h, grad_h = auxiliary(params[1], seq.obs_tm1)
    case = {
        "values": values,
        "v": np.asarray(v),
        "v_next": np.asarray(v_next),
        "h": np.asarray(h),
        "r": np.asarray(seq.r_t),
        "gamma": np.asarray(seq.discount_t),
        "rho": np.asarray(seq.rho_tm1),
        "truncated": np.asarray(seq.truncated_t),
        "grad_v": cases.flat_rows(grad_v),
        "grad_v_next": cases.flat_rows(grad_v_next),
        "grad_h": cases.flat_rows(grad_h),
        "theta": cases.flat(params[1]),
        "in_head": cases.in_head(network, params[1]),
    }
    rule = variant.rule
    regularizer = (BETA if rule.regularized else 0.0, variant.regularize)
    _, by_recursion, by_traces = computations(variant, network, values)
    for computed, theirs in (
        (by_recursion, reference.forward_updates(rule.name, case, lam, *regularizer)),
        (by_traces, reference.backward_updates(rule.name, case, lam, *regularizer)),
    ):
        ours = computed(params, seq, np.asarray(lam, dtype))
        np.testing.assert_allclose(cases.flat_rows(ours.w), theirs[0], rtol=1e-9, atol=1e-11)
        if ours.theta is not None:
            np.testing.assert_allclose(
                cases.flat_rows(ours.theta), theirs[1], rtol=1e-9, atol=1e-11
            )


@pytest.mark.parametrize("values", ["state", "action"])
@pytest.mark.parametrize("network", cases.NETWORKS)
def test_gradient_recursion_is_the_gradient(network, values, x64):
    """The hand recursion for ∇D equals `jax.grad` of D, at every step."""
    params = params_for(network, values, 3, np.float64)[0]
    fns = cases.functions(network, values)
    for seed, ratios in enumerate(cases.RATIOS):
        seq = cases.sequence(seed, ratios, "several", values, np.float64)
        path = {"truncated_t": seq.truncated_t, "rho_tm1": seq.rho_tm1, "values": values}

        def errors(w, seq=seq, path=path):
            v_tm1 = jax.vmap(fns.value_fn, (None, 0))(w, seq.obs_tm1)
            v_t = jax.vmap(fns.bootstrap_fn or fns.value_fn, (None, 0))(w, seq.obs_t)
            delta = rules.td_error(v_tm1, seq.r_t, seq.discount_t, v_t)
            return rules.lambda_errors(delta, seq.discount_t, 0.9, **path)

        def stacked(function, observations):
            return jax.vmap(jax.grad(function), (None, 0))(params, observations)

        by_hand = rules.lambda_error_gradients(
            stacked(fns.value_fn, seq.obs_tm1),
            stacked(fns.bootstrap_fn or fns.value_fn, seq.obs_t),
            seq.discount_t,
            0.9,
            **path,
        )
        by_autodiff = jax.jacrev(errors)(params)
        np.testing.assert_allclose(
            cases.flat_rows(by_hand), cases.flat_rows(by_autodiff), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("lam", LAMBDAS)
@pytest.mark.parametrize("endings", cases.ENDINGS)
def test_lambda_return_is_an_average_of_n_step_returns(lam, endings, x64):
    for seed in range(5):
        seq = cases.sequence(seed, "on-policy", endings, "state", np.float64)
        rng = np.random.default_rng(seed)
        v_next = rng.normal(size=cases.STEPS)
        ended = np.asarray(seq.truncated_t) | (np.asarray(seq.discount_t) == 0)
        v = rng.normal(size=cases.STEPS)
        v[1:] = np.where(ended[:-1], v[1:], v_next[:-1])
        delta = rules.td_error(v, seq.r_t, seq.discount_t, v_next)
        errors = rules.lambda_errors(delta, seq.discount_t, lam, truncated_t=seq.truncated_t)
        returns = [
            reference.lambda_return(
                t, v, np.asarray(seq.r_t), np.asarray(seq.discount_t), v_next, lam, ended
            )
            for t in range(cases.STEPS)
        ]
        np.testing.assert_allclose(np.asarray(errors) + v, returns, rtol=1e-12, atol=1e-12)
