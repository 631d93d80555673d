"""What a sweep gives a worker to do, and what it gets back."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from eligrad.sweeps.jobs import Job


@dataclasses.dataclass(frozen=True)
class Task:
    """A job, and what a worker must know to train it."""

    store: str
    job: Job
    setup: str | None = None
    """A Python file to run first."""
    path: tuple[str, ...] = ()
    """Folders to look for modules in, after all that are installed."""

    def to_json(self) -> dict[str, Any]:
        """The task as JSON values, for another process."""
        return vars(self) | {"job": self.job.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Task:
        """The task that `to_json` was called on."""
        job, path = Job.from_json(content["job"]), tuple(content["path"])
        return cls(**content | {"job": job, "path": path})


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """How a task ended."""

    status: Literal["finished", "taken", "stopped", "failed", "died", "disk full"]
    """`taken`: another process trains the job; `stopped`: saved after a signal; `failed`: by an
    exception; `died`: the process ended without a result."""
    message: str = ""
    """A traceback, or another reason."""
    notes: tuple[str, ...] = ()
    """Messages for the user, such as the names of damaged files."""
