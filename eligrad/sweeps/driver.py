"""Trains all runs of a sweep, each once: plans jobs, starts workers, handles their results."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from eligrad._base.interruption import Interruption
from eligrad.envs.names import module_of
from eligrad.runs.checkpoint import newest_step
from eligrad.runs.configuration import Run
from eligrad.runs.records import JOBS
from eligrad.sweeps.executors import Executor, make_executor
from eligrad.sweeps.jobs import Job, Task, TaskResult, make_jobs
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import Spec, Sweep, read_spec
from eligrad.sweeps.store import Store
from eligrad.sweeps.worker import FULL

POLL = 0.1
"""Seconds between two checks of the workers."""
WAIT = 1.0
"""Seconds between two checks of runs that another process trains."""
ATTEMPTS = 2
"""How often a run is tried before it is reported as failed."""


class StoreFull(OSError):
    """The disk of the store is full; the files in the store are complete."""


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a sweep."""

    store: Path
    runs: tuple[Run, ...]
    """All runs of the sweep."""
    failures: dict[str, str]
    """The traceback of each run that failed, by its name."""
    notes: tuple[str, ...]
    """Messages about damaged files, and about runs that were trained further."""
    stopped_by: int | None
    """The number of the signal that stopped the sweep; None if it was not stopped."""

    @property
    def unfinished(self) -> int:
        """The number of runs that are neither finished nor failed."""
        finished = Store(self.store).finished()
        return sum(run.name not in finished and run.name not in self.failures for run in self.runs)


def run_sweep(
    spec: Spec | Sweep | str | Path,
    store: str | Path,
    *,
    executor: str | Executor = "local",
    workers: int | None = None,
    progress: bool = False,
) -> Report:
    """Trains every run of a spec that the store does not have yet.

    The whole spec is checked before training starts. Call it again after an interruption: finished
    runs are skipped, unfinished ones continue from their checkpoints, failed ones get one more try.
    A run that fails is tried twice and then reported, without stopping the others. The first Ctrl-C
    or SIGTERM saves and returns.

    Args:
        spec: A spec, its only sweep, or the path of a .toml or .py file.
        store: The folder of the runs; a new one, or that of an earlier sweep.
        executor: local, ray or slurm, or an executor that is made already; it is closed at the end.
        workers: How many jobs are trained at once; None lets the executor choose.
        progress: Whether to draw a progress bar.
    """
    spec = as_spec(spec)
    runs = resolve(spec)
    made = make_executor(executor, workers) if isinstance(executor, str) else executor
    return train_runs(runs, store, made, setup=spec.setup, progress=progress)


def as_spec(spec: Spec | Sweep | str | Path) -> Spec:
    """The spec of a file, or of its only sweep."""
    if isinstance(spec, (str, Path)):
        return read_spec(spec)
    return Spec([spec]) if isinstance(spec, Sweep) else spec


def train_runs(
    runs: Sequence[Run],
    store: str | Path,
    executor: Executor,
    *,
    setup: Path | None = None,
    progress: bool = False,
) -> Report:
    """Trains those of the runs that the store does not have yet, as `run_sweep` does.

    Args:
        runs: Runs as `resolve` returns them.
        store: The folder of the runs.
        executor: Starts the workers; it is closed at the end.
        setup: A Python file that workers run first.
        progress: Whether to draw a progress bar.
    """
    with Interruption() as interruption:
        try:
            made = Store(store).create()
            return _Driver(made, runs, executor, setup, interruption, progress).run()
        except OSError as error:
            if error.errno in FULL:
                raise StoreFull(_full(str(error), Path(store))) from error
            raise
        finally:
            executor.close()


class _Driver:
    """The loop of one sweep."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[Run],
        executor: Executor,
        setup: Path | None,
        interruption: Interruption,
        progress: bool,
    ) -> None:
        self.store, self.runs, self.executor = store, tuple(runs), executor
        self.setup = None if setup is None else str(setup)
        self.path = _module_folders(self.runs, setup)
        self.interruption = interruption
        self.notes = store.set_damaged_aside(runs)
        store.tidy()
        # A run that failed in an earlier sweep has had its first attempt.
        self.attempts = {run.name: ATTEMPTS - store.has_failed(run) for run in self.runs}
        self.failures: dict[str, str] = {}
        self.queue: list[Job] = []
        self.running: dict[str, Job] = {}
        self.plan_again_at = 0.0
        self.tried_again: list[tuple[set[str], str]] = []
        """Runs that failed together, and what to say of it."""
        self.bar = _Bar(self.runs, progress)
        for note in self.notes:
            self.bar.say(note)

    def run(self) -> Report:
        """Trains until all runs are finished or failed, or until a signal."""
        stopping = False
        with self.bar:
            while True:
                for task, result in self.executor.poll():
                    self._handle(task.job, result)
                if self.interruption.signal_number is not None and not stopping:
                    stopping = True
                    self.queue = []
                    self.executor.stop()
                if not stopping:
                    self._start()
                if not self.running and (stopping or not self._unfinished()):
                    break
                self.bar.show(self.store, tuple(self.running.values()), self.failures)
                time.sleep(POLL if self.running else WAIT)
            self.bar.show(self.store, (), self.failures)
        # Of those that failed for good, `failures` says more.
        failed_once = [
            message for names, message in self.tried_again if names.isdisjoint(self.failures)
        ]
        return Report(
            self.store.path,
            self.runs,
            self.failures,
            (*self.notes, *failed_once),
            self.interruption.signal_number,
        )

    def _unfinished(self) -> list[Run]:
        """The runs that are neither finished nor failed."""
        done = self.store.finished().keys() | self.failures.keys()
        return [run for run in self.runs if run.name not in done]

    def _start(self) -> None:
        if self.executor.room() < 1:
            return
        if not self.queue and time.monotonic() >= self.plan_again_at:
            self.queue = self._plan()
            # Runs of other processes are checked now and then; after a job of this one, at once.
            self.plan_again_at = 0.0 if self.queue else time.monotonic() + WAIT
        while self.queue and self.executor.room() > 0:
            job = self.queue.pop(0)
            self.running[job.id] = job
            store = os.path.abspath(self.store.path)  # a worker may begin in another folder
            self.executor.start(Task(store, job, self.setup, self.path))

    def _plan(self) -> list[Job]:
        """Jobs to continue from their checkpoint, runs that failed before, each alone, the rest.

        A job in the store is continued only if this sweep asked for each of its runs.
        """
        running = {run.name for job in self.running.values() for run in job.runs}
        missing = {run.name: run for run in self._unfinished() if run.name not in running}
        jobs = []
        for job, names in self.store.jobs().items():
            if job in self.running or missing.keys().isdisjoint(names):
                continue
            if self.store.is_claimed(job):  # another sweep trains it
                for name in names:
                    missing.pop(name, None)
            elif missing.keys() >= set(names):
                jobs.append(Job(tuple(missing.pop(name) for name in names)))
        failed = [run for run in missing.values() if self.store.has_failed(run)]
        jobs += [Job((missing.pop(run.name),)) for run in failed]
        fresh = list(missing.values())
        return jobs + make_jobs(fresh, self.executor.workers, divide=self.executor.divide)

    def _handle(self, job: Job, result: TaskResult) -> None:
        del self.running[job.id]
        self.plan_again_at = time.monotonic() + WAIT if result.status == "taken" else 0.0
        for note in result.notes:
            self.notes.append(note)
            self.bar.say(note)
        if result.status == "disk full":
            self.executor.stop()
            raise StoreFull(_full(result.message, self.store.path))
        if result.status in ("failed", "died"):
            self._failed(job, result.message)

    def _failed(self, job: Job, trace: str) -> None:
        for run in job.runs:
            self.store.record_failure(run, trace)
            self.attempts[run.name] -= 1
        names = [run.name for run in job.runs]
        given_up = [name for name in names if self.attempts[name] <= 0]
        if given_up and len(names) > 1:  # the others may succeed alone
            self.store.drop(job)
            self.attempts |= dict.fromkeys(names, 1)
            given_up = []
        self.failures |= dict.fromkeys(given_up, trace)
        next_step = "given up" if given_up else "tried once more"
        last_line = trace.strip().rpartition("\n")[2]
        count = "1 run" if len(names) == 1 else f"{len(names)} runs"
        message = f"{count} failed and {next_step}: {last_line}"
        self.bar.say(message)
        self.tried_again.append((set(names), message))


def _module_folders(runs: Sequence[Run], setup: Path | None) -> tuple[str, ...]:
    """Where workers look for modules that the runs name or the setup file imports."""
    named = setup is not None or any(module_of(str(run.configuration.env)) for run in runs)
    return tuple(os.path.abspath(folder) for folder in sys.path) if named else ()


def _full(message: str, store: Path) -> str:
    return f"{message}; the files in {store} are sound: free some space and run the command again"


class _Bar:
    """A progress bar of the environment steps of all runs, as of their checkpoints."""

    def __init__(self, runs: Iterable[Run], show: bool) -> None:
        self._runs = list(runs)
        self._bar = tqdm(
            total=sum(run.configuration.steps for run in self._runs),
            unit="step",
            unit_scale=True,
            dynamic_ncols=True,
            disable=not show,
            # In a log file every update is a new line.
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
        )
        self._first, self._shown_at = True, 0.0

    def show(self, store: Store, running: Sequence[Job], failures: dict[str, str]) -> None:
        """Draws the bar, if some time has passed or nothing is running."""
        if self._bar.disable:
            return
        if running and time.monotonic() - self._shown_at < self._bar.mininterval:
            return
        done = store.finished()
        finished = [run for run in self._runs if run.name in done]
        steps = sum(run.configuration.steps for run in finished)
        for job in running:
            steps += len(job.runs) * newest_step(store.path / JOBS / job.id / "program")
        if self._first:  # steps of earlier sweeps do not count for the speed
            self._first, self._bar.initial = False, steps
        self._bar.n = steps
        text = f"{len(finished)}/{len(self._runs)} runs"
        text += f", {sum(len(job.runs) for job in running)} running" if running else ""
        text += f", {len(failures)} failed" if failures else ""
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.refresh()
        self._shown_at = time.monotonic()

    def say(self, message: str) -> None:
        """Prints a line above the bar; without a bar nothing, since the report has it."""
        if not self._bar.disable:
            self._bar.write(message)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
