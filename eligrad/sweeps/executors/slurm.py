"""Trains jobs as batch jobs of SLURM, through submitit."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from eligrad._base.optional import import_optional
from eligrad._base.system import environment_variable
from eligrad.sweeps.executors import safe_path
from eligrad.sweeps.jobs import Task, TaskResult

WORKERS = 32
"""Batch jobs at once, unless the user says otherwise."""


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """Options of the executor `slurm`."""

    slurm_partition: str | None = None
    """SLURM partition."""
    slurm_account: str | None = None
    """SLURM account."""
    slurm_timeout_min: int = 24 * 60
    """Minutes of a batch job; one that is not done by then continues in another."""
    slurm_mem_gb: float = 4.0
    """Memory of a batch job."""
    slurm_gpus: int = 0
    """GPUs of a batch job."""
    slurm_setup: tuple[str, ...] = ()
    """Shell commands to run first in a batch job."""
    slurm_cluster: str = "slurm"
    """slurm, or local to try things out in processes of this machine."""


class SlurmExecutor:
    """Submits a batch job for each task; the store must be on a disk that all nodes share.

    A batch job that reaches its time limit or is preempted is submitted again, and continues from
    its checkpoint.
    """

    Options = SlurmOptions

    def __init__(self, workers: int | None = None, options: SlurmOptions | None = None) -> None:
        self._submitit: Any = import_optional(
            "submitit", extra="executors", purpose="the executor 'slurm'"
        )
        options = options or SlurmOptions()
        if options.slurm_cluster == "slurm" and shutil.which("srun") is None:
            raise ValueError(
                "there is no srun on this machine; the executor 'slurm' is for one that can submit "
                "to a SLURM cluster (others: local, ray)"
            )
        self.workers, self.divide = workers or WORKERS, options.slurm_gpus == 0
        self._options = options
        self._executor: Any = None
        self._running: list[tuple[Task, Any]] = []
        self._stopping = False

    def room(self) -> int:
        """The number of further batch jobs; SLURM has its own queue."""
        return self.workers - len(self._running)

    def start(self, task: Task) -> None:
        """Submits a batch job."""
        if self._executor is None:
            self._executor = self.submitter(Path(task.store) / "slurm")
        # With the cluster "local", for the process that submitit starts in between.
        with environment_variable("PYTHONSAFEPATH", "1"):
            self._running.append((task, self._executor.submit(Resumable(), task)))

    def submitter(self, folder: Path) -> Any:
        """The executor of submitit, which writes to a new folder in this one."""
        options = self._options
        folder.mkdir(parents=True, exist_ok=True)
        # A file in the current folder cannot take the place of an installed module.
        python = shlex.join((sys.executable, "-P", "-u", safe_path.__file__))
        executor = self._submitit.AutoExecutor(
            # submitit reads results by pickle, which may run any code: it needs a folder in which
            # nobody wrote before.
            folder=tempfile.mkdtemp(prefix="sweep-", dir=folder),
            cluster=options.slurm_cluster,
            slurm_python=python,
            local_python=python,
        )
        executor.update_parameters(
            name="eligrad",
            timeout_min=options.slurm_timeout_min,
            cpus_per_task=1,
            mem_gb=options.slurm_mem_gb,
            gpus_per_node=options.slurm_gpus,
            slurm_partition=options.slurm_partition,
            slurm_account=options.slurm_account,
            slurm_setup=list(options.slurm_setup),
        )
        return executor

    def poll(self) -> list[tuple[Task, TaskResult]]:
        """The tasks whose batch job has ended, with their results."""
        ended = [(task, job) for task, job in self._running if job.done()]
        self._running = [each for each in self._running if each not in ended]
        return [(task, self._result(job)) for task, job in ended]

    def _result(self, job: Any) -> TaskResult:
        try:
            return job.result()
        except Exception as error:
            if self._stopping:
                return TaskResult("stopped", str(error))
            return TaskResult("died", f"batch job {job.job_id}: {error}")

    def stop(self) -> None:
        """Cancels all batch jobs; they continue from their last checkpoint next time."""
        self._stopping = True
        for _, job in self._running:
            job.cancel(check=False)

    def close(self) -> None:
        """Cancels all batch jobs that are left."""
        self.stop()
        self._running = []


class Resumable:
    """Trains a job; near the time limit submitit asks it what to submit in its place."""

    def __call__(self, task: Task) -> TaskResult:
        """Trains a job, from its checkpoint if it has one."""
        from eligrad.sweeps.worker import work_on_one_core

        return work_on_one_core(task)

    def checkpoint(self, task: Task) -> Any:
        """Submits the same task again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)
