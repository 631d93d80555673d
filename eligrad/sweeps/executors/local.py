"""Processes on this machine: one core each, or one after the other on its accelerator."""

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
from eligrad.sweeps.executors import start
from eligrad.sweeps.store import Store
from eligrad.sweeps.worker import Outcome, Task

MEMORY_EACH = 1.5 * 2**30
"""Bytes that a worker may need, mostly while it compiles."""
_PYTHON = (sys.executable, "-P", start.__file__)
"""A file in the current folder cannot take the place of an installed module."""


@dataclasses.dataclass(frozen=True)
class _Process:
    task: Task
    popen: subprocess.Popen[str]
    log: IO[str]


class LocalExecutor:
    """A process for each task, so that one that crashes takes nothing with it."""

    def __init__(self, workers: int | None = None) -> None:
        accelerated = has_accelerator()
        self.divide = not accelerated
        self.workers = workers or (1 if accelerated else cores_and_memory())
        self._running: list[_Process] = []

    def room(self) -> int:
        """Free workers."""
        return self.workers - len(self._running)

    def start(self, task: Task) -> None:
        """Starts a process; what it prints goes to the store's log of the job."""
        log = Store(task.store).open_log(task.job)
        popen = subprocess.Popen(
            (*_PYTHON, "-m", "eligrad.sweeps.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C in a terminal reaches every process of a session; these are told by `stop`.
            start_new_session=True,
        )
        assert popen.stdin is not None
        popen.stdin.write(json.dumps(task.to_json()) + "\n")
        popen.stdin.flush()
        self._running.append(_Process(task, popen, log))

    def poll(self) -> list[tuple[Task, Outcome]]:
        """Tasks whose process has ended."""
        ended = [process for process in self._running if process.popen.poll() is not None]
        self._running = [process for process in self._running if process not in ended]
        return [(process.task, _outcome(process)) for process in ended]

    def stop(self) -> None:
        """SIGTERM: a worker finishes its chunk, saves and ends."""
        for process in self._running:
            process.popen.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """SIGKILL for whoever is left; checkpoints are safe from it."""
        for process in self._running:
            process.popen.kill()
            _outcome(process)
        self._running = []


def _outcome(process: _Process) -> Outcome:
    answer, _ = process.popen.communicate()
    process.log.close()
    try:
        told = json.loads(answer)
    except ValueError:
        return _died(process.popen.returncode, Path(process.log.name))
    return Outcome(told["kind"], told["message"], tuple(told["notes"]))


def _died(code: int, log: Path) -> Outcome:
    if code == -signal.SIGTERM:
        return Outcome("stopped", "before it began to train")
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    last_words = log.read_text(encoding="utf-8", errors="replace")[-4000:]
    return Outcome("died", f"the worker ended {how}; its last words:\n{last_words}")


def has_accelerator() -> bool:
    """Whether JAX in a process of its own finds something other than a CPU.

    Asked elsewhere, since whoever asks an accelerator takes most of its memory.
    """
    if not importlib.metadata.entry_points(group="jax_plugins") and not _plugin_packages():
        return False
    program = "import jax; print(jax.default_backend())"
    answer = subprocess.run([*_PYTHON, "-c", program], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and answer.stdout.strip() != "cpu"


def _plugin_packages() -> bool:
    """Whether there is a `jax_plugins` package, where JAX looks for its accelerators."""
    try:
        import jax_plugins  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return any(any(Path(folder).iterdir()) for folder in jax_plugins.__path__)


def cores_and_memory() -> int:
    """As many workers as there are cores for, and memory."""
    return max(1, min(cores(), int(available_memory() // MEMORY_EACH)))


def available_memory() -> float:
    """Bytes that can be had without swapping, within the limits of a container."""
    known = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":") for line in meminfo.read_text().splitlines())
        known.append(1024.0 * int(fields["MemAvailable"].split()[0]))
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        known.append(float(text) - float(used.read_text()))
    # A system that does not tell gets as many workers as cores.
    return min(known, default=float("inf"))
