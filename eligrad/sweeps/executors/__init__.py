"""Executors start the workers of a sweep: on this machine, on a Ray cluster, or under SLURM.

A new executor is a file with a class like `Executor`, and a line in `EXECUTORS`. The class is
called with the number of workers and an object of its `Options`, or None for either. `Options` is a
dataclass whose fields are also options of `eligrad sweep`; the name of each field begins with that
of the executor.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, runtime_checkable

from eligrad._base.errors import UnknownName
from eligrad._base.lazy import imported
from eligrad.sweeps.jobs import Task, TaskResult

EXECUTORS = {
    "local": "eligrad.sweeps.executors.local:LocalExecutor",
    "ray": "eligrad.sweeps.executors.ray:RayExecutor",
    "slurm": "eligrad.sweeps.executors.slurm:SlurmExecutor",
}
"""The class of each executor, which is imported when it is needed."""


@runtime_checkable
class Executor(Protocol):
    """Runs tasks, and returns their results."""

    workers: int
    """How many jobs are trained at once."""
    divide: bool
    """Whether runs that could share a program are divided among workers. On an accelerator one
    program for all of them is faster."""

    def room(self) -> int:
        """The number of further tasks that can be started now."""
        ...

    def start(self, task: Task) -> None:
        """Starts a task, or puts it in a queue."""
        ...

    def poll(self) -> list[tuple[Task, TaskResult]]:
        """The tasks that ended since the last call, with their results."""
        ...

    def stop(self) -> None:
        """Asks all tasks to save and end; `poll` returns them once they have."""
        ...

    def close(self) -> None:
        """Ends all tasks that are left, at once."""
        ...


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """Options of an executor that has none."""


def executor_class(name: str) -> Any:
    """The class of an executor, by its name."""
    if name not in EXECUTORS:
        raise UnknownName("executor", name, EXECUTORS)
    return imported(EXECUTORS[name])


def make_executor(name: str, workers: int | None = None, options: Any = None) -> Executor:
    """The executor of this name: local, ray or slurm.

    Args:
        name: A name of `EXECUTORS`.
        workers: How many jobs are trained at once; None lets the executor choose.
        options: An object of the executor's `Options`; None for the defaults.
    """
    return checked_executor(name, workers)(workers, options)


def checked_executor(name: str, workers: int | None) -> Any:
    """The class of an executor; raises `ValueError` for what `make_executor` does not accept."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; 1 or more is accepted")
    return executor_class(name)
