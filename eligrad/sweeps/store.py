"""The store of a sweep: finished runs, jobs that are being trained, and failures.

    STORE/runs/<job>/           a finished job: one run folder with all its runs
    STORE/jobs/<job>/           a job that is being trained: job.json, and its run folder program/
    STORE/jobs/<job>.lock       locked by the process that trains the job, until that process ends
    STORE/failures/<run>.json   why a run failed, with its traceback
    STORE/logs/<job>.log        what the workers of a job printed

A finished job takes its place in `runs/` by one rename. Runs are found by what the `config.json` of
a folder says, whatever the folder is called. Nothing in a store is executed, and nothing is trained
because a store asks for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import itertools
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import filelock
import numpy as np

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import make_folder, read_json, sealed, sync_folder, write_json
from eligrad.runs.checksums import what_is_wrong, write_checksums
from eligrad.runs.configuration import Run
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables
from eligrad.runs.records import DAMAGE, FAILURES, JOBS, RUNS, Record, read_folder, summary_of_run
from eligrad.runs.summary import summarise
from eligrad.sweeps.jobs import Job

LOGS = "logs"
FORMAT = 2
"""Version of the layout. In stores of version 1 every run has a folder of its own."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A job that no other process trains until `release`, or until this process ends."""

    job: Job
    folder: Path
    lock: filelock.BaseFileLock

    @property
    def program(self) -> Path:
        """The run folder of all runs of the job."""
        return self.folder / "program"

    def release(self) -> None:
        """Lets other processes train the job."""
        self.lock.release()


class Store:
    """A folder that several processes of one machine may train into at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._read: dict[tuple[str, int], dict[str, Record]] = {}
        """The finished runs of each folder in `runs/`, as of the time its config was written."""

    def create(self) -> Store:
        """Makes the folder, or accepts the store that is there."""
        about = self.path / "store.json"
        if about.exists():
            written = _format(about)
        elif self.path.exists() and not _is_empty(self.path):
            raise FileExistsError(
                f"{self.path} is no store, and not empty; choose another folder for the sweep"
            )
        else:
            written = 0
        # Written first: a folder with anything else in it is not accepted as a store.
        make_folder(self.path)
        if written < FORMAT:
            write_json(about, sealed({"format": FORMAT}))
        for name in (RUNS, JOBS, FAILURES, LOGS):
            folder = self.path / name
            if folder.is_symlink():
                raise DamagedFileError(
                    f"{folder} is a link to {folder.readlink()}; files there would be renamed and "
                    "removed: only a folder is accepted"
                )
            make_folder(folder)
        return self

    def open_log(self, job: Job) -> IO[str]:
        """A file for what the workers of a job print."""
        # Neither a link to another file nor a pipe, on which it would wait for ever.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        path = self.path / LOGS / f"{job.id}.log"
        return open(
            path, "a", encoding="utf-8", opener=lambda name, mode: os.open(name, mode | flags)
        )

    # Runs

    def finished(self) -> dict[str, Record]:
        """All finished runs by name, each as its folder has it now.

        A run that was trained further also counts as the shorter one that it was.
        """
        read = {}
        for as_of in self._run_folders():
            try:
                known = as_of in self._read
                read[as_of] = self._read[as_of] if known else _runs_in(Path(as_of[0]))
            except DamagedFileError as error:
                read[as_of] = {}
                warnings.warn(f"{error}; left out", DamagedFileWarning, stacklevel=2)
        self._read = read
        return {name: record for runs in read.values() for name, record in runs.items()}

    def summaries(self, runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
        """The results of these runs that are finished, by name, after the steps asked for."""
        finished = self.finished()
        return {
            run.name: _summary(finished[run.name], run.configuration.steps)
            for run in runs
            if run.name in finished
        }

    def set_damaged_aside(self, runs: Iterable[Run]) -> list[str]:
        """Renames damaged folders of these runs, and folders that cannot be read.

        Returns a note for each of them, and for each folder that was trained further.
        """
        steps = {run.name: run.configuration.steps for run in runs}
        notes = []
        for folder in [Path(path) for path, _ in self._run_folders()]:
            try:
                wanted = {name: each for name, each in _runs_in(folder).items() if name in steps}
                if wanted and (wrong := what_is_wrong(folder)) is not None:
                    raise DamagedFileError(wrong)
            except DamagedFileError as error:
                aside = _set_aside(folder)
                notes.append(f"{error}; {folder} is renamed to {aside.name} and trained again")
                continue
            for name, record in wanted.items():
                if (now := record.configuration.steps) > steps[name]:
                    notes.append(
                        f"{folder} was trained further, to {now:,} steps, and stays as it is; "
                        f"the sweep counts its first {steps[name]:,}"
                    )
                    break
        return notes

    def _run_folders(self) -> Iterator[tuple[str, int]]:
        """The run folders in `runs/`, and when the config of each was written."""
        # Strings: there may be thousands, which are looked at again and again.
        runs = str(self.path / RUNS)
        for name in sorted(os.listdir(runs)):
            if not name.startswith(".") and ".damaged" not in name:
                folder = f"{runs}/{name}"
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    yield folder, os.stat(f"{folder}/config.json").st_mtime_ns

    # Jobs

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Within this context no other process claims or finishes a job; for moments only."""
        lock = filelock.FileLock(self.path / ".lock")
        try:
            lock.acquire()
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            raise OSError(
                f"the disk of {self.path} has no file locks, which the store of a sweep needs "
                f"({error.strerror}); choose a folder on another disk"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def tidy(self) -> None:
        """Removes what processes that died have left: jobs that are finished or half removed."""
        with self.locked():
            finished = self.finished()
            for job, names in self.jobs().items():
                if not finished.keys().isdisjoint(names):
                    self._remove(job)
            for folder in (self.path / JOBS).glob(".*.removed"):
                shutil.rmtree(folder)
            for folder in (self.path / JOBS).iterdir():
                if folder.is_dir() and not (folder / "job.json").exists():
                    shutil.rmtree(folder)
            for lock in (self.path / JOBS).glob("*.lock"):
                if not lock.with_suffix("").exists():
                    lock.unlink()

    def jobs(self) -> dict[str, list[str]]:
        """The names of the runs of each job that was begun and is not finished, by the job's id."""
        found = {}
        for path in sorted((self.path / JOBS).glob("[!.]*/job.json")):
            try:
                job = Job.from_json(read_json(path))
                if job.id != path.parent.name:
                    raise DamagedFileError(f"{path} is damaged: it is another job's")
                found[job.id] = [run.name for run in job.runs]
            except FileNotFoundError:
                continue  # it was finished in the meantime
            except DAMAGE as error:
                wrong = _as_damage(error, path)
                warnings.warn(f"{wrong}; the job is left out", DamagedFileWarning, stacklevel=2)
        return found

    def is_claimed(self, job: str) -> bool:
        """Whether a living process trains the job of this id."""
        with self.locked():
            return self._is_locked(job)

    def claim(self, job: Job) -> Claim | None:
        """Takes a job, less the runs that are finished or that another process trains.

        None if no run is left. A job that was begun before continues from its checkpoint.
        """
        with self.locked():
            taken = set(self.finished())
            for other, names in self.jobs().items():
                if self._is_locked(other):
                    taken.update(names)
            job = Job(tuple(run for run in job.runs if run.name not in taken))
            lock = self._lock(job.id) if job.runs else None
            if lock is None:
                return None
            folder = self.path / JOBS / job.id
            folder.mkdir(exist_ok=True)
            write_json(folder / "job.json", job.to_json())
            return Claim(job, folder, lock)

    def finish(self, claim: Claim) -> None:
        """Moves the run folder of a trained job to `runs/`, and removes the job."""
        write_checksums(claim.program)
        with self.locked():
            if self.finished().keys().isdisjoint(run.name for run in claim.job.runs):
                target = self.path / RUNS / claim.job.id
                if target.exists():  # damaged since this sweep began
                    _set_aside(target)
                claim.program.rename(target)
                sync_folder(target.parent)
            for run in claim.job.runs:
                self._failure(run).unlink(missing_ok=True)
            claim.release()
            self._remove(claim.job.id)

    def drop(self, job: Job) -> None:
        """Removes a job with its checkpoints, unless another process trains it."""
        with self.locked():
            self._remove(job.id)

    def _remove(self, job: str) -> None:
        lock = self._lock(job)
        if lock is None:
            return
        folder = self.path / JOBS / job
        if folder.exists():
            # Gone at once for others, whatever happens while its files are removed.
            shutil.rmtree(folder.rename(folder.with_name(f".{job}.removed")))
        lock.release()
        # A lock on a disk without flock removes its file itself.
        (self.path / JOBS / f"{job}.lock").unlink(missing_ok=True)

    def _is_locked(self, job: str) -> bool:
        lock = self._lock(job)
        if lock is not None:
            lock.release()
        return lock is None

    def _lock(self, job: str) -> filelock.BaseFileLock | None:
        lock = filelock.FileLock(self.path / JOBS / f"{job}.lock")
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

    def _failure(self, run: Run) -> Path:
        return self.path / FAILURES / f"{run.name}.json"


def _format(about: Path) -> int:
    """The format of a store; `DamagedFileError` for none that this version reads."""
    content = read_json(about)
    if not isinstance(content, dict) or content.keys() != {"format"}:
        raise DamagedFileError(f"{about} is damaged: it does not say the format of a store")
    written = content["format"]
    if type(written) is not int or not 1 <= written <= FORMAT:
        raise DamagedFileError(
            f"{about} is damaged, or of a later eligrad: the store has format {written!r}; this "
            f"eligrad reads 1 to {FORMAT}"
        )
    return written


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what another process is writing."""
    return path.is_dir() and all(each.name.endswith(".partial") for each in path.iterdir())


def _runs_in(folder: Path) -> dict[str, Record]:
    """The finished runs of a folder, by name; `DamagedFileError` where it cannot be read."""
    found = {}
    try:
        for record in read_folder(folder, folder):
            # Training went on from a step: up to there it is a run of its own.
            steps = {session.get("from_step", 0) for session in record.sessions} - {0}
            if record.finished:
                steps.add(record.step)
            for each in steps:
                configuration = dataclasses.replace(record.configuration, steps=each)
                found[Run(configuration, record.seed).name] = record
    except DAMAGE as error:
        raise _as_damage(error, folder) from error
    return found


def _summary(record: Record, steps: int) -> dict[str, Any]:
    """The summary of a run after that many steps."""
    if record.step == steps and record.summary is not None:
        return record.summary
    folder = RunFolder(record.folder)
    seeds = folder.config["plan"]["seeds"]
    tables = (table.filter(np.asarray(table["step"]) <= steps) for table in folder.tables())
    return summary_of_run(summarise(Tables(*tables), seeds, steps), record.index)


def _set_aside(folder: Path) -> Path:
    free = (folder.with_name(f"{folder.name}.damaged-{n}") for n in itertools.count(1))
    return folder.rename(next(path for path in free if not path.exists()))


def _as_damage(error: Exception, path: Path) -> DamagedFileError:
    """The error, if it names the damaged file; else one that does."""
    named = isinstance(error, DamagedFileError)
    return error if named else DamagedFileError(f"{path} is damaged: {error!r}")
