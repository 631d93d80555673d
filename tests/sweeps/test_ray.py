"""The Ray executor on a real local cluster of two workers, one of which is killed."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from eligrad.sweeps.driver import run_sweep
from eligrad.sweeps.executors import make_executor
from tests.sweeps.small_sweeps import Inline, outcomes, small, sweep_and_kill_a_worker

pytest.importorskip("ray", reason="Ray is not installed: pip install 'eligrad[executors]'")
pytestmark = [
    pytest.mark.nightly,
    # Ray itself leaves files open and warns of its own plans.
    pytest.mark.filterwarnings("ignore"),
]
SPEC = small(steps=3000)


@pytest.fixture
def no_accelerator(quick_compilation, monkeypatch):
    """Workers of Ray inherit how this process compiles, and where."""
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def test_a_killed_worker_costs_no_run(no_accelerator, tmp_path):
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    run_sweep(SPEC, undisturbed, executor=Inline())
    executor = make_executor("ray", 2)
    # Ray names the processes that it trains in after the function they run.
    report = sweep_and_kill_a_worker(SPEC, store, executor, b"ray::eligrad_work")
    assert (report.failures, report.unfinished) == ({}, 0)
    assert outcomes(store) == outcomes(undisturbed)


def test_ctrl_c_saves(no_accelerator, tmp_path, monkeypatch):
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    run_sweep(SPEC, undisturbed, executor=Inline())

    def interrupt():
        while not list(store.glob("jobs/*/program/checkpoint-*.npz")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    report = run_sweep(SPEC, store, executor=make_executor("ray", 2))
    assert report.stopped_by == signal.SIGINT
    assert report.failures == {}
    report = run_sweep(SPEC, store, executor=Inline())
    assert (report.failures, report.unfinished) == ({}, 0)
    assert outcomes(store) == outcomes(undisturbed)
