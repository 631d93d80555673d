"""The shared side of a store: who trains what, and how finished work takes its place.

    STORE/runs/<configuration hash>-s<seed>/    finished runs, one folder each
    STORE/jobs/<id>/                            a program on its way: job.json, program/, outbox/
    STORE/jobs/<id>.lock                        held by whoever trains it, freed when that one dies
    STORE/failures/<run>.json                   what went wrong, with its traceback
    STORE/logs/<id>.log                         what a worker printed

A run belongs to at most one job. What a job leaves behind is built in its `outbox/` and marked as
ready; from then on anyone can deliver it, by renaming. Nothing is ever seen half.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import read_json, write_json
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.configuration import Run
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables
from eligrad.runs.records import DAMAGE, FAILURES, JOBS, RUNS, read_folder, summary_of_run
from eligrad.runs.summary import summarise
from eligrad.sweeps.jobs import Job

FORMAT = 1
"""Version of the layout."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A job that is this process's own until `release`, or until the process ends."""

    job: Job
    folder: Path
    lock: filelock.BaseFileLock

    @property
    def program(self) -> Path:
        """The run folder of the program, all its runs together."""
        return self.folder / "program"

    @property
    def outbox(self) -> Path:
        """Where run folders and jobs are made ready, under `runs/` and `jobs/`."""
        return self.folder / "outbox"

    def release(self) -> None:
        """Lets others have the job."""
        self.lock.release()


class Store:
    """A folder that several processes of one machine may train into at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def create(self) -> Store:
        """Makes the folder, or accepts the one that is there."""
        about = self.path / "store.json"
        if about.exists():
            written = read_json(about)["format"]
            if written != FORMAT:
                raise ValueError(
                    f"{self.path} is a store of format {written}; this eligrad knows {FORMAT}"
                )
        else:
            if self.path.exists() and not _is_empty(self.path):
                raise FileExistsError(
                    f"{self.path} is no store, and not empty; choose another folder for the sweep"
                )
            # First of all: a folder with anything else in it would not be taken for a store.
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(about, {"format": FORMAT})
        for name in (RUNS, JOBS, FAILURES, "logs"):
            (self.path / name).mkdir(exist_ok=True)
        return self

    def log(self, job: Job) -> Path:
        """Where a worker's words go."""
        return self.path / "logs" / f"{job.id}.log"

    # Runs

    def run_folder(self, run: Run) -> Path:
        """Where a finished run is."""
        return self.path / RUNS / run.name

    def is_finished(self, run: Run) -> bool:
        """Whether a run is there; it is complete if it is."""
        return self.run_folder(run).is_dir()

    def summary(self, run: Run) -> dict[str, Any] | None:
        """What came of a run; None if it is not there. Steps after those asked for do not count."""
        folder, steps = self.run_folder(run), run.configuration.steps
        if not folder.is_dir():
            return None
        record = read_folder(folder, self.path)[0]
        if record.configuration.steps == steps:
            return record.summary
        tables = RunFolder(folder).tables()
        asked_for = Tables(*(table.filter(np.asarray(table["step"]) <= steps) for table in tables))
        return summary_of_run(summarise(asked_for, [run.seed], steps), 0)

    def set_damaged_aside(self, runs: Iterable[Run]) -> list[str]:
        """Renames finished runs that are damaged; says so, and which runs were trained further."""
        notes = []
        for run in runs:
            folder = self.run_folder(run)
            if not folder.is_dir():
                continue
            try:
                if (wrong := what_is_wrong(folder)) is not None:
                    raise DamagedFileError(wrong)
                if (steps := _steps_of(folder, run)) > run.configuration.steps:
                    notes.append(
                        f"{folder} was trained further, to {steps:,} steps, and stays as it is; "
                        f"the sweep counts its first {run.configuration.steps:,}"
                    )
            except ValueError as error:
                free = (folder.with_name(f"{run.name}.damaged-{n}") for n in itertools.count(1))
                aside = next(path for path in free if not path.exists())
                folder.rename(aside)
                notes.append(f"{error}; the run is put aside as {aside.name} and trained again")
        return notes

    # Jobs

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes who trains what meanwhile; for moments only."""
        with filelock.FileLock(self.path / ".lock"):
            yield

    def tidy(self) -> None:
        """Ends what owners that died left half made, half moved or half removed."""
        with self.locked():
            for job in self.jobs():
                folder = self._folder(job)
                if (folder / "ready").exists() and (lock := self._acquired(job)) is not None:
                    self._move_and_remove(Claim(job, folder, lock))
            for folder in (self.path / JOBS).glob(".*.done"):
                shutil.rmtree(folder)
            for folder in (self.path / JOBS).glob("*/"):
                if folder.is_dir() and not (folder / "job.json").exists():
                    shutil.rmtree(folder)
            for lock in (self.path / JOBS).glob("*.lock"):
                if not lock.with_suffix("").exists():
                    lock.unlink()

    def jobs(self) -> list[Job]:
        """Jobs that were begun and have not been delivered, whether somebody trains them or not."""
        found = []
        for path in sorted((self.path / JOBS).glob("*/job.json")):
            try:
                job = Job.from_json(read_json(path))
                if job.id != path.parent.name:
                    raise DamagedFileError(f"{path} is damaged: it is another job's")
                found.append(job)
            except FileNotFoundError:
                continue  # somebody delivered it meanwhile
            except DAMAGE as error:
                named = isinstance(error, DamagedFileError)
                wrong = str(error) if named else f"{path} is damaged: {error!r}"
                warnings.warn(f"{wrong}; the job is left out", DamagedFileWarning, stacklevel=2)
        return found

    def is_claimed(self, job: Job) -> bool:
        """Whether a living process has the job."""
        with self.locked():
            lock = self._acquired(job)
            if lock is not None:
                lock.release()
            return lock is None

    def claim(self, job: Job) -> Claim | None:
        """Takes a job, without the runs that are finished or in another job; None if none is left.

        A job whose owner died is taken as it was left, to go on from its checkpoint.
        """
        with self.locked():
            folder = self._folder(job)
            if not (folder / "job.json").exists():
                others = {run.name for other in self.jobs() for run in other.runs}
                left = [r for r in job.runs if not self.is_finished(r) and r.name not in others]
                job = Job(tuple(left))
                folder = self._folder(job)
                if not left:
                    return None
            lock = self._acquired(job)
            if lock is None:
                return None
            folder.mkdir(exist_ok=True)
            if not (folder / "job.json").exists():
                write_json(folder / "job.json", job.to_json())
            return Claim(job, folder, lock)

    def deliver(self, claim: Claim) -> None:
        """Moves what is in the outbox to its place, and removes the job; can be repeated."""
        with self.locked():
            (claim.folder / "ready").touch()
            self._move_and_remove(claim)

    def _move_and_remove(self, claim: Claim) -> None:
        for kind in (RUNS, JOBS):
            for made in sorted((claim.outbox / kind).glob("*")):
                target = self.path / kind / made.name
                if not target.exists():
                    made.rename(target)
        for run in claim.job.runs:
            if self.is_finished(run):
                self.forget_failure(run)
        leaving = claim.folder.rename(claim.folder.with_name(f".{claim.job.id}.done"))
        shutil.rmtree(leaving)
        (self.path / JOBS / f"{claim.job.id}.lock").unlink()
        claim.release()

    def is_ready(self, claim: Claim) -> bool:
        """Whether the outbox is complete, and only to be delivered."""
        return (claim.folder / "ready").exists()

    def _folder(self, job: Job) -> Path:
        return self.path / JOBS / job.id

    def _acquired(self, job: Job) -> filelock.BaseFileLock | None:
        lock = filelock.FileLock(self.path / JOBS / f"{job.id}.lock")
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return None
        return lock

    # Failures

    def record_failure(self, run: Run, trace: str) -> None:
        """Writes down why a run failed, until it succeeds."""
        write_json(
            self._failure(run),
            {
                "run": run.name,
                "configuration": dataclasses.asdict(run.configuration),
                "seed": run.seed,
                "traceback": trace,
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            },
        )

    def has_failed(self, run: Run) -> bool:
        """Whether a failure is written down."""
        return self._failure(run).exists()

    def forget_failure(self, run: Run) -> None:
        """A run that succeeded has not failed."""
        self._failure(run).unlink(missing_ok=True)

    def _failure(self, run: Run) -> Path:
        return self.path / FAILURES / f"{run.name}.json"


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what somebody is just writing."""
    return path.is_dir() and all(each.name.endswith(".partial") for each in path.iterdir())


def _steps_of(folder: Path, run: Run) -> int:
    """How many steps a run is planned for by now; refuses the folder of another run."""
    try:
        (record,) = read_folder(folder, folder)
    except DAMAGE as error:
        if isinstance(error, (OSError, DamagedFileError)):
            raise
        raise DamagedFileError(f"{folder} is damaged: {error!r}") from error
    steps = record.configuration.steps
    asked_for = dataclasses.replace(record.configuration, steps=run.configuration.steps)
    if Run(asked_for, record.seed).name != run.name or steps < run.configuration.steps:
        raise DamagedFileError(f"{folder / 'config.json'} is damaged: it is another run's")
    return steps
