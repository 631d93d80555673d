"""What users see of rules and problems: names, docstrings, rules as arguments of `jax.jit`."""

from __future__ import annotations

import dataclasses
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import problems, rules

PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (rules, problems)
    for name in package.__all__
}
METHODS = {
    f"{name}.{method}": function
    for name, symbol in PUBLIC.items()
    if inspect.isclass(symbol)
    for method, function in inspect.getmembers(symbol, inspect.isfunction)
    if not method.startswith("_") and function.__module__.startswith("eligrad")
}
FUNCTIONS = {name: symbol for name, symbol in PUBLIC.items() if inspect.isfunction(symbol)}


@pytest.mark.parametrize("name", [*FUNCTIONS, *METHODS])
def test_many_parameters_are_explained_one_by_one(name):
    function = FUNCTIONS.get(name) or METHODS[name]
    parameters = [each for each in inspect.signature(function).parameters if each != "self"]
    if len(parameters) <= 3:
        return
    explained = re.findall(r"^ +\**(\w+): ", (function.__doc__ or "").partition("Args:")[2], re.M)
    assert explained == parameters


def test_rules_by_name_and_by_attribute_are_the_same():
    assert {name: getattr(rules, name.upper()) for name in rules.names()} == {
        name: rules.get(name) for name in rules.names()
    }


def test_a_rule_goes_through_jit_as_a_constant():
    """No static_argnums; one program for equal rules, another for another rule."""

    def value(params, x):
        return x @ params

    def step(rule, w, x):
        traces = rule.init(w, w) if rule.has_auxiliary else rule.init(w)
        return rules.backward_step(
            rule, traces, w, w if rule.has_auxiliary else None, x, 1.0, 0.9, 2 * x,
            value_fn=value, auxiliary_fn=value, lam=0.8,
        ).update  # fmt: skip

    learn, w, x = jax.jit(step), jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    for count, name in enumerate(rules.names(), start=1):
        rule = rules.get(name)
        for equal in (rule, dataclasses.replace(rule)):
            ours, plain = learn(equal, w, x), step(rule, w, x)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), ours, plain)
        assert learn._cache_size() == count
    assert jax.tree.leaves(rules.TDRC) == []


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("reward", [1.0, 1, np.float64(1.0)])
def test_rewards_of_python_keep_the_dtype_of_values(dtype, reward, x64):
    """Updates in a loop have one dtype, which is that of the parameters."""
    with jax.enable_x64(x64):
        w = jnp.ones(4, dtype)
        traces = rules.TDRC.init(w, w)
        states = jnp.eye(4, dtype=dtype)

        def step(traces, t):
            made = rules.backward_step(
                rules.TDRC, traces, w, w, states[t], reward, 0.9, states[t + 1],
                value_fn=jnp.dot, auxiliary_fn=jnp.dot, lam=0.8,
            )  # fmt: skip
            return made.traces, made.update

        traces, update = jax.lax.scan(step, traces, jnp.arange(3))
        assert {leaf.dtype.name for leaf in jax.tree.leaves((traces, update))} == {dtype}


def test_values_of_python_take_the_dtype_of_the_reward():
    assert rules.td_error(1.0, jnp.bfloat16(1), 0.9, 2.0).dtype == jnp.bfloat16
