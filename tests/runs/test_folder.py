"""Run folders that somebody else changes, kills, or fills with what does not belong there."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad.analysis import load_episodes, load_runs
from eligrad.runs.checkpoint import DamagedCheckpointError
from eligrad.runs.checksums import what_is_wrong, write_checksums
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables
from eligrad.training import resume, saved, train
from tests.engines import tiny
from tests.runs.altered import STEPS, state, tables, write_run

pytestmark = pytest.mark.usefixtures("quickest_compilation")

OPTIONS = {"steps": 200, "seeds": 2, "chunk": 50, "checkpoint_every": 50}


def parts(run: Path, name: str = "episodes") -> list[Path]:
    return sorted((run / "metrics" / name).iterdir())


# Metrics


def test_a_part_that_the_run_did_not_write_is_no_data(tmp_path):
    run = write_run(tmp_path / "run")
    before = RunFolder(run).tables()
    for name in (f"{STEPS:012} (conflicted copy).parquet", "7.parquet", "².parquet"):
        shutil.copy(parts(run)[0], run / "metrics/episodes" / name)
        stray = re.escape(f"{run / 'metrics/episodes' / name} was not written by the run and is")
        with pytest.warns(DamagedFileWarning, match=stray):
            assert RunFolder(run).tables().episodes.equals(before.episodes)
        with pytest.warns(DamagedFileWarning, match=stray):
            assert len(load_episodes(run)) == before.episodes.num_rows
        (run / "metrics/episodes" / name).unlink()


def test_a_checkpoint_that_the_run_did_not_write_is_none(tmp_path):
    """It is neither resumed from nor counted among the two that are kept."""
    folder = write_three(tmp_path / "run")
    older, newest = folder.checkpoints()
    for name in ("checkpoint-000000000030 (conflicted copy).npz", "checkpoint-best.npz"):
        shutil.copy(older, folder.path / name)
    assert folder.checkpoints() == [older, newest]
    assert folder.restore(state())[0] == 30
    folder.save(40, state(40.0), tables(40), {})
    assert [file.stem[-2:] for file in folder.checkpoints()] == ["30", "40"]
    assert (folder.path / "checkpoint-best.npz").exists()


def write_three(path: Path) -> RunFolder:
    """A run with checkpoints at steps 20 and 30, and metrics from step 10 on."""
    folder = RunFolder.create(path)
    folder.write_config({"plan": {"seeds": [3, 4]}, "sessions": []})
    for step in (10, 20, 30):
        folder.save(step, state(float(step)), tables(step), {})
    return folder


@pytest.mark.parametrize("how", ["altered", "gone", "a pipe"])
def test_damaged_metrics_from_before_all_checkpoints(tmp_path, how):
    """The run goes on without them; all that is sound stays as it is."""
    folder = write_three(tmp_path / "run")
    part, *others = parts(folder.path)
    checkpoints = {path: path.read_bytes() for path in folder.checkpoints()}
    content = damage(part, how)
    wrong = {"altered": "is damaged: its checksum differs", "gone": "is damaged: it is gone"}
    message = f"{part} {wrong.get(how, 'is damaged: it is no regular file')}; continuing without"
    with pytest.warns(DamagedFileWarning) as caught:
        step, restored = folder.restore(state())
    assert [str(each.message) for each in caught] == [f"{message} the episodes of steps 1 to 10"]
    assert step == 30
    np.testing.assert_array_equal(restored["w"], state(30.0)["w"])
    assert folder.lost == [f"metrics/episodes/{part.name}"]
    assert checkpoints == {path: path.read_bytes() for path in folder.checkpoints()}
    aside = part.with_suffix(".damaged")
    assert parts(folder.path) == sorted(others if how == "gone" else [*others, aside])
    if how == "altered":
        assert aside.read_bytes() == content
    # From now on it is not asked for again.
    folder.save(40, state(40.0), tables(40), {})
    assert folder.restore(state())[0] == 40
    assert folder.tables().episodes.num_rows == 20 + 30 + 40
    assert what_is_wrong(folder.path) is None


def damage(part: Path, how: str) -> bytes:
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.unlink()
    if how == "altered":
        part.write_bytes(content)
    elif how == "a pipe":
        os.mkfifo(part)
    return bytes(content)


def test_damaged_metrics_that_can_be_written_again(tmp_path):
    """A checkpoint from before them is gone back to, and nothing is lost."""
    folder = write_three(tmp_path / "run")
    damage(parts(folder.path)[-1], "altered")
    with pytest.warns(
        DamagedFileWarning, match=r"30\.parquet is damaged.*; continuing from .*20\."
    ):
        assert folder.restore(state())[0] == 20
    assert [part.stem for part in parts(folder.path)] == ["000000000010", "000000000020"]
    assert folder.lost == []


def test_the_checkpoint_that_loses_least_is_taken(tmp_path):
    folder = write_three(tmp_path / "run")
    damage(parts(folder.path)[0], "altered")
    damage(parts(folder.path)[-1], "altered")
    with pytest.warns(DamagedFileWarning) as caught:
        assert folder.restore(state())[0] == 20
    passed_over, without = (str(each.message) for each in caught)
    assert "030.parquet is damaged" in passed_over
    assert "continuing without the episodes of steps 1 to 10" in without


def test_where_no_checkpoint_is_sound_all_stay(tmp_path):
    folder = write_three(tmp_path / "run")
    for file in folder.checkpoints():
        file.write_bytes(file.read_bytes()[:-100])
    before = sorted(folder.path.rglob("*"))
    with pytest.raises(DamagedCheckpointError, match=r"30\.npz is damaged.*20\.npz is damaged"):
        folder.restore(state())
    assert sorted(folder.path.rglob("*")) == before


def test_training_and_loading_go_on_without_damaged_metrics(tmp_path):
    run, again = tmp_path / "run", {"agent": tiny.agent(), "env": tiny.ENV}
    whole = train(tiny.agent(), tiny.ENV, out=run, **OPTIONS)
    damage(parts(run)[0], "altered")
    session = saved.load(run, **again)
    assert session.step == 200
    assert session.tables().episodes.equals(after(whole.episodes, 50))
    session.close()
    with pytest.warns(DamagedFileWarning, match="continuing without the episodes of steps 1 to 50"):
        resumed = resume(run, steps=250, **again)
    straight = train(tiny.agent(), tiny.ENV, **OPTIONS | {"steps": 250})
    assert resumed.episodes.equals(after(straight.episodes, 50))
    assert [s.get("lost_metrics") for s in RunFolder(run).config["sessions"]] == [
        None, ["metrics/episodes/000000000050.parquet"],
    ]  # fmt: skip


def after(episodes, step: int):
    return episodes.filter(np.asarray(episodes["step"]) > step)


# Folders that are removed, and processes that are killed


@pytest.mark.parametrize("what", ["all", "config.json", "metrics", "moved"])
@pytest.mark.parametrize("then", ["save", "write_summary"])
def test_a_folder_that_is_removed_while_it_is_trained(tmp_path, what, then):
    run = tmp_path / "run"
    folder = RunFolder.create(run)
    with folder.locked():
        folder.write_config({})
        folder.save(10, state(), tables(), {})
        if what == "moved":
            shutil.copytree(run, tmp_path / "copy")
            run.rename(tmp_path / "elsewhere")
            (tmp_path / "copy").rename(run)
        elif what == "config.json":
            (run / what).unlink()
        else:
            shutil.rmtree(run / what.replace("all", ""))
        arguments = (20, state(), tables(), {}) if then == "save" else ({},)
        with pytest.raises(FileNotFoundError, match="run was removed, or files in it were"):
            getattr(folder, then)(*arguments)
    assert not (run / "summary.json").exists()


def test_training_ends_where_its_folder_is_removed(tmp_path):
    with pytest.raises(FileNotFoundError, match="run was removed, or files in it were"):
        train(
            tiny.agent(), tiny.ENV, out=tmp_path / "run",
            callbacks=[lambda session: shutil.rmtree(tmp_path / "run")], **OPTIONS,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_run_killed_as_it_wrote_its_first_file_is_begun_again(tmp_path):
    """What was half written is neither a run nor in the way of one."""
    run = tmp_path / "run"
    run.mkdir()
    (run / ".config.json.12345.partial").write_text('{"plan": {')
    with pytest.raises(FileNotFoundError, match="nothing was trained in it yet: start it again"):
        resume(run)
    train(tiny.agent(), tiny.ENV, out=run, **OPTIONS)
    assert not list(run.glob(".*"))
    with pytest.raises(FileExistsError):
        RunFolder.create(run)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".precious").touch()
    with pytest.raises(FileExistsError):
        RunFolder.create(tmp_path / "other")


# Files that are none


def replace_by(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(20 * 10**9)


KINDS = ["a pipe", "a device", "20 GB of nothing"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_no_small_file(tmp_path, kind, name):
    run = write_run(tmp_path / "run")
    replace_by(run / name, kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert load_runs(run).empty
    if (run / name).is_file() or name == "summary.json":
        assert name in str(caught[0].message)
    if name == "config.json":
        with pytest.raises((FileNotFoundError, DamagedFileError), match="run"):
            resume(run)


@pytest.mark.parametrize("kind", KINDS)
def test_no_checkpoint(tmp_path, kind):
    run = write_run(tmp_path / "run")
    replace_by(RunFolder(run).checkpoints()[-1], kind)
    with pytest.warns(DamagedFileWarning, match=rf"{STEPS}\.npz is damaged"):
        assert RunFolder(run).restore(state())[0] == STEPS // 2


@pytest.mark.parametrize("kind", KINDS)
def test_no_metrics(tmp_path, kind):
    run = write_run(tmp_path / "run")
    replace_by(parts(run)[0], kind)
    with pytest.warns(DamagedFileWarning, match=r"200\.parquet.*the run is left out"):
        assert load_episodes(run).empty
    with pytest.raises(DamagedFileError, match=r"200\.parquet is damaged"):
        RunFolder(run).tables()
    with pytest.warns(
        DamagedFileWarning, match=r"200\.parquet .*; continuing without the episodes"
    ):
        assert RunFolder(run).restore(state())[0] == STEPS


def test_a_pipe_among_checksums(tmp_path):
    run = write_run(tmp_path / "run")
    write_checksums(run)
    assert what_is_wrong(run) is None
    replace_by(run / "summary.json", "a pipe")
    assert "summary.json is damaged" in str(what_is_wrong(run))


def test_a_directory_of_an_archive_that_is_said_to_be_huge(tmp_path):
    """`zipfile` would read all of it at once."""
    run = write_run(tmp_path / "run")
    newest = RunFolder(run).checkpoints()[-1]
    length = 4 * 10**9
    end = b"PK\5\6" + bytes(8) + length.to_bytes(4, "little") + bytes(6)
    with newest.open("wb") as file:
        file.truncate(length)
        file.seek(length)
        file.write(end)
    with pytest.warns(DamagedFileWarning, match=r"its directory claims 4,000,000,000"):
        assert RunFolder(run).restore(state())[0] == STEPS // 2


# Disks and locks


def test_a_rename_is_synced(tmp_path, monkeypatch):
    """The file before it, its folder after it, and the folders above that are new."""
    done = []
    fsync, replace, mkdir = os.fsync, Path.replace, Path.mkdir

    def noting(name, call, place):
        def noted(*arguments, **options):
            done.append((name, place(arguments[0])))
            return call(*arguments, **options)

        return noted

    monkeypatch.setattr(
        os, "fsync", noting("sync", fsync, lambda n: os.readlink(f"/proc/self/fd/{n}"))
    )
    monkeypatch.setattr(Path, "replace", noting("rename", replace, str))
    monkeypatch.setattr(Path, "mkdir", noting("make", mkdir, str))
    RunFolder(tmp_path / "run").write_tables(10, Tables.join([]))
    run = str(tmp_path / "run")
    partial = f"{run}/metrics/episodes/.000000000010.parquet.{os.getpid()}.partial"
    assert done[: done.index(("make", f"{run}/metrics/chunks"))] == [
        ("make", run), ("sync", str(tmp_path)),
        ("make", f"{run}/metrics"), ("sync", run),
        ("make", f"{run}/metrics/episodes"), ("sync", f"{run}/metrics"),
        ("sync", partial), ("rename", partial), ("sync", f"{run}/metrics/episodes"),
    ]  # fmt: skip
