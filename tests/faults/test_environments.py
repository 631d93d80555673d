"""Faults of environments, memory and clocks: one line says so, and nothing is lost."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time

import pytest

from eligrad.runs.folder import RunFolder
from tests.faults.engines import (
    ENGINES,
    MULTIPROCESS,
    assert_readable,
    assert_same,
    ended,
    wait_for_the_end_of,
)

pytestmark = pytest.mark.faults

NUMBERS = {
    "reward": r"'\S+' gave a reward \(nan\) that is not finite, to seed 0 at step {step:,}",
    "observation": r"'\S+' gave an observation that is not finite, to seed 0 at step {step:,}",
}
SAID = {
    "stream": {
        "raises": r"the program failed in steps .* of 'Fault/Jax-v0': OSError: the joint is jammed",
        "memory": r"out of memory in steps .* of 'Fault/Jax-v0'; fewer seeds",
    },
    "host": {
        "raises": r"'HostEnv' raised at step {step:,}: OSError\('the joint is jammed'\)",
        "memory": r"out of memory at step {step:,} of 'HostEnv'; fewer .* allocate 8\.00 PiB",
    },
}
SAID |= {"rollout": SAID["stream"], "host-rollout": SAID["host"]}


@pytest.mark.parametrize("fault", ["raises", "memory", "reward", "observation"])
@pytest.mark.parametrize("name", ENGINES)
def test_a_fault_in_the_middle(programs, undisturbed, tmp_path, name, fault):
    engine, run = ENGINES[name], tmp_path / "run"
    code, _, errors = programs.finish(engine.arguments(run), FAULT=fault, FAULT_AT=engine.fault_at)
    assert code == 2, errors
    message = (NUMBERS | SAID[name])[fault].format(step=engine.fault_at)
    assert re.search(f"^eligrad train: {message}", errors, re.M), errors
    assert f"eligrad train --resume {run}" in errors
    assert_readable(run)
    # Everything up to the last checkpoint before the fault is there.
    every = 2 * engine.chunk
    saved = [int(path.stem[-12:]) for path in RunFolder(run).checkpoints()]
    assert saved[-1] == (engine.fault_at - 1) // every * every
    programs.resume(run)
    assert_same(run, undisturbed(name))


@pytest.mark.parametrize("name", ENGINES)
def test_the_clock_jumps_by_a_day(programs, undisturbed, tmp_path, name):
    """With a progress bar on a terminal, whose numbers stay sensible."""
    run = tmp_path / "run"
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 160, 0, 0))
    process = programs.start(ENGINES[name].arguments(run), CLOCK="jumps", stderr=theirs)
    os.close(theirs)
    shown: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(terminal, shown))
    reader.start()
    told, _ = process.communicate()
    reader.join()
    bars = b"".join(shown).decode()
    assert process.returncode == 0, bars
    assert_same(run, undisturbed(name))
    assert re.search(r"100%\|.*\[(\d\d:)?\d\d:\d\d<00:00, +[\d.]+k?step/s", bars), bars
    # A day has 24 hours: none of these was spent here, before or after.
    times = re.findall(r"\[[^\]]*step", bars)
    assert times
    assert not [each for each in times if re.search(r"\d:\d\d:\d\d|[<\[ ]-|day", each)]
    summary = RunFolder(run).summary
    assert 0 < summary["seconds"] < 3600
    assert summary["steps_per_second"] > 0
    assert re.search(r"^[\d,]+ steps/s", told, re.M)


def read_all(terminal: int, shown: list[bytes]) -> None:
    """All that is written to a terminal, until its other end is closed."""
    try:
        while text := os.read(terminal, 4096):
            shown.append(text)
    except OSError:  # which is how a terminal ends
        pass
    finally:
        os.close(terminal)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "the joint is jammed"),
        ("leaves", r"'HostEnv' raised at step 1,016: SystemExit\(5\)"),
        ("exits", "a process that trains some of the runs has died"),
    ],
)
def test_a_fault_in_one_of_two_processes(programs, undisturbed, tmp_path, fault, message):
    """It ends both; the run continues from its checkpoint."""
    run, options = tmp_path / "run", {"FAULT": fault, "FAULT_AT": MULTIPROCESS.fault_at}
    process = programs.start(MULTIPROCESS.arguments(run), start_new_session=True, **options)
    code, _, errors = ended(process)
    assert code == 2
    assert re.search(message, errors), errors
    wait_for_the_end_of(process.pid)
    programs.resume(run, "--processes=2")
    assert_same(run, undisturbed("crew"))


def test_an_environment_that_hangs(programs, undisturbed, tmp_path):
    """A second Ctrl-C ends the run at once, and no process is left."""
    run, options = tmp_path / "run", {"FAULT": "hangs", "FAULT_AT": MULTIPROCESS.fault_at}
    process = programs.start(MULTIPROCESS.arguments(run), start_new_session=True, **options)
    while not list(run.glob(f"checkpoint-*{MULTIPROCESS.steps // 2}.npz")):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, _, _ = ended(process)
    assert code == -signal.SIGINT
    wait_for_the_end_of(process.pid)
    programs.resume(run, "--processes=2")
    assert_same(run, undisturbed("crew"))
