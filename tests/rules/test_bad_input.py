"""Mistakes are refused while tracing, by the argument's name, with what is accepted."""

from __future__ import annotations

import dataclasses
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import rules
from eligrad._base import array_checks as check

T = 5
ONES = np.ones(T, np.float32)
GOOD = {"v_tm1": ONES, "r_t": ONES, "discount_t": 0.9 * ONES, "v_t": ONES, "h_tm1": ONES}


def loss(rule="tdc", lam=0.9, **changes):
    return rules.get(rule).loss(**{**GOOD, **changes.pop("arrays", {})}, lam=lam, **changes)


@pytest.mark.parametrize("name", GOOD)
def test_mismatched_lengths(name):
    with pytest.raises(ValueError, match=r"(length|shape).*accepted"):
        loss(arrays={name: np.ones(T + 1, np.float32)})


@pytest.mark.parametrize("argument", ["truncated_t", "rho_tm1"])
def test_mismatched_lengths_of_options(argument):
    dtype = bool if argument == "truncated_t" else np.float32
    with pytest.raises(ValueError, match=f"{argument} has length 6"):
        loss(**{argument: np.ones(T + 1, dtype)})


@pytest.mark.parametrize("lam", [-0.1, 1.2, np.nan, np.inf])
def test_lambda_out_of_range(lam):
    with pytest.raises(ValueError, match=r"lam is .*; values in \[0, 1\]"):
        loss(lam=lam)


@pytest.mark.parametrize("gamma", [-0.1, 1.2, np.nan])
def test_discount_out_of_range(gamma):
    with pytest.raises(ValueError, match=r"discount_t is .*; values in \[0, 1\]"):
        loss(arrays={"discount_t": np.where(np.arange(T) == 2, gamma, 0.9).astype(np.float32)})


@pytest.mark.parametrize("lam", ["0.9", None, 0.9j, ["0.9"] * T])
def test_what_is_no_number_is_named(lam):
    # At the door, since the tests' own type checker would refuse it first.
    with pytest.raises(TypeError, match=rf"lam is {re.escape(repr(lam))}; values in \[0, 1\]"):
        check.within("lam", lam, 0.0, 1.0)
    with pytest.raises(TypeError, match=rf"kappa is {re.escape(repr(lam))}; numbers above 0"):
        check.positive("kappa", lam)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_what_must_be_positive_is_finite_too(bad):
    with pytest.raises(ValueError, match=rf"kappa is {bad}; numbers above 0 are accepted"):
        check.positive("kappa", bad)


def test_numbers_of_any_kind_are_numbers():
    for lam in (1, True, np.float16(0.5), jnp.bfloat16(0.5), [0.5, 0.9]):
        check.within("lam", lam, 0.0, 1.0)
        check.positive("lam", lam)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_beta_and_ratio_out_of_range(bad):
    theta = {"w": ONES}
    with pytest.raises(ValueError, match=rf"beta is {bad}; values in \[0, ∞\)"):
        loss("tdrc", beta=bad, theta=theta)
    with pytest.raises(ValueError, match=rf"rho_tm1 is {bad}; values in \[0, ∞\)"):
        loss(rho_tm1=np.where(np.arange(T) == 2, bad, 1.0).astype(np.float32))


def test_the_message_names_an_argument_that_was_given():
    longer = np.full(T + 1, 0.9, np.float32)
    with pytest.raises(ValueError, match="discount_t has length 6 and delta_t has length 5"):
        rules.lambda_errors(ONES, longer, 0.9)


def test_wrong_ranks():
    with pytest.raises(ValueError, match=r"delta_t has shape \(5, 2\).*jax.vmap"):
        rules.lambda_errors(np.ones((T, 2), np.float32), 0.9, 0.9)
    with pytest.raises(ValueError, match=r"lam has shape \(2, 2\)"):
        rules.lambda_errors(ONES, 0.9, np.ones((2, 2)))
    rule = rules.get("td")
    with pytest.raises(ValueError, match=r"delta_t has shape \(5,\); a scalar"):
        rule.update(rule.init(ONES), ONES, 0.9, grad_v_tm1=ONES, lam=0.9)


def test_integer_rewards():
    with pytest.raises(TypeError, match=r"r_t has dtype int32.*floating"):
        loss(arrays={"r_t": np.ones(T, np.int32)})
    with pytest.raises(TypeError, match="r_t has dtype"):
        rules.td_error(0.0, np.int32(1), 0.9, 0.0)
    with pytest.raises(TypeError, match="r_t has dtype complex64"):
        rules.td_error(jnp.float32(0), 1j, 0.9, jnp.float32(0))
    assert rules.td_error(0.0, 1, 0.9, 0.0) == 1.0  # of Python: a number like any other


def test_other_dtypes():
    with pytest.raises(TypeError, match="truncated_t has dtype float32; bool"):
        loss(truncated_t=ONES)
    with pytest.raises(TypeError, match="action has dtype float32"):
        rules.taken(ONES, jnp.float32(1))
    with pytest.raises(ValueError, match=r"action has shape \(2,\) and the values \(5,\)"):
        rules.taken(ONES, jnp.zeros(2, jnp.int32))


def test_empty_sequences():
    empty = np.zeros(0, np.float32)
    with pytest.raises(ValueError, match="empty"):
        rules.lambda_errors(empty, 0.9, 0.9)
    with pytest.raises(ValueError, match="empty"):
        rules.get("td").loss(empty, empty, empty, empty, lam=0.9)


def test_a_rule_says_what_it_needs():
    with pytest.raises(ValueError, match="h_tm1 is None; tdc needs it"):
        loss(arrays={"h_tm1": None})
    with pytest.raises(ValueError, match=r"theta is None; tdrc with beta = 1\.0"):
        loss("tdrc")
    with pytest.raises(ValueError, match="h_tm1 was given; td has no auxiliary"):
        loss("td")
    with pytest.raises(ValueError, match="theta is None; gtd2 learns h"):
        rules.get("gtd2").init(ONES)
    rule = rules.get("tdc")
    with pytest.raises(ValueError, match="grad_v_t is None; tdc needs it"):
        rule.update(
            rule.init(ONES, ONES), jnp.float32(1), 0.9, jnp.float32(0), grad_v_tm1=ONES, lam=0.5
        )
    gradients = {"grad_v_tm1": jnp.asarray(ONES), "grad_v_t": jnp.asarray(ONES)}
    with pytest.raises(ValueError, match="grad_h_tm1 is None; tdc needs it"):
        rule.updates(**GOOD, **gradients, lam=0.5)
    with pytest.raises(ValueError, match="grad_h_tm1 was given; td has no auxiliary"):
        rules.get("td").updates(ONES, ONES, 0.9, ONES, **gradients, grad_h_tm1=ONES, lam=0.5)


@pytest.mark.parametrize("rule_name", ["td", "gtd2", "tdc"])
def test_a_rule_without_regularisation_refuses_what_would_do_nothing(rule_name):
    arrays = {"h_tm1": None} if rule_name == "td" else {}
    plain = loss(rule_name, arrays=arrays)
    for nothing in (None, 0, 0.0, np.float32(0)):
        np.testing.assert_array_equal(loss(rule_name, arrays=arrays, beta=nothing), plain)
    why = rf"; {rule_name} does not regularise h \(tdrc does\): "
    with pytest.raises(ValueError, match=f"beta is 0.5{why}None or 0 is accepted"):
        loss(rule_name, arrays=arrays, beta=0.5)
    with pytest.raises(ValueError, match=f"beta is .*Tracer.*{why}None or 0"):
        jax.jit(lambda beta: loss(rule_name, arrays=arrays, beta=beta))(0.0)
    with pytest.raises(ValueError, match=f"regularize is 'output'{why}leave it out"):
        loss(rule_name, arrays=arrays, regularize="output")
    rule = rules.get(rule_name)
    traces = rule.init(ONES, None if rule_name == "td" else ONES)
    with pytest.raises(ValueError, match=f"beta is 0.5{why}"):
        rule.update(traces, jnp.float32(1), 0.9, grad_v_tm1=ONES, lam=0.9, beta=0.5)
    gradients = {"grad_v_tm1": jnp.asarray(ONES), "grad_v_t": jnp.asarray(ONES)}
    with pytest.raises(ValueError, match=f"beta is 0.5{why}"):
        rule.updates(**GOOD | arrays, **gradients, lam=0.5, beta=0.5)


def test_the_regulariser_of_h():
    theta = {"hidden": ONES, "out": ONES}
    with pytest.raises(ValueError, match=r"regularize is 'outputs'.*did you mean 'output'"):
        inspect.unwrap(rules.Rule.resolve_beta)(rules.get("tdrc"), 1.0, "outputs")
    with pytest.raises(ValueError, match="head is None; regularize='head' needs a function"):
        loss("tdrc", theta=theta, regularize="head")
    with pytest.raises(ValueError, match="head was given and regularize is 'output'; head is acc"):
        loss("tdrc", theta=theta, regularize="output", head=lambda theta: theta["out"])
    with pytest.raises(ValueError, match=r"theta is None; tdrc with beta = 1\.0 needs"):
        loss("tdrc", regularize="head", head=lambda theta: theta["out"])
    with pytest.raises(ValueError, match=r"head\(theta\) has no parameters"):
        loss("tdrc", theta=theta, regularize="head", head=lambda theta: ())
    assert np.all(loss("tdrc", regularize="output") > loss("tdrc", regularize="output", beta=0))
    with pytest.raises(ValueError, match=r"default_beta is 1\.0; td has no auxiliary function"):
        dataclasses.replace(rules.get("td"), default_beta=1.0)


def test_gradients_of_another_shape():
    rule = rules.get("td")
    with pytest.raises(ValueError, match=r"grad_v_tm1\['w'\] has shape \(3,\).*\(5,\)"):
        rule.update(
            rule.init({"w": ONES}), jnp.float32(1), 0.9, grad_v_tm1={"w": np.ones(3)}, lam=0.9
        )


def test_a_value_function_that_is_not_scalar():
    rule = rules.get("td")
    with pytest.raises(ValueError, match=r"value_fn returns .*a scalar"):
        rules.backward_step(
            rule, rule.init(ONES), ONES, None, ONES, 0.0, 0.9, ONES,
            value_fn=lambda w, obs: w * obs, lam=0.9,
        )  # fmt: skip


def test_unknown_names():
    with pytest.raises(ValueError, match=r"rule is 'tdcr'.*did you mean 'td"):
        rules.get("tdcr")
    with pytest.raises(ValueError, match=r"trace_cut is 'watkin'.*did you mean 'watkins'"):
        # Unwrapped, since the tests' own type checker would refuse the name first.
        inspect.unwrap(rules.trace_cut)("watkin", jnp.array(True), jnp.array(True))
    with pytest.raises(ValueError, match="registered already"):
        rules.register(rules.get("td"))


def test_refused_while_tracing():
    """Also inside jit: shapes and dtypes are known there."""
    with pytest.raises(ValueError, match="accepted"):
        jax.jit(lambda r: loss(arrays={"r_t": r}))(np.ones(T + 1, np.float32))
    with pytest.raises(TypeError, match="r_t has dtype int32"):
        jax.eval_shape(lambda r: loss(arrays={"r_t": r}), jax.ShapeDtypeStruct((T,), jnp.int32))
