"""Real workers with a faked training: killed alone, for two sweeps at once; and very many jobs."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eligrad.runs.folder import RunFolder
from eligrad.sweeps import driver
from eligrad.sweeps import store as stores
from eligrad.sweeps.driver import run_sweep, train_runs
from eligrad.sweeps.executors import local
from eligrad.sweeps.executors.local import LocalExecutor
from eligrad.sweeps.jobs import Job, Task, TaskResult
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import read_spec
from eligrad.sweeps.store import Store
from tests.sweeps.small_sweeps import Inline, outcomes, quick_training, runs_trained, small

__all__ = ["quick_training"]
SPEC = f"""
import sys
from eligrad.sweeps import Sweep
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.sweeps import small_sweeps

sweep = Sweep(["qrc"], ["Probe/OffPolicy-v0"], 2000, 2, grid=dict(optimizer=["sgd", "adam"]))
worker = sys.modules["__main__"]
if hasattr(worker, "work_on_one_core"):
    small_sweeps.PAUSE = 0.15
    worker.train, worker.resume = small_sweeps.quick_train, small_sweeps.quick_resume
"""


@pytest.fixture
def spec(tmp_path):
    """Two jobs of two runs each; where a worker reads it, it does not really train."""
    (tmp_path / "spec.py").write_text(SPEC)
    return tmp_path / "spec.py"


@pytest.fixture
def expected(spec, tmp_path, quick_training, monkeypatch):
    run_sweep(spec, tmp_path / "undisturbed", executor=Inline(workers=1))
    monkeypatch.setattr(driver, "POLL", 0.1)  # workers need the core more than who waits for them
    return outcomes(tmp_path / "undisturbed")


def has_saved(store, job) -> bool:
    return bool(list(store.glob(f"jobs/{job.id}/program/checkpoint-*.npz")))


def test_two_sweeps_at_once_and_a_worker_is_killed(spec, tmp_path, expected):
    """Each run is trained once; that of the killed worker goes on from its checkpoint."""
    store, executors = tmp_path / "store", [LocalExecutor(1), LocalExecutor(1)]
    Store(store).create()  # two threads of one process must not write the same file
    read = read_spec(spec)
    runs, reports = resolve(read), []

    def sweep(executor):
        reports.append(train_runs(runs, store, executor, setup=read.setup))

    both = [threading.Thread(target=sweep, args=(each,)) for each in executors]
    for thread in both:
        thread.start()
    saved = []
    while not saved:
        assert any(thread.is_alive() for thread in both)
        processes = [process for executor in executors for process in executor._running]
        jobs = [each.task.job for each in processes if each.popen.poll() is None]
        # Of two workers with the same job one finds it taken, and ends.
        saved = [
            each
            for each in processes
            if jobs.count(each.task.job) == 1 and has_saved(store, each.task.job)
        ]
        time.sleep(0.01)
    (process, *_) = saved
    os.kill(process.popen.pid, signal.SIGKILL)
    for thread in both:
        thread.join()
    assert process.popen.returncode == -signal.SIGKILL
    assert len(reports) == 2
    for report in reports:
        assert (report.failures, report.unfinished) == ({}, 0)
    (note,) = [note for report in reports for note in report.notes]
    assert "2 runs failed and tried once more: the worker ended" in note
    assert outcomes(store) == expected
    assert list((store / "jobs").iterdir()) == list((store / "failures").iterdir()) == []
    # One job of two runs twice, the other one once.
    assert runs_trained(store) == 2 * 2 + 2


HANGS = """
import signal, threading, time
from eligrad.sweeps import worker
worker.PATIENCE = 0.5
signal.signal(signal.SIGTERM, lambda *_: None)
threading.Thread(target=worker._stop_with_the_driver, daemon=True).start()
time.sleep(600)
"""


def test_a_worker_that_hangs_ends_after_its_driver():
    """Else its job would stay locked for ever."""
    command, closed = [sys.executable, "-c", HANGS], subprocess.DEVNULL
    done = subprocess.run(command, stdin=closed, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'File "<string>", line 7 in <module>' in done.stderr


SLEEPS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.{action})
sys.stdin.readline()
print("ready", file=sys.stderr, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("action", ["SIG_DFL", "SIG_IGN"])
def test_no_process_and_no_open_file_is_left(tmp_path, monkeypatch, action):
    """After Ctrl-C, whether workers listen or not."""
    program = SLEEPS.format(action=action)
    monkeypatch.setattr(local, "_PYTHON", (sys.executable, "-c", program))
    store = Store(tmp_path / "store").create()
    files = sorted(os.listdir("/proc/self/fd"))
    executor = LocalExecutor(2)
    for run in resolve(small(seeds=1)):
        executor.start(Task(str(store.path), Job((run,))))
    processes = [process.popen.pid for process in executor._running]
    logs = list((store.path / "logs").iterdir())
    while [log.read_text() for log in logs] != ["ready\n"] * 2:
        time.sleep(0.01)
    executor.stop()
    ended = []
    while action == "SIG_DFL" and len(ended) < 2:
        ended += executor.poll()
    assert [result.status for _, result in ended] == ["stopped"] * len(ended)
    executor.close()
    assert not [each for each in processes if os.path.exists(f"/proc/{each}")]
    assert sorted(os.listdir("/proc/self/fd")) == files


@pytest.mark.nightly
@pytest.mark.parametrize("leaves", ["os._exit(3)", "sys.exit(3)"])
def test_a_program_that_leaves_the_process(tmp_path, leaves):
    """Both runs are tried again, each alone, and then given up with the reason."""
    text = SPEC.replace(
        "    small_sweeps.PAUSE", f"    import os; {leaves}\n    small_sweeps.PAUSE"
    )
    (tmp_path / "spec.py").write_text(text.replace('["sgd", "adam"]', '["sgd"]'))
    report = run_sweep(tmp_path / "spec.py", tmp_path / "store", executor=LocalExecutor(1))
    assert len(report.failures) == 2
    for reason in report.failures.values():
        assert "the worker ended with exit code 3" in reason


class Instant(Inline):
    """Finishes each job at once, in one process."""

    store = None

    def start(self, task):
        self.tasks.append(task)
        self.store = self.store or Store(task.store)
        claim = self.store.claim(task.job)
        (run,) = claim.job.runs
        folder = RunFolder(claim.program)
        plan = dataclasses.asdict(run.configuration) | {"seeds": [run.seed]}
        folder.write_config({"plan": plan, "sessions": []})
        numbers = {"seed": run.seed, "return_last": 1.0, "return_all": 1.0, "return_area": 1.0}
        summary = {"steps": plan["steps"], "finished": True, "seeds": [numbers]}
        folder.write_summary(summary | {"seconds": 1.0, "steps_per_second": 1.0})
        self.store.finish(claim)
        self._ended.append((task, TaskResult("finished")))


def test_five_hundred_jobs(tmp_path, monkeypatch, quick_training):
    """No folder is read again for each job that ends."""
    reads, read_folder = [], stores.read_folder
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(stores, "read_folder", lambda *a: (reads.append(a), read_folder(*a))[1])
    executor = Instant(workers=500)
    report = run_sweep(small(seeds=250), tmp_path / "store", executor=executor)
    assert len(executor.tasks) == 500
    assert (report.failures, report.notes) == ({}, ())
    # Once by what trains, once by what plans.
    assert len(reads) <= 2 * 500
    assert report.unfinished == 0


@pytest.mark.parametrize(
    ("memory", "workers"), [(float("inf"), 4), (2.5 * local.MEMORY_EACH, 2), (0.0, 1)]
)
def test_workers_by_cores_and_memory(memory, workers, monkeypatch):
    """Where the memory is not known, it is infinite."""
    monkeypatch.setattr(local, "cores", lambda: 4)
    monkeypatch.setattr(local, "available_memory", lambda: memory)
    assert local.cores_and_memory() == workers
