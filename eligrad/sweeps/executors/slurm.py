"""SLURM, through submitit: one batch job for each job of a sweep."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from eligrad._base.optional import import_optional
from eligrad.sweeps.executors import start
from eligrad.sweeps.worker import Outcome, Task, work_on_one_core

WORKERS = 32
"""Batch jobs that a sweep is divided into, unless told otherwise."""


class SlurmExecutor:
    """Submits jobs and waits for them; the store must be on a disk that all nodes share.

    A job that reaches `timeout_min` or is preempted goes on in a new one from its checkpoint.
    `cluster="local"` runs the same in processes of this machine, to try things out.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        folder: str | Path = "slurm",
        timeout_min: int = 24 * 60,
        mem_gb: float = 4.0,
        gpus: int = 0,
        partition: str | None = None,
        account: str | None = None,
        setup: tuple[str, ...] = (),
        cluster: str = "slurm",
    ) -> None:
        submitit: Any = import_optional(
            "submitit", extra="executors", purpose="the executor 'slurm'"
        )
        if cluster == "slurm" and shutil.which("srun") is None:
            raise ValueError(
                "there is no srun on this machine; the executor 'slurm' is for one that can submit "
                "to a SLURM cluster (others: local, ray)"
            )
        self.workers, self.divide = workers or WORKERS, gpus == 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        # submitit reads results by pickle, which may run any code: only from a folder of its own.
        folder = tempfile.mkdtemp(prefix="sweep-", dir=folder)
        # A file in the current folder cannot take the place of an installed module.
        python = shlex.join((sys.executable, "-P", "-u", start.__file__))
        self._executor = submitit.AutoExecutor(
            folder=folder, cluster=cluster, slurm_python=python, local_python=python
        )
        self._executor.update_parameters(
            name="eligrad",
            timeout_min=timeout_min,
            cpus_per_task=1,
            mem_gb=mem_gb,
            gpus_per_node=gpus,
            slurm_partition=partition,
            slurm_account=account,
            slurm_setup=list(setup),
        )
        self._failed: type[Exception] = submitit.core.utils.UncompletedJobError
        self._running: list[tuple[Task, Any]] = []
        self._stopping = False

    def room(self) -> int:
        """Queueing is SLURM's business: as many as the sweep is divided into."""
        return self.workers - len(self._running)

    def start(self, task: Task) -> None:
        """Submits a batch job."""
        shared = dataclasses.replace(task, store=os.path.abspath(task.store))
        # With cluster="local", for the process that submitit starts in between.
        before = os.environ.get("PYTHONSAFEPATH", "")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            self._running.append((task, self._executor.submit(Resumable(), shared)))
        finally:
            os.environ["PYTHONSAFEPATH"] = before

    def poll(self) -> list[tuple[Task, Outcome]]:
        """Batch jobs that ended."""
        ended = [(task, job) for task, job in self._running if job.done()]
        self._running = [each for each in self._running if each not in ended]
        return [(task, self._outcome(job)) for task, job in ended]

    def _outcome(self, job: Any) -> Outcome:
        try:
            return job.result()
        except Exception as error:
            if self._stopping:
                return Outcome("stopped", str(error))
            return Outcome("died", f"batch job {job.job_id}: {error}")

    def stop(self) -> None:
        """Cancels all batch jobs; they go on from their last checkpoint next time."""
        self._stopping = True
        for _, job in self._running:
            job.cancel(check=False)

    def close(self) -> None:
        """Cancels what is left."""
        self.stop()
        self._running = []


class Resumable:
    """The work as submitit wants it: near the time limit, it says to submit the same again."""

    def __call__(self, task: Task) -> Outcome:
        """Trains a job, from wherever it was left."""
        return work_on_one_core(task)

    def checkpoint(self, task: Task) -> Any:
        """What to submit in its place."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)
