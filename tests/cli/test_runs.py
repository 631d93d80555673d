"""`eligrad runs` from the outside."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from eligrad.cli import runs as cli_runs
from eligrad.runs.folder import RunFolder
from eligrad.runs.plan import read_config
from eligrad.sweeps import worker
from tests.sweeps.small_sweeps import quick_training

__all__ = ["quick_training"]


@pytest.fixture
def store(tmp_path, quick_training):
    shared = {"steps": 400, "max_episode_steps": None, "env_params": {}}
    for index in range(2):
        settings = {"lam": 0.5 + index / 4}
        worker.train("qrc", "A", seeds=[index], out=tmp_path / f"r{index}", **shared, **settings)
    return tmp_path


def test_ls_show_and_diff(store, capsys):
    assert cli_runs.main(["ls", str(store)]) == 0
    told = capsys.readouterr().out
    assert "r0" in told
    assert "2 runs, 2 finished" in told
    assert cli_runs.main(["show", str(store / "r1")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["seed"], shown["settings"]["lam"], shown["finished"]) == (1, 0.75, True)
    assert cli_runs.main(["diff", str(store / "r0"), str(store / "r1")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "settings.lam: 0.5 | 0.75" in lines
    assert "seed: 0 | 1" in lines
    assert not any(line.startswith("settings.gamma") for line in lines)


def test_a_folder_of_several_runs_is_shown_as_one_list(tmp_path, quick_training, capsys):
    shared = {"steps": 400, "max_episode_steps": None, "env_params": {}}
    worker.train("qrc", "A", seeds=[3, 4], out=tmp_path / "both", **shared)
    assert cli_runs.main(["show", str(tmp_path / "both")]) == 0
    assert [each["seed"] for each in json.loads(capsys.readouterr().out)] == [3, 4]
    assert cli_runs.main(["show", str(tmp_path / "both#1")]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 4
    assert cli_runs.main(["diff", str(tmp_path / "both#0"), str(tmp_path / "both#1")]) == 0
    assert "seed: 3 | 4" in capsys.readouterr().out.splitlines()
    assert cli_runs.main(["show", str(tmp_path / "both#2")]) == 2
    assert f"there is no run {tmp_path / 'both#2'}" in capsys.readouterr().err


def test_rm_asks_first(store, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert cli_runs.main(["rm", str(store / "r0")]) == 1
    assert (store / "r0").is_dir()
    assert cli_runs.main(["rm", "--yes", str(store / "r0")]) == 0
    assert [path.name for path in store.iterdir()] == ["r1"]
    assert cli_runs.main(["rm", "--yes", str(store / "r0")]) == 2
    assert f"there is no run {store / 'r0'}" in capsys.readouterr().err


def test_rm_leaves_a_run_that_is_being_trained(store, capsys):
    with RunFolder(store / "r0").locked():
        assert cli_runs.main(["rm", "--yes", str(store / "r0")]) == 2
    assert "r0 is being trained by another process; stop it first" in capsys.readouterr().err
    assert (store / "r0" / "config.json").is_file()
    assert cli_runs.main(["rm", "--yes", str(store / "r0")]) == 0


def test_rm_of_a_link_removes_the_link_alone(store, capsys):
    (store / "link").symlink_to(store / "r0")
    with RunFolder(store / "r0").locked():
        assert cli_runs.main(["rm", "--yes", str(store / "link")]) == 2
    assert cli_runs.main(["rm", "--yes", str(store / "link")]) == 0
    assert sorted(path.name for path in store.iterdir()) == ["r0", "r1"]
    assert (store / "r0" / "config.json").is_file()
    assert f"removed {store / 'link'}" in capsys.readouterr().out


def test_names_are_printed_escaped(store, capsys):
    """A name may be anything: it moves no cursor, begins no line and stops no listing."""
    hostile = "A\x1b[2J\n2 runs, 2 finished\u202e\x9b1m"
    folder = (store / "r0").rename(store / "r\x1b[31m\n0")
    config = read_config(folder)
    config["plan"]["env"] = hostile
    RunFolder(folder).write_config(config)
    for command in (
        ["ls", str(store)],
        ["show", str(folder)],
        ["diff", str(folder), str(store / "r1")],
    ):
        assert cli_runs.main(command) == 0
        told = capsys.readouterr().out
        assert all(line.isprintable() for line in told.split("\n"))
        assert "A\\x1b[2J\\n2 runs" in told or "A\\u001b[2J\\n2 runs" in told
    os.rename(folder, os.fsencode(store) + b"/r\xff0")
    assert cli_runs.main(["ls", str(store)]) == 0
    told = capsys.readouterr()
    assert "1 runs, 1 finished" in told.out
    assert "r\\udcff0 cannot be read and is left out" in told.err
    assert cli_runs.main(["rm", "--yes", str(store / "no\x1b[2J\nrun")]) == 2
    assert f"there is no run {store}/no\\x1b[2J\\nrun" in capsys.readouterr().err


def test_a_damaged_run_is_named_and_the_others_listed(store, capsys):
    (store / "r0" / "config.json").write_text('{"plan": ')
    assert cli_runs.main(["ls", str(store)]) == 0
    told = capsys.readouterr()
    assert "1 runs, 1 finished" in told.out
    assert "r0/config.json is damaged" in told.err
    assert cli_runs.main(["ls", str(store / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_listing_needs_neither_jax_nor_pandas(store):
    program = (
        "import sys\nfrom eligrad.cli import main\n"
        f"try:\n    main(['runs', 'ls', {str(store)!r}])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "assert not {'jax', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 runs, 2 finished" in done.stdout


def test_rm_without_an_answer_removes_nothing(store, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert cli_runs.main(["rm", str(store / "r0")]) == 1
    assert "no answer; --yes removes without asking\nnothing removed" in capsys.readouterr().out
    assert (store / "r0").is_dir()
