"""Files from anyone: nothing in them is executed, nothing absurd is allocated, nothing else touched."""  # noqa: E501

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eligrad
from eligrad._base.files import checksum, write_json
from eligrad._damaged import DamagedFileError, DamagedFileWarning
from eligrad._files import sealed
from eligrad.analysis import load_episodes, load_runs
from eligrad.engines import Online
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.folder import RunFolder
from eligrad.runs.npy import read_array
from eligrad.training import prepare, resume
from eligrad.training.saved import read_agent
from tests.engines import tiny
from tests.runs.altered import PLAN, STEPS, state, tables, write_archive, write_run


class Attack:
    """Makes a folder as soon as it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def rewritten(path, **members: bytes) -> None:
    """Replaces members of an archive, by name with __ for a slash."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content |= {f"{name.replace('__', '/')}.npy": data for name, data in members.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def pickled_array(target) -> bytes:
    """An array of objects, as NumPy writes and would run it."""
    file = io.BytesIO()
    np.save(file, np.array([Attack(target)], dtype=object), allow_pickle=True)
    return file.getvalue()


def test_an_attack_is_one(tmp_path):
    np.load(io.BytesIO(pickled_array(tmp_path / "hacked")), allow_pickle=True)
    assert (tmp_path / "hacked").exists()


def test_nothing_is_unpickled(tmp_path):
    """In every place where a file could hide a pickle."""
    run, file, target = write_run(tmp_path / "run"), tmp_path / "agent.npz", tmp_path / "hacked"
    newest = RunFolder(run).checkpoints()[-1]
    rewritten(newest, w=pickled_array(target))
    with pytest.raises(DamagedCheckpointError, match="not unpickled"):
        checkpoint.load(newest, state())
    rewritten(write_archive(file), episodes=pickled_array(target))
    with pytest.raises(DamagedCheckpointError, match="not unpickled"):
        read_agent(file)
    raw = pickle.dumps(Attack(target))
    for victim in (
        file,
        newest,
        run / "config.json",
        run / "metrics/episodes" / f"{STEPS:012}.parquet",
    ):
        victim.write_bytes(raw)
    for read in (eligrad.load, read_agent, Online.load):
        with pytest.raises(DamagedCheckpointError, match=r"agent\.npz is damaged"):
            read(*((file, tiny.agent()) if read == Online.load else (file,)))
    with pytest.raises(DamagedFileError, match=r"config\.json is damaged"):
        resume(run)
    with pytest.warns(DamagedFileWarning, match=r"config\.json is damaged"):
        assert load_runs(run).empty
    assert not target.exists()


@pytest.mark.parametrize("shape", [(10**15,), (2**40, 2**40), (10**4000,), (0, 10**30)])
def test_an_array_that_claims_to_be_huge(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    raw = b"\x93NUMPY\x01\x00" + len(header + "\n").to_bytes(2, "little") + header.encode() + b"\n"
    with pytest.raises((ValueError, OverflowError)):
        read_array(raw + bytes(8))
    with pytest.raises((ValueError, OverflowError)):
        read_array(raw)


@pytest.mark.parametrize(
    "array",
    [
        np.float32(3.0),
        np.zeros((0, 4), np.int8),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
        np.frombuffer(b"", np.uint8),
    ],
)
def test_arrays_as_numpy_writes_them(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    found = read_array(file.getvalue())
    assert found.dtype == np.asarray(array).dtype
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_a_bomb_is_not_unpacked(tmp_path):
    """A hundred million zeros, which take a hundred kilobytes when compressed."""
    run = write_run(tmp_path / "run")
    newest = RunFolder(run).checkpoints()[-1]
    with zipfile.ZipFile(newest) as archive:
        header = archive.read("header.json")
    with zipfile.ZipFile(newest, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", header, zipfile.ZIP_STORED)
        for name in ("w", "step", "raw"):
            archive.writestr(f"{name}.npy", bytes(10**8))
    assert newest.stat().st_size < 10**6
    tracemalloc.start()
    try:
        with pytest.raises(DamagedCheckpointError, match="is compressed"):
            checkpoint.load(newest, state())
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_a_table_that_claims_too_much(tmp_path):
    """Rows that are all alike take no space in a file."""
    part = write_run(tmp_path / "run") / "metrics/episodes" / f"{STEPS:012}.parquet"
    schema = tables().episodes.schema
    rows = [pa.array(np.zeros(3_000_000), pa.float64()).cast(field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(rows, schema=schema), part)
    with pytest.raises(DamagedFileError, match="claims 3,000,000 rows, too many"):
        RunFolder(tmp_path / "run").tables()


def test_an_observation_that_claims_to_be_huge(tmp_path):
    checkpoint.save(
        tmp_path / "a.npz",
        {"w": np.zeros(3)},
        {"kind": "online", "steps": 1, "shape": [10**15], "dtype": "float32", "ending": False},
    )
    with pytest.raises(DamagedCheckpointError, match=r"a\.npz is damaged: .* shape \(10000"):
        Online.load(tmp_path / "a.npz", tiny.agent())


@pytest.mark.parametrize("packed", [b"\1", (2**60).to_bytes(8, "little"), b"\1" + bytes(15)])
def test_simulators_that_make_no_sense(packed):
    session = prepare(tiny.agent(), "CartPole-v1", steps=10)
    state = session.engine.state._replace(simulators=packed)
    with pytest.raises(CheckpointError, match=r"run/c\.npz cannot be .*: .*(packed|snapshot)"):
        session.go_on_from(5, state, Path("run/c.npz"))


@pytest.mark.parametrize("outside", ["../precious.txt", "metrics/../../precious.txt", "/precious"])
def test_names_that_lead_out_of_a_folder(tmp_path, outside):
    (tmp_path / "precious.txt").write_text("mine")
    run = write_run(tmp_path / "run")
    name = str(tmp_path / "precious.txt") if outside == "/precious" else outside
    digest = checksum(tmp_path / "precious.txt")
    newest = RunFolder(run).checkpoints()[-1]
    checkpoint.save(newest, state(), {"step": STEPS, "config": {}, "metrics": {name: digest}})
    with pytest.raises(DamagedFileError, match=r"precious.*, which is outside of it"):
        RunFolder.open(run).restore(state())
    write_json(run / "checksums.json", {name: digest})
    assert "which is outside of it" in str(what_is_wrong(run))
    with pytest.warns(DamagedFileWarning, match="which is outside of it"):
        load_episodes(run)


@pytest.mark.parametrize("link", ["metrics", "metrics/episodes"])
def test_links_that_lead_out_of_a_folder(tmp_path, link):
    """Resuming removes metrics from after the last checkpoint: not those of somebody else."""
    run, elsewhere = write_run(tmp_path / "run"), tmp_path / "elsewhere"
    (run / link).rename(elsewhere)
    (run / link).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(DamagedFileError, match=f"{link} is a link to .*elsewhere"):
        resume(run)
    assert sorted(elsewhere.rglob("*")) == before


@pytest.mark.parametrize("env", ["evil_world:Evil-v0", "gymnasium/evil_world:Evil-v0"])
def test_a_file_has_no_module_imported(tmp_path, monkeypatch, env):
    """A name may ask for a module; whoever trusts the file imports it first."""
    (tmp_path / "evil_world.py").write_text(f"open({str(tmp_path / 'hacked')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = write_run(tmp_path / "run")
    config = {"plan": PLAN | {"env": env, "seeds": [3]}, "sessions": []}
    RunFolder(run).write_config(config)
    checkpoint.save(tmp_path / "a.npz", {}, {"step": 1, "plan": config["plan"]})
    refused = pytest.raises(
        ValueError, match=r"the code of 'evil_world' would be run\. .* import it"
    )
    with refused:
        resume(run)
    with refused:
        read_agent(run, 3)
    with refused:
        eligrad.load(tmp_path / "a.npz")
    assert not (tmp_path / "hacked").exists()
    __import__("evil_world")
    with pytest.raises(ValueError, match="unknown environment"):
        resume(run)
    del sys.modules["evil_world"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "qrcc"}, "unknown agent 'qrcc'"),
        ({"steps": 0}, "steps is 0"),
        ({"settings": {"lamb": 1.0}}, "unknown setting of qrc 'lamb'"),
        ({"settings": {"lam": 7.0}}, "lam is 7.0"),
        ({"settings": []}, ""),
        ({"seeds": 3}, ""),
        ({"from_the_future": 1}, "from_the_future"),
    ],
)
def test_plans_that_make_no_sense(tmp_path, change, message):
    run = write_run(tmp_path / "run")
    RunFolder(run).write_config({"plan": PLAN | change, "sessions": []})
    with pytest.raises(
        DamagedFileError, match=rf"the plan in .*config\.json is damaged, or of .*{message}"
    ):
        resume(run)


def test_a_run_of_a_later_eligrad(tmp_path):
    run = write_run(tmp_path / "run")
    write_json(run / "config.json", sealed({"plan": PLAN, "sessions": [], "format": 3}))
    message = "run is a run of format 3; this eligrad reads 1 to 2: use the version"
    with pytest.raises(DamagedFileError, match=message):
        resume(run)
    with pytest.warns(DamagedFileWarning, match="is a run of format 3"):
        assert load_runs(run).empty
    with pytest.raises(CheckpointError, match="is a checkpoint, but not the save of an agent"):
        eligrad.load(RunFolder(run).checkpoints()[-1])


def test_tables_from_before_there_were_runs(tmp_path):
    """Format 1 as it was written then: no format, no seal, and rows that are known by seeds."""
    run = write_run(tmp_path / "run")
    whole = RunFolder(run).tables()
    (run / "config.json").write_text(json.dumps({"plan": PLAN, "sessions": []}))
    for part in run.glob("metrics/*/*.parquet"):
        pq.write_table(pq.read_table(part).drop_columns(["run"]), part)
    for file in RunFolder(run).checkpoints():
        file.unlink()  # theirs had no checksums of metrics
    old = RunFolder(run).tables()
    assert old.episodes.equals(whole.episodes)
    assert old.chunks.select(whole.chunks.column_names).equals(whole.chunks)
    assert set(load_episodes(run)["run"]) == {".#0", ".#1"}
