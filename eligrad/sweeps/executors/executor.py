"""What a sweep needs of the place where its jobs are trained."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from eligrad._base.errors import UnknownName
from eligrad.sweeps.worker import Outcome, Task

NAMES = ("local", "ray", "slurm")


@runtime_checkable
class Executor(Protocol):
    """Takes tasks, and says how they ended."""

    workers: int
    """Jobs that are trained at once: as many parts a sweep is worth dividing into."""
    divide: bool
    """Whether a program is divided among workers; on an accelerator it is better whole."""

    def room(self) -> int:
        """How many more tasks it wants now."""
        ...

    def start(self, task: Task) -> None:
        """Begins a task, or queues it."""
        ...

    def poll(self) -> list[tuple[Task, Outcome]]:
        """Tasks that ended since the last call."""
        ...

    def stop(self) -> None:
        """Asks all tasks to save and end; `poll` tells when they have."""
        ...

    def close(self) -> None:
        """Ends what is left, at once."""
        ...


def make_executor(name: str, workers: int | None = None, **options: Any) -> Executor:
    """The executor of that name: local, ray or slurm; `options` are its own."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; 1 or more is accepted")
    # What each needs is imported when it is asked for.
    if name == "local":
        from eligrad.sweeps.executors.local import LocalExecutor as Chosen
    elif name == "ray":
        from eligrad.sweeps.executors.ray import RayExecutor as Chosen
    elif name == "slurm":
        from eligrad.sweeps.executors.slurm import SlurmExecutor as Chosen
    else:
        raise UnknownName("executor", name, NAMES)
    return Chosen(workers, **options)
