"""Trains jobs on a Ray cluster: an existing one by its address, or one on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, no_type_check

from eligrad._base.optional import import_optional
from eligrad.sweeps.executors import safe_path
from eligrad.sweeps.jobs import Task, TaskResult


@dataclasses.dataclass(frozen=True)
class RayOptions:
    """Options of the executor `ray`."""

    ray_address: str | None = None
    """Address of a Ray cluster, or auto for the one of this machine; without it a local one is
    started, and stopped with the sweep."""


def _portable_work(folder: str, script: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that trains a task, given as JSON values, in `folder`; `script` is safe_path.py.

    Ray sends a function within a function as code, and not as a name to import.
    """

    @no_type_check  # a checked function cannot be sent
    def eligrad_work(task: dict[str, Any]) -> dict[str, Any]:
        # Another machine may have neither of them, and then uses its own.
        if os.path.isdir(folder):
            os.chdir(folder)
        if os.path.exists(script):
            runpy.run_path(script)["use_safe_path"]()
        worker = importlib.import_module("eligrad.sweeps.worker")
        result = worker.work_on_one_core(worker.Task.from_json(task))
        return dataclasses.asdict(result)

    return eligrad_work


class RayExecutor:
    """Runs each job as a Ray task; the store must be on a disk that all machines share."""

    Options = RayOptions

    def __init__(self, workers: int | None = None, options: RayOptions | None = None) -> None:
        address = (options or RayOptions()).ray_address
        self._ray: Any = import_optional("ray", extra="executors", purpose="the executor 'ray'")
        self._own = not self._ray.is_initialized()
        if self._own:
            local = {} if address else {"num_cpus": workers, "include_dashboard": False}
            # Ray adds the current folder to the path of its workers, before all that is installed.
            with contextlib.chdir(os.path.dirname(sys.executable)):
                self._ray.init(address=address, log_to_driver=False, **local)
        available = self._ray.cluster_resources()
        gpus = available.get("GPU", 0)
        self.divide = gpus == 0
        self.workers = workers or max(1, int(gpus or available.get("CPU", 1)))
        # The sweep counts attempts, and tries again after a worker died.
        self._work = self._ray.remote(
            num_cpus=1, num_gpus=1 if gpus else 0, max_retries=0, max_calls=1
        )(_portable_work(os.getcwd(), safe_path.__file__))
        self._running: dict[Any, Task] = {}
        self._stopping = False

    def room(self) -> int:
        """The number of further tasks; one waits in Ray's queue, so that no worker is idle."""
        return self.workers + 1 - len(self._running)

    def start(self, task: Task) -> None:
        """Submits a task."""
        self._running[self._work.remote(task.to_json())] = task

    def poll(self) -> list[tuple[Task, TaskResult]]:
        """The tasks that Ray has a result for, or has lost."""
        if not self._running:
            return []
        ended, _ = self._ray.wait(
            list(self._running), num_returns=len(self._running), timeout=0, fetch_local=False
        )
        return [(self._running.pop(reference), self._result(reference)) for reference in ended]

    def _result(self, reference: Any) -> TaskResult:
        try:
            return TaskResult(**self._ray.get(reference))
        except (self._ray.exceptions.RayError, KeyboardInterrupt) as error:
            if self._stopping:
                return TaskResult("stopped", str(error))
            return TaskResult("died", f"Ray lost the worker: {error}")

    def stop(self) -> None:
        """Interrupts every task as Ctrl-C does: it saves and ends."""
        self._stopping = True
        for reference in self._running:
            self._ray.cancel(reference, force=False)

    def close(self) -> None:
        """Ends all tasks that are left, and the cluster if it was started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running = {}
        if self._own:
            self._ray.shutdown()
