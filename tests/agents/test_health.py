"""The health of h against plain NumPy, and what a run says whose h has died."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import (
    PRESETS,
    QLambda,
    Transition,
    auxiliary,
    default_network,
    make_settings,
)
from eligrad.training import train

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def test_size_and_correlation_against_numpy():
    rng = np.random.default_rng(0)
    h, noise = rng.normal(size=(2, 3, 200)).astype(np.float32)
    error = 0.5 * h + noise
    found = auxiliary.health(h, error)
    for run in range(3):
        assert found["mean_abs_h"][run] == pytest.approx(np.abs(h[run]).mean(), rel=1e-5)
        ratio = np.abs(h[run]).mean() / np.abs(error[run]).mean()
        assert found["h_to_td_error"][run] == pytest.approx(ratio, rel=1e-5)
        expected = np.corrcoef(h[run], error[run])[0, 1]
        assert found["h_td_error_correlation"][run] == pytest.approx(expected, rel=1e-5)


def test_a_constant_h_has_no_correlation():
    found = auxiliary.health(np.zeros((1, 5)), np.arange(5.0)[None])
    assert found["mean_abs_h"] == [0.0]
    assert np.isnan(found["h_td_error_correlation"]).all()


def test_share_of_the_correction():
    z = {"a": jnp.ones((3, 2)), "b": jnp.full(4, 2.0)}
    correction = jax.tree.map(lambda leaf: 0.25 * leaf, z)
    update = jax.tree.map(lambda zw, c: 3.0 * zw - c, z, correction)
    share = auxiliary.correction_share(jnp.float32(3.0), z, update)
    assert share == pytest.approx(0.25 / 3.0, rel=1e-5)
    none = auxiliary.correction_share(jnp.float32(3.0), z, jax.tree.map(lambda zw: 3.0 * zw, z))
    assert none == 0.0


@pytest.mark.parametrize("says_where_its_head_is", [True, False])
def test_share_of_a_step_is_that_of_the_last_layer_or_of_all_weights(says_where_its_head_is):
    network = default_network((4,), 2)
    if not says_where_its_head_is:
        network = dataclasses.replace(network, head=None)
    agent = QLambda(make_settings("qrc", {"step_size": 0.5}, steps=100), network)
    seen = jnp.arange(4.0)
    after, metrics = agent.init(jax.random.key(0), seen), {}
    for sign in (-1.0, 2.0, -3.0):
        transition = Transition(
            jnp.float32(1.0), jnp.bool(False), jnp.bool(False), sign * seen, sign * seen
        )
        state, _ = agent.act(after, jax.random.key(1))
        after, metrics = agent.update(state, transition, jax.random.key(2))

    def part(params):
        chosen = params.head if says_where_its_head_is else params
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(chosen)])

    semi_gradient = np.asarray(metrics["td_error"]) * part(after.traces.w)
    direction = (part(after.w) - part(state.w)) / 0.5  # pyright: ignore[reportPossiblyUnbound]
    expected = np.linalg.norm(semi_gradient - direction) / np.linalg.norm(semi_gradient)
    assert expected > 0.01
    assert metrics["correction_share"] == pytest.approx(expected, rel=1e-4)


def test_every_run_has_the_columns_and_says_once_that_h_is_dead(tmp_path):
    alive = train("qrc", "Probe/Trace-v0", steps=200, out=tmp_path / "a")
    names = ("mean_abs_h", "h_to_td_error", "h_td_error_correlation", "correction_share")
    assert set(names) <= set(alive.chunks.column_names)
    assert alive.chunks["correction_share"].to_pylist()[-1] > 0.01
    assert alive.summary["remarks"] == []
    # A β that halves all weights of h in a step, since SGD's step size is 1e-4.
    dead = train(
        "qrc", "Probe/Trace-v0", steps=2000, regularize="parameters", beta=5000.0, seeds=2,
        optimizer="sgd",
    )  # fmt: skip
    (remark,) = dead.summary["remarks"]
    assert remark.startswith("the gradient correction is inactive in 2 of 2 runs: |h| is ")
    assert "regularize is 'parameters'" in remark


def test_the_remark_is_about_the_inactive_runs():
    agent = QLambda(PRESETS["qrc"], default_network((4,), 2))
    columns = {
        "correction_share": np.array([0.5, 0.001, 0.002, np.nan]),
        "h_to_td_error": np.array([40.0, 0.003, 0.005, 70.0]),
    }
    (remark,) = agent.remarks(columns)
    assert remark.startswith("the gradient correction is inactive in 2 of 4 runs: |h| is 0.004 ")


def test_a_rule_that_does_not_regularise_ignores_what_beta_acts_on():
    """So that QRC(λ) with another rule needs no other setting."""
    tdc = train("qrc", "Probe/Trace-v0", steps=200, rule="tdc", optimizer="sgd")
    qc = train("qc", "Probe/Trace-v0", steps=200)
    assert tdc.episodes.equals(qc.episodes)
    name = "mean_abs_h"
    assert tdc.chunks[name].to_pylist() == qc.chunks[name].to_pylist()
    assert tdc.chunks[name].to_pylist()[-1] > 0


def test_an_agent_without_h_has_no_such_columns():
    agent = QLambda(dataclasses.replace(PRESETS["q-lambda"]), default_network((4,), 2))
    columns = agent.report({name: np.ones((1, 3)) for name in ("td_error", "value", "epsilon")})
    assert set(columns) == {"mean_abs_td_error", "max_abs_td_error", "epsilon", "mean_value"}
    assert agent.remarks(columns) == []
