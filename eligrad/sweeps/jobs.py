"""Jobs: runs that share one compiled program, in parts that keep all workers busy.

A `Task` is what a sweep gives a worker to do, and a `TaskResult` what it gets back.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from eligrad.runs.configuration import Configuration, Run, fingerprint

BALANCE = 1.15
"""How much more than its share the busiest worker may have."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Runs of one agent in one environment that differ in numbers and seeds only."""

    runs: tuple[Run, ...]

    @functools.cached_property
    def id(self) -> str:
        """A hash of the names of the runs, in any order."""
        return fingerprint(sorted(run.name for run in self.runs))

    @property
    def cost(self) -> int:
        """The environment steps of all runs."""
        return sum(run.configuration.steps for run in self.runs)

    def to_json(self) -> list[dict[str, Any]]:
        """The runs as JSON values, for a file or another process."""
        return [dataclasses.asdict(run) for run in self.runs]

    @classmethod
    def from_json(cls, content: Iterable[dict[str, Any]]) -> Job:
        """The job that `to_json` was called on."""
        return cls(
            tuple(Run(Configuration(**each["configuration"]), each["seed"]) for each in content)
        )


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


def make_jobs(runs: Sequence[Run], workers: int, *, divide: bool) -> list[Job]:
    """Jobs of runs that can share a program, the longest first.

    With `divide`, as for the cores of a CPU, the runs of a program are divided into as few equal
    jobs as keep all workers busy: every job compiles the program once more.
    """
    groups = list(_by_program(runs).values())
    if not divide:
        return _longest_first(Job(tuple(group)) for group in groups)
    jobs = [Job((run,)) for run in runs]
    ideal = (
        max(sum(job.cost for job in jobs) / workers, max(job.cost for job in jobs)) if jobs else 0
    )
    for fineness in range(1, len(runs) + 1):
        coarse = [part for group in groups for part in _parts(group, ideal / fineness)]
        if _busiest(coarse, workers) <= BALANCE * ideal:
            jobs = coarse
            break
    return _longest_first(jobs)


def _by_program(runs: Iterable[Run]) -> dict[str, list[Run]]:
    # Imported here: agents come with JAX, and jobs are read without it.
    from eligrad.sweeps.resolve import static_part

    groups: dict[str, list[Run]] = {}
    for run in runs:
        shared = dataclasses.asdict(run.configuration) | {
            "settings": static_part(run.configuration)
        }
        groups.setdefault(fingerprint(shared), []).append(run)
    return groups


def _parts(group: list[Run], most: float) -> list[Job]:
    """Jobs of nearly equal size, none of which costs more than `most`."""
    count = min(len(group), math.ceil(Job(tuple(group)).cost / most - 1e-9))
    return [Job(tuple(group[i::count])) for i in range(count)]


def _busiest(jobs: Sequence[Job], workers: int) -> int:
    """The cost of the busiest worker, if each takes the longest job left when it is free."""
    loads = [0] * workers
    for job in _longest_first(jobs):
        heapq.heappushpop(loads, loads[0] + job.cost)
    return max(loads)


def _longest_first(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: -job.cost)
