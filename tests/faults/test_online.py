"""An agent on a stream, in a program of the user's own: killed, interrupted, fed with nonsense."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time

import pytest

from eligrad.engines.online import Online
from eligrad.runs.checkpoint import CheckpointError
from tests.faults import online_program
from tests.faults.engines import PATIENCE, ROOT, spoil

pytestmark = pytest.mark.faults

STEPS = 3000
COMMAND = [sys.executable, "-m", "tests.faults.online_program"]


class Streams:
    """Processes that live a life of that many steps, or what is left of it."""

    def __init__(self, programs):
        self.environment = programs.environment

    def start(self, file, *fault):
        return subprocess.Popen(
            [*COMMAND, str(file), str(STEPS), *fault],
            env=self.environment, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self, file, *fault):
        process = self.start(file, *fault)
        told, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        return told.splitlines(), errors


@pytest.fixture(scope="module")
def streams(programs):
    return Streams(programs)


@pytest.fixture(scope="module")
def undisturbed(streams, tmp_path_factory):
    """What is done and learned in every step."""
    file = tmp_path_factory.mktemp("online") / "agent.npz"
    told, _ = streams.finish(file)
    assert len(told) == STEPS
    return told, file.read_bytes()


def test_killed_at_random_moments(streams, undisturbed, tmp_path):
    """Whatever was saved last goes on to the same end, step by step."""
    dice, file = random.Random(0), tmp_path / "agent.npz"
    for _ in range(3):
        process = streams.start(file)
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        for _ in range(dice.randrange(100)):
            process.stdout.readline()
        process.kill()
        told, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
        Online.load(file, online_program.agent())
    told, _ = streams.finish(file)
    assert told == undisturbed[0][-len(told) :]
    assert file.read_bytes() == undisturbed[1]


def test_ctrl_c_at_any_moment_and_then_saved(streams, undisturbed, tmp_path):
    """Each time somewhere else in a step: the agent that is saved is whole."""
    dice, file = random.Random(1), tmp_path / "agent.npz"
    for _ in range(4):
        process = streams.start(file)
        seen = [process.stdout.readline().strip() for _ in range(dice.randrange(100, 300))]
        time.sleep(dice.uniform(0, 0.01))
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert errors == "interrupted, and saved\n"
        for line in [*seen, *told.splitlines()]:
            assert line == undisturbed[0][int(line.split()[0]) - 1]
    streams.finish(file)
    assert file.read_bytes() == undisturbed[1]


@pytest.mark.parametrize(
    ("fault", "message"),
    [("reward", "reward is nan; a number"), ("observation", "observation is nan at (1,)")],
)
def test_numbers_that_are_none(streams, undisturbed, tmp_path, fault, message):
    told, errors = streams.finish(tmp_path / "agent.npz", fault)
    assert message in errors
    assert told == undisturbed[0]


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_file_is_refused(undisturbed, tmp_path, damage):
    file = tmp_path / "agent.npz"
    file.write_bytes(undisturbed[1])
    spoil(file, damage)
    with pytest.raises(CheckpointError, match=re.escape(str(file))):
        Online.load(file, online_program.agent())


@pytest.mark.parametrize("why", ["full", "read-only"])
def test_a_save_that_fails_leaves_the_last_one(undisturbed, tmp_path, why):
    """A limit on the size of files stands in for a full disk, a file for a folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "agent.npz").write_bytes(undisturbed[1])
    target = folder / "agent.npz" if why == "full" else folder / "agent.npz" / "below.npz"
    code = f"""
import resource, signal
from tests.faults import online_program
from eligrad.engines import Online
online = Online.load({str(folder / "agent.npz")!r}, online_program.agent())
online.observe(online_program.world(0)[0], 0.0)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    online.save({str(target)!r})
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert ("File too large" if why == "full" else "there is no folder") in done.stdout
    assert (folder / "agent.npz").read_bytes() == undisturbed[1]
    assert [path.name for path in folder.iterdir()] == ["agent.npz"]
