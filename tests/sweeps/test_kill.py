"""Sweeps as processes: killed at any moment, started twice at once, stopped by Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings

import pytest

from eligrad.analysis.load import load_runs
from eligrad.sweeps.driver import run_sweep
from tests.sweeps.small_sweeps import Inline, outcomes, runs_trained

SPEC = """
steps = {steps}
seeds = {seeds}
agents = ["qrc"]
envs = ["Probe/OffPolicy-v0"]
[grid]
lam = {lam}
"""


class Sweeps:
    """`eligrad sweep`, on two workers if nothing else is said, as often as one likes."""

    def __init__(self, folder, steps, workers=2, seeds=3, lam=(0.0, 0.5, 0.8, 0.9)):
        self.workers = str(workers)
        self.spec = folder / "spec.toml"
        self.spec.write_text(SPEC.format(steps=steps, seeds=seeds, lam=list(lam)))

    def start(self, store):
        command = [
            sys.executable,
            "-m",
            "eligrad",
            "sweep",
            str(self.spec),
            "--workers",
            self.workers,
        ]
        return subprocess.Popen(
            [*command, "--store", str(store), "--no-progress"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, store):
        sweep = self.start(store)
        told, _ = sweep.communicate()
        assert sweep.returncode == 0, told
        return told


@pytest.fixture
def sweeps(tmp_path):
    return Sweeps(tmp_path, steps=3000)


def test_killed_with_its_worker(tmp_path):
    """After a checkpoint; the same command again goes on to what an undisturbed sweep comes to."""
    sweeps = Sweeps(tmp_path, steps=9000, workers=1, seeds=2, lam=(0.0, 0.9))
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    run_sweep(sweeps.spec, undisturbed, executor=Inline(workers=1))
    sweep = sweeps.start(store)
    wait_for(lambda: list(store.glob("jobs/*/program/checkpoint-*.npz")), sweep)
    kill(sweep.pid, *children(sweep.pid))
    sweep.communicate()
    assert sweep.returncode == -signal.SIGKILL
    readable(store)
    sweeps.finish(store)
    assert outcomes(store) == outcomes(undisturbed)
    assert list((store / "jobs").iterdir()) == []


@pytest.mark.nightly
def test_two_at_once_one_killed(sweeps, tmp_path):
    """Two sweeps share a store; the one that came first is killed, the other takes over."""
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    run_sweep(sweeps.spec, undisturbed, executor=Inline(workers=1))
    first, second = sweeps.start(store), sweeps.start(store)
    wait_for(lambda: list(store.glob("jobs/*/program/checkpoint-*.npz")), first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    readable(store)
    told, _ = second.communicate()
    assert second.returncode == 0, told
    assert outcomes(store) == outcomes(undisturbed)
    assert list((store / "jobs").iterdir()) == []


@pytest.mark.nightly
def test_ctrl_c_and_again(tmp_path):
    sweeps = Sweeps(tmp_path, steps=20_000)
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    sweeps.finish(undisturbed)
    sweep = sweeps.start(store)
    wait_for(lambda: list(store.glob("jobs/*/program/checkpoint-*.npz")), sweep)
    workers = children(sweep.pid)
    sweep.send_signal(signal.SIGINT)
    told, _ = sweep.communicate()
    assert len(workers) == 2
    assert not [each for each in workers if os.path.exists(f"/proc/{each}")]
    assert sweep.returncode == 130, told
    assert "To continue:" in told
    readable(store)
    sweeps.finish(store)
    assert outcomes(store) == outcomes(undisturbed)
    assert list((store / "jobs").iterdir()) == []


@pytest.mark.nightly
def test_two_at_once_train_each_run_once(sweeps, tmp_path):
    store = tmp_path / "store"
    both = [sweeps.start(store), sweeps.start(store)]
    for sweep in both:
        told, _ = sweep.communicate()
        assert sweep.returncode == 0, told
        assert len(re.findall(" 3/3 ", told)) == 4
    assert len(load_runs(store)) == 12
    assert runs_trained(store) == 12


def wait_for(happens, sweep):
    while not happens():
        assert sweep.poll() is None, sweep.communicate()[0]
        time.sleep(0.02)


def readable(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if (store / "runs").exists():
            assert load_runs(store)["finished"].all()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_five_random_moments(tmp_path, seed):
    """The driver with its workers, or alone; results are those of an undisturbed sweep."""
    dice = random.Random(seed)
    sweeps = Sweeps(tmp_path, steps=20_000)
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    began = time.monotonic()
    sweeps.finish(undisturbed)
    length = time.monotonic() - began
    for _ in range(5):
        sweep = sweeps.start(store)
        time.sleep(dice.uniform(0.1, 0.8) * length)
        kill(sweep.pid, *(children(sweep.pid) if dice.random() < 0.5 else []))
        sweep.communicate()
        readable(store)
    sweeps.finish(store)
    assert outcomes(store) == outcomes(undisturbed)
    assert len(load_runs(store)) == 12
    assert list((store / "jobs").iterdir()) == []


def kill(*processes: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def children(process: int) -> list[int]:
    """The workers of a driver, from what Linux says of processes."""
    found = []
    for status in os.listdir("/proc"):
        if status.isdigit():
            try:
                with open(f"/proc/{status}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == process:
                found.append(int(status))
    return found
