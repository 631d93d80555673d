"""Trains jobs in processes of this machine: one for each core, or one on its accelerator."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from eligrad._base.system import cores
from eligrad.sweeps.executors import NoOptions, safe_path
from eligrad.sweeps.jobs import Task, TaskResult

MEMORY_EACH = 1.5 * 2**30
"""Bytes that a worker may need, mostly while it compiles."""
_PYTHON = (sys.executable, "-P", safe_path.__file__)
"""A file in the current folder cannot take the place of an installed module."""


@dataclasses.dataclass(frozen=True)
class _Process:
    task: Task
    popen: subprocess.Popen[str]
    log: IO[str]


class LocalExecutor:
    """Runs each task in a process of its own, so that one that crashes harms no other."""

    Options = NoOptions

    def __init__(self, workers: int | None = None, options: NoOptions | None = None) -> None:
        accelerated = has_accelerator()
        self.divide = not accelerated
        self.workers = workers or (1 if accelerated else cores_and_memory())
        self._running: list[_Process] = []

    def room(self) -> int:
        """The number of workers that are free."""
        return self.workers - len(self._running)

    def start(self, task: Task) -> None:
        """Starts a process, which prints to the store's log of the job."""
        # Not at the top: it imports pyarrow, and help does without.
        from eligrad.sweeps.store import Store

        log = Store(task.store).open_log(task.job)
        popen = subprocess.Popen(
            (*_PYTHON, "-m", "eligrad.sweeps.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C in a terminal signals every process of a session; `stop` signals these.
            start_new_session=True,
        )
        assert popen.stdin is not None
        popen.stdin.write(json.dumps(task.to_json()) + "\n")
        popen.stdin.flush()
        self._running.append(_Process(task, popen, log))

    def poll(self) -> list[tuple[Task, TaskResult]]:
        """The tasks whose process has ended, with their results."""
        ended = [process for process in self._running if process.popen.poll() is not None]
        self._running = [process for process in self._running if process not in ended]
        return [(process.task, _result(process)) for process in ended]

    def stop(self) -> None:
        """Sends SIGTERM: a worker finishes its chunk, saves and ends."""
        for process in self._running:
            process.popen.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Kills all processes that are left; their checkpoints stay sound."""
        for process in self._running:
            process.popen.kill()
            _result(process)
        self._running = []


def _result(process: _Process) -> TaskResult:
    printed, _ = process.popen.communicate()
    process.log.close()
    try:
        content = json.loads(printed)
    except ValueError:
        return _died(process.popen.returncode, Path(process.log.name))
    return TaskResult(content["status"], content["message"], tuple(content["notes"]))


def _died(code: int, log: Path) -> TaskResult:
    if code == -signal.SIGTERM:
        return TaskResult("stopped", "before it began to train")
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    printed = log.read_text(encoding="utf-8", errors="replace")[-4000:]
    return TaskResult("died", f"the end of the worker's log:\n{printed}\nthe worker ended {how}")


def has_accelerator() -> bool:
    """Whether JAX finds something other than a CPU.

    Another process finds out, since JAX takes most memory of an accelerator when it looks for one.
    """
    if not importlib.metadata.entry_points(group="jax_plugins") and not _plugin_packages():
        return False
    program = "import jax; print(jax.default_backend())"
    found = subprocess.run([*_PYTHON, "-c", program], capture_output=True, text=True, check=False)
    return found.returncode == 0 and found.stdout.strip() != "cpu"


def _plugin_packages() -> bool:
    """Whether there is a `jax_plugins` package, where JAX looks for its accelerators."""
    try:
        import jax_plugins  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return any(any(Path(folder).iterdir()) for folder in jax_plugins.__path__)


def cores_and_memory() -> int:
    """The number of workers that cores and memory suffice for."""
    return max(1, int(min(cores(), available_memory() / MEMORY_EACH)))


def available_memory() -> float:
    """The bytes that are available without swapping, within the limits of a container."""
    known = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":") for line in meminfo.read_text().splitlines())
        known.append(1024.0 * int(fields["MemAvailable"].split()[0]))
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        known.append(float(text) - float(used.read_text()))
    # Where it is not known, there are as many workers as cores.
    return min(known, default=float("inf"))
