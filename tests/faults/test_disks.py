"""Disks that are full or read-only, and checkpoints that are damaged."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

from eligrad.runs.folder import RunFolder
from tests.faults.engines import ENGINES, ROOT, assert_readable, assert_same, spoil, stopped

pytestmark = pytest.mark.faults

PRIVATE = ["unshare", "--map-root-user", "--mount"]
"""A place to mount disks that nobody else sees."""


def mounting_is_allowed() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = [*PRIVATE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("full", "No space left on device"),
        ("read-only later", "Read-only file system"),
        ("read-only from the beginning", "Read-only file system"),
    ],
)
@pytest.mark.parametrize("name", ENGINES)
def test_disks(programs, undisturbed, tmp_path, name, fault, message):
    if not mounting_is_allowed():
        pytest.skip("this machine lets nobody but its administrator mount a disk")
    engine = ENGINES[name]
    # Space for the first checkpoint and most of the second.
    size = RunFolder(undisturbed(name)).checkpoints()[-1].stat().st_size
    kilobytes = int(1.8 * size / 1024) + 24 if fault == "full" else 200_000
    command = [*PRIVATE, sys.executable, "-m", "tests.faults.disk_program"]
    arguments = [word.replace(str(tmp_path), "RUN") for word in engine.arguments(tmp_path)]
    done = subprocess.run(
        [*command, fault, str(kilobytes), str(tmp_path), *arguments],
        env=programs.environment, cwd=ROOT, text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (broken, errors), (mended, also) = json.loads(done.stdout)
    assert broken == 2, errors
    assert mended == 0, also
    assert "Traceback" not in errors + also
    assert re.search(rf"^eligrad train: .*{message}", errors, re.M), errors
    if fault == "read-only from the beginning":
        assert "0%" not in errors, "it was said before work began"
        assert not (tmp_path / "broken").exists()
    else:
        assert "eligrad train --resume" in errors
        assert_readable(tmp_path / "broken")
        assert not list((tmp_path / "broken").rglob(".*.partial"))
        assert len(RunFolder(tmp_path / "broken").checkpoints()) >= 1
    assert_same(tmp_path / "mended", undisturbed(name))


@pytest.mark.parametrize("damage", ["flipped", "cut"])
@pytest.mark.parametrize("name", ENGINES)
def test_a_damaged_checkpoint(programs, undisturbed, tmp_path, name, damage):
    """The newest one: the one before it is taken. Both of them: nothing is done, and it is said."""
    run = tmp_path / "run"
    stopped(programs, ENGINES[name], run, signal.SIGTERM)
    older, newest = RunFolder(run).checkpoints()
    spoil(newest, damage)
    copy = shutil.copytree(run, tmp_path / "copy")
    errors = programs.resume(run)
    assert re.search(
        rf"^eligrad train: {newest} is damaged .*; continuing from {older}$", errors, re.M
    ), errors
    assert_same(run, undisturbed(name))
    spoil(copy / older.name, damage)
    code, _, errors = programs.finish(["train", "--resume", str(copy), "--no-progress"])
    assert code == 2
    for file in (older, newest):
        assert f"{copy / file.name} is damaged" in errors
        assert (copy / file.name).exists()
