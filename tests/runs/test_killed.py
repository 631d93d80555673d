"""Training killed at any moment of writing goes on to the same end; many more in `tests/faults`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables
from eligrad.training import resume, train
from tests.engines import tiny
from tests.runs.altered import PLAN, plain, state, tables
from tests.runs.test_checkpoint import assert_equal

OPTIONS: dict[str, Any] = {"steps": 200, "seeds": 2, "chunk": 50, "checkpoint_every": 50}


class Killed(BaseException):
    """What ends a process: nobody catches it."""


def work(path: Path) -> tuple[Any, Any]:
    """Does with a folder what training does, from wherever it was left; returns what came of it."""
    begun = (path / "config.json").exists()
    folder = RunFolder.open(path) if begun else RunFolder.create(path)
    with folder.locked():
        step, content = folder.restore(state(0.0))
        folder.write_config({"plan": PLAN, "sessions": []})
        for end in range(step + 10, 41, 10):
            content = content | {"w": content["w"] + end}
            rows = Tables(*(table.slice(end - 10, 10) for table in tables(40)))
            folder.save(end, content, rows, {})
        folder.write_summary({"steps": 40})
    return plain(content), folder.tables()


def test_at_every_rename(tmp_path, monkeypatch):
    """Before it and after it; what was being written stays half-written, as a kill leaves it."""
    run, replace, expected = tmp_path / "run", Path.replace, work(tmp_path / "undisturbed")
    for moment in range(100):
        renames = []

        def dying(path, target, moment=moment, renames=renames):
            renames.append(target)
            if len(renames) == moment // 2 + 1:
                if moment % 2:
                    replace(path, target)
                raise Killed
            return replace(path, target)

        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(Path, "replace", dying)
            patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
            work(run)
            break
        assert bool(list(run.rglob(".*.partial"))) == (moment % 2 == 0)
        assert work(run) == expected
        assert work(run) == expected
        assert not list(run.rglob(".*.partial"))
        shutil.rmtree(run)
    # config.json, two tables and a checkpoint four times, summary.json.
    assert moment == 2 * (1 + 4 * 3 + 1)


@pytest.mark.parametrize("name", tiny.AGENTS)
def test_by_a_signal(tmp_path, quick_compilation, name):
    run, agent = tmp_path / "run", tiny.AGENTS[name]()
    program = f"""
import os, signal
from eligrad.training import train
from tests.engines import tiny

def kill(session):
    if session.step == 200:
        os.kill(os.getpid(), signal.SIGKILL)

train(tiny.AGENTS[{name!r}](), tiny.ENV, out={str(run)!r}, callbacks=[kill], **{OPTIONS})
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert [int(path.stem[-12:]) for path in RunFolder(run).checkpoints()] == [100, 150]
    resumed = resume(run, agent=agent, env=tiny.ENV)
    undisturbed = train(agent, tiny.ENV, **OPTIONS)
    assert_equal(resumed.state, undisturbed.state)
    assert resumed.episodes.equals(undisturbed.episodes)
    assert tiny.timeless(resumed.chunks).equals(tiny.timeless(undisturbed.chunks))
