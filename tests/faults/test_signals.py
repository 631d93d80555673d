"""Processes that are killed, terminated or interrupted go on, later, as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.faults.engines import (
    ACTOR_CRITICS,
    ENGINES,
    MULTIPROCESS,
    assert_readable,
    assert_same,
    ended,
    stopped,
    wait_for_checkpoints,
    wait_for_the_end_of,
)

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("name", ENGINES | ACTOR_CRITICS)
def test_killed_at_random_moments(programs, undisturbed, tmp_path, name):
    """Once before anything is saved, or soon after, and then again and again."""
    dice, run = random.Random(name), tmp_path / "run"
    begin = (ENGINES | ACTOR_CRITICS)[name].arguments(run)
    go_on = ["train", "--resume", str(run)]
    for kill in range(4):
        process = programs.start(go_on if (run / "config.json").exists() else begin)
        if kill:
            wait_for_checkpoints(run, process)
            time.sleep(dice.uniform(0.0, 0.1))
        else:
            time.sleep(dice.uniform(0.0, 5.0))
        process.kill()
        code, _, _ = ended(process)
        if code == 0:  # it was at its end already
            break
        assert code == -signal.SIGKILL
        assert_readable(run)
    else:
        programs.resume(run)
    assert_same(run, undisturbed(name))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ENGINES)
def test_stopped(programs, undisturbed, tmp_path, name, number):
    run = tmp_path / "run"
    told = stopped(programs, ENGINES[name], run, number)
    assert f"eligrad train --resume {run}" in told
    assert_readable(run)
    programs.resume(run)
    assert_same(run, undisturbed(name))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("early", [True, False])
def test_a_signal_to_all_processes_of_a_run(programs, undisturbed, tmp_path, number, early):
    """As a terminal's Ctrl-C and a scheduler do it; also while the second process is starting."""
    run = tmp_path / "run"
    process = programs.start(MULTIPROCESS.arguments(run), start_new_session=True)
    if early:
        while not children(process.pid):
            assert process.poll() is None
            time.sleep(0.005)
        # The second process is there, but the first may not have got to noting signals.
        while not (run / "config.json").exists():
            assert process.poll() is None
            time.sleep(0.005)
    else:
        wait_for_checkpoints(run, process, 2)
    os.killpg(process.pid, number)
    code, told, errors = ended(process)
    assert code == 128 + number, errors
    assert "to continue" in told
    programs.resume(run, "--processes=2")
    assert_same(run, undisturbed("crew"))


@pytest.mark.parametrize("victim", ["the run", "one of its processes"])
def test_killed_with_two_processes(programs, undisturbed, tmp_path, victim):
    """Nothing is left running, and the run continues."""
    run = tmp_path / "run"
    process = programs.start(MULTIPROCESS.arguments(run), start_new_session=True)
    wait_for_checkpoints(run, process, 2)
    trainers = [pid for pid in children(process.pid) if is_trainer(pid)]
    assert len(trainers) == 2
    os.kill(process.pid if victim == "the run" else int(trainers[1]), signal.SIGKILL)
    code, _, errors = ended(process)
    if victim == "the run":
        assert code == -signal.SIGKILL
    else:
        assert code == 2
        assert "a process that trains some of the runs has died" in errors
    wait_for_the_end_of(process.pid)
    assert_readable(run)
    programs.resume(run, "--processes=2")
    assert_same(run, undisturbed("crew"))


def is_trainer(process: str) -> bool:
    """Whether a child trains: another one cleans up after `multiprocessing`."""
    with open(f"/proc/{process}/cmdline") as file:
        return "spawn_main" in file.read()


def children(process: int) -> list[str]:
    """Processes that a process has started, as Linux tells them."""
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return file.read().split()
    except FileNotFoundError:
        return []
