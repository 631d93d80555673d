"""The engines as processes, and the results of a run."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eligrad.analysis import load_episodes, load_runs
from eligrad.runs.checkpoint import Reader
from eligrad.runs.folder import RunFolder

ROOT = Path(__file__).parents[2]
CLOCKS = ("seconds", "steps_per_second", "rollout_seconds", "update_seconds", "startup_seconds")
PATIENCE = 300
"""Seconds after which a process counts as hanging."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """A training long enough to be disturbed, with some twenty checkpoints."""

    agent: str
    env: str
    steps: int
    chunk: int
    settings: tuple[str, ...] = ()

    @property
    def fault_at(self) -> int:
        """A step in the middle of it, which no chunk ends with."""
        return self.steps // 2 + self.chunk // 3

    def arguments(self, out: Path) -> list[str]:
        """The command that begins it."""
        sizes = {"steps": self.steps, "chunk": self.chunk, "checkpoint-every": 2 * self.chunk}
        words = [f"--{name}={size}" for name, size in sizes.items()]
        return ["train", self.agent, self.env, *words, "--seeds=2", f"--out={out}", *self.settings]


SMALL_ROLLOUTS = ("--rollout=64", "--minibatch-size=32", "--epochs=2")
ENGINES = {
    "stream": Engine("qrc", "Fault/Jax-v0", 40_000, 1_000),
    "host": Engine("qrc", "Fault/Host-v0", 2_000, 50, ("--processes=1",)),
    "rollout": Engine("ppo", "Fault/Jax-v0", 2_560, 64, SMALL_ROLLOUTS),
    "host-rollout": Engine("ppo", "Fault/Host-v0", 2_560, 64, (*SMALL_ROLLOUTS, "--processes=1")),
}
ACTOR_CRITICS = {
    "actor-critic": Engine("gradient-ac", "Fault/Jax-v0", 10_000, 250),
    "host-actor-critic": Engine("gradient-ac", "Fault/Host-v0", 2_000, 50, ("--processes=1",)),
}
"""The same engines with agents whose state has other parts, for what concerns states alone."""
MULTIPROCESS = Engine("qrc", "Fault/Host-v0", 2_000, 50, ("--processes=2",))
"""The engine of simulators in two processes, each with one of the runs."""


class Programs:
    """Processes of `tests.faults.program`, which share what is compiled."""

    def __init__(self, cache: Path) -> None:
        # Where a shell started the tests in the background, all their children would ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.environment = os.environ | {
            "XDG_CACHE_HOME": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }

    def start(self, arguments: list[str], **options: Any) -> subprocess.Popen[str]:
        """Begins a process; names in capitals are for its environment."""
        changes = {name: str(options.pop(name)) for name in list(options) if name.isupper()}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.program", *arguments],
            env=self.environment | changes, cwd=ROOT, text=True, **pipes,
        )  # fmt: skip

    def finish(self, arguments: list[str], **options: Any) -> tuple[int, str, str]:
        """Exit code, standard output and errors of a process."""
        return ended(self.start(arguments, **options))

    def resume(self, run: Path, *options: str) -> str:
        """Continues a run to its end; returns its standard error."""
        go_on = ["train", "--resume", str(run), "--no-progress", *options]
        code, told, errors = self.finish(go_on)
        assert code == 0, errors
        assert str(run / "curve.png") in told
        return errors


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Waits for the end of a process."""
    try:
        told, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert "Traceback" not in errors, errors
    return process.returncode, told, errors


def wait_for_checkpoints(run: Path, process: subprocess.Popen[str], count: int = 1) -> None:
    """Waits until that many have been written since now, or all of them."""
    seen: set[str] = {path.name for path in run.glob("checkpoint-*.npz")}
    news: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while len(news) < count and process.poll() is None:
        assert time.monotonic() < deadline
        news |= {path.name for path in run.glob("checkpoint-*.npz")} - seen
        time.sleep(0.005)


def wait_for_the_end_of(group: int) -> None:
    """Waits until no process of a group is alive."""
    deadline = time.monotonic() + 60
    while is_there(group):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_there(group: int) -> bool:
    """Whether a process of that group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def stopped(programs: Programs, engine: Engine, run: Path, number: signal.Signals) -> str:
    """Starts a run and ends it by a signal after two checkpoints; returns its output."""
    process = programs.start(engine.arguments(run))
    wait_for_checkpoints(run, process, 2)
    process.send_signal(number)
    code, told, errors = ended(process)
    assert code == 128 + number, errors
    return told


def timeless(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary without what depends on the clock."""
    return {name: value for name, value in summary.items() if name not in CLOCKS}


def outcome(run: Path) -> Iterator[Any]:
    """All results of a run without times, bit for bit: summary, tables, the last state."""
    folder = RunFolder(run)
    yield timeless(folder.summary)
    for table in folder.tables():
        kept = [name for name in table.column_names if name not in CLOCKS]
        yield table.select(kept).to_pydict()
    with Reader(folder.checkpoints()[-1]) as last:
        yield last.about["header"]["step"]
        yield {name: last.array(name).tobytes() for name in last.about["leaves"]}


def assert_same(run: Path, undisturbed: Path) -> None:
    """Asserts that two runs have the same results."""
    for ours, theirs in zip(outcome(run), outcome(undisturbed), strict=True):
        np.testing.assert_equal(ours, theirs)


def assert_readable(run: Path) -> None:
    """Asserts that readers find no incomplete file."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if (run / "config.json").exists():
            assert len(load_runs(run)) == 2
            load_episodes(run)


def spoil(path: Path, damage: str) -> None:
    """Cuts off half of a checkpoint, or flips a bit of its numbers."""
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:  # in the numbers, not in a date between two of them, which nobody reads
        with zipfile.ZipFile(path) as archive:
            largest = max(archive.infolist(), key=lambda member: member.compress_size)
        content[largest.header_offset + largest.compress_size // 2] ^= 0x40
    path.write_bytes(content)
