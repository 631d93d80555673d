"""Corners that are easy to get wrong."""

from __future__ import annotations

import inspect
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad._base.files import write_json
from eligrad.agents import PRESETS, QLambda, from_equinox
from eligrad.engines import Online, Runs
from eligrad.engines.devices import compile_seconds
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import streaming_mlp
from eligrad.runs import provenance
from eligrad.runs.plan import checkpoint_every_for
from eligrad.training import prepare, train
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quickest_compilation")


class Goals(Environment):
    """Pays the sum of a vector that is a parameter."""

    name = "Goals"
    observation_space = Box(-np.inf, np.inf, (2,))
    action_space = Discrete(2)

    def default_params(self):
        return {"goal": jnp.array([0.5, 2.0])}

    def reset(self, key, params):
        return jnp.int32(0), jnp.zeros(2)

    def step(self, key, state, action, params):
        reward = jnp.sum(params["goal"])
        return Step(state, jnp.zeros(2), reward, jnp.array(True), jnp.array(False))


def agent() -> QLambda:
    network = from_equinox(lambda key, s: streaming_mlp(2, 2, hidden=(4,), sparsity=s, key=key))
    return QLambda(PRESETS["qrc"], network)


def test_a_vector_among_the_parameters_is_shared_and_not_dealt_out():
    two = np.arange(2)
    shared = Runs(agent(), Goals(), Goals().default_params(), two, two).advance(1)
    np.testing.assert_allclose(shared.episode_return[:, 0], 2.5)
    each = {"goal": jnp.array([[1.0, 2.0], [3.0, 4.0]])}
    own = Runs(agent(), Goals(), each, two, two).advance(1)
    np.testing.assert_allclose(own.episode_return[:, 0], [3.0, 7.0])
    with pytest.raises(ValueError, match=r"shape \(3, 2\) for 2 runs"):
        Runs(agent(), Goals(), {"goal": jnp.ones((3, 2))}, two, two)


def test_an_interrupted_stream_loses_nothing_and_leaks_nothing():
    online = Online(agent())
    zeros = np.zeros(2, np.float32)
    assert online.interrupt(zeros) in (0, 1)  # an ordinary beginning
    online.observe(zeros, 3.0)
    online.observe(zeros, 5.0, terminated=True)
    online.interrupt(zeros)
    assert online.steps == 2  # the end was learned from
    online.observe(zeros, 7.0)
    assert online.state.normalizer.rewards.trace != 0
    online.interrupt(zeros)
    assert online.state.normalizer.rewards.trace == 0


def test_runs_record_the_simulators():
    assert {"gymnasium", "mujoco", "minatar", "gymnax"} <= set(provenance.provenance()["versions"])


def test_arrays_that_cannot_be_learned_are_refused():
    class Indexed(eqx.Module):
        weight: jax.Array
        index: jax.Array

        def __call__(self, x):
            return x[self.index] * self.weight

    with pytest.raises(ValueError, match=r"\.index has dtype int32"):
        from_equinox(lambda key, s: Indexed(jnp.ones(2), jnp.arange(2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunk": 0}, "chunk is 0"),
        ({"exploration_fraction": -1.0}, r"exploration_fraction is -1\.0"),
        ({"lam": [0.7, 0.8]}, r"lam is \[0\.7, 0\.8\]; one value"),
        ({"kappa": 0.0}, r"kappa is 0\.0"),
    ],
)
def test_wrong_arguments_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        train("qrc", "Probe/Action-v0", **{"steps": 10, **wrong})


def test_a_growing_run_is_saved_more_seldom():
    assert checkpoint_every_for(5_000_000, 1000) == 250_000


@pytest.mark.parametrize("preset", ["qc", "gq2", "q-lambda", "stream-q"])
def test_presets_record_the_beta_they_use(preset):
    assert PRESETS[preset].beta == 0.0


def test_help_says_that_training_returns_a_result():
    told = inspect.signature(train)
    assert told.return_annotation == train.__annotations__["return"] == "Result"
    assert told.parameters == inspect.signature(prepare).parameters
    assert prepare.__annotations__["return"] == "Session"


def test_a_folder_that_is_missing_is_named(tmp_path):
    path = tmp_path / "nodir" / "x.json"
    with pytest.raises(
        FileNotFoundError, match=f"there is no folder {path.parent} to write x.json"
    ):
        write_json(path, {})


def test_speed_excludes_compiling_also_of_a_single_chunk(monkeypatch):
    """By clocks that tick as told: 10 s to compile, then 2 s for 100 steps of two runs."""
    now, compiled = [0.0], [0.0]
    monkeypatch.setattr("eligrad.training.session.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("eligrad.training.session.compile_seconds", lambda: compiled[0])
    session = prepare(tiny.agent(), tiny.ENV, steps=100, seeds=2, chunk=100)
    advance = session.engine.advance

    def slowly(steps):
        now[0] += 12.0
        compiled[0] += 10.0
        return advance(steps)

    monkeypatch.setattr(session.engine, "advance", slowly)
    now[0] += 1.0  # between the making of the session and its start: no time of training
    summary = session.run().summary
    assert summary["steps_per_second"] == pytest.approx(100.0)
    assert (summary["seconds"], summary["startup_seconds"]) == (12.0, 10.0)


def test_compiling_is_timed_once_where_functions_are_nested():
    inner = jax.jit(lambda x: jnp.sin(x) + 1)
    began, before = time.perf_counter(), compile_seconds()
    jax.jit(lambda x: inner(x) * inner(x + 1))(jnp.ones(7)).block_until_ready()
    assert 0 < compile_seconds() - before <= time.perf_counter() - began
