"""Two processes never write to one run folder; what callbacks and a new length change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eligrad.cli import start
from eligrad.cli import train as cli_train
from eligrad.runs.folder import RunFolder, RunInUseError
from eligrad.training import prepare, resume, train
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quickest_compilation")
OPTIONS: dict[str, Any] = {"steps": 100, "seeds": 2, "chunk": 50}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_of_two_runs_with_one_folder_the_second_is_refused(tmp_path):
    first, second = (
        prepare(tiny.agent(), tiny.ENV, out=tmp_path / "run", **OPTIONS) for _ in range(2)
    )
    first.run()
    kept = bytes_of(tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"run exists already; choose another folder"):
        second.run()
    assert bytes_of(tmp_path / "run") == kept


def test_a_run_in_training_is_not_resumed_by_others(tmp_path):
    run, refused = tmp_path / "run", []
    partial = run / f".half-written.{os.getpid()}.partial"

    def meanwhile(session):
        partial.touch()
        with pytest.raises(RunInUseError, match=r"run is being trained already"):
            resume(run, agent=tiny.agent(), env=tiny.ENV)
        refused.append(partial.exists())

    result = train(tiny.agent(), tiny.ENV, out=run, callbacks=[meanwhile], **OPTIONS)
    assert refused == [True, True]
    # And when it has ended, they may.
    resumed = resume(run, agent=tiny.agent(), env=tiny.ENV, steps=150)
    assert resumed.episodes.num_rows > result.episodes.num_rows
    assert not partial.exists()


def test_a_lock_leaves_nothing_behind(tmp_path):
    with RunFolder.create(tmp_path / "run").locked():
        pass
    with RunFolder.create(tmp_path / "run").locked():
        assert list((tmp_path / "run").iterdir()) == []


def test_commands_of_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = cli_train.parse(["qrc", "Probe/Trace-v0"])
    folders = {start._make_default_folder(command) for _ in range(5)}
    assert len(folders) == 5
    assert all(folder.is_dir() for folder in folders)


def test_a_folder_in_use_is_no_fault_to_be_mended(tmp_path, capsys):
    (tmp_path / "config.json").touch()
    command = ["qrc", "Probe/Trace-v0", "--out", str(tmp_path), "--no-cache", "--no-progress"]
    assert cli_train.main(command) == 2
    error = capsys.readouterr().err
    assert "exists already; choose another folder" in error
    assert "mended" not in error


def test_a_refused_command_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["qrc", "Probe/Continuous-v0", "--seeds", "1", "--no-cache", "--no-progress"]
    assert cli_train.main(command) == 2
    assert "continuous actions" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("answer", "steps"), [(None, 100), (np.True_, 100), (np.False_, 50)])
def test_what_a_callback_answers(answer, steps):
    session = prepare(tiny.agent(), tiny.ENV, callbacks=[lambda session: answer], **OPTIONS)
    session.run()
    assert session.step == steps


def test_a_run_resumed_to_its_own_length_is_saved_as_often_as_before(tmp_path):
    train(tiny.agent(), tiny.ENV, out=tmp_path / "run", checkpoint_every=50, **OPTIONS)
    for steps, every in ((100, 50), (2000, 100)):
        resume(
            tmp_path / "run", agent=tiny.agent(), env=tiny.ENV, steps=steps,
            callbacks=[lambda session: False],
        )  # fmt: skip
        assert RunFolder(tmp_path / "run").config["plan"]["checkpoint_every"] == every
