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
from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import checksum, sealed, write_json
from eligrad.analysis import load_episodes, load_runs
from eligrad.engines import Online
from eligrad.engines.trained import read_agent
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError, _read_npy
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import EPISODES, from_bytes, read_parts, to_bytes
from eligrad.training import prepare, resume
from tests.engines import tiny
from tests.runs.altered import PLAN, STEPS, state, write_archive, write_run


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
        _read_npy(raw + bytes(8))
    with pytest.raises((ValueError, OverflowError)):
        _read_npy(raw)


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
    found = _read_npy(file.getvalue())
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


def alike(rows: int, **options: np.ndarray) -> pa.Table:
    """Episodes that are all the same, which take no space in a compressed file."""
    columns = {field.name: np.zeros(rows) for field in EPISODES} | options
    fields = [EPISODES.field(n) if n in EPISODES.names else pa.field(n, "f4") for n in columns]
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns.values(), fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@pytest.mark.parametrize(
    ("rows", "codec", "message"),
    [
        (3_000_000, "snappy", "claims 3,000,000 rows, too many"),
        # A page of them has no more than its beginning says, and a file need not count its rows.
        (1_000, "zstd", "compressed by ZSTD; SNAPPY is accepted"),
        (1_000, "gzip", "compressed by GZIP; SNAPPY is accepted"),
    ],
)
def test_metrics_that_claim_too_much(tmp_path, rows, codec, message):
    part = write_run(tmp_path / "run") / "metrics/episodes" / f"{STEPS:012}.parquet"
    pq.write_table(alike(rows), part, compression=codec)
    with pytest.raises(DamagedFileError, match=rf"{STEPS}\.parquet is damaged: it .*{message}"):
        RunFolder(tmp_path / "run").tables()


def test_many_parts_that_claim_too_much_together(tmp_path):
    """No one of them does: each is within what small files may claim."""
    folder = write_run(tmp_path / "run") / "metrics/episodes"
    for step in range(1, 5):
        pq.write_table(alike(400_000), folder / f"{step:012}.parquet")
    with pytest.raises(DamagedFileError, match=r"2\.parquet is damaged: it claims 400,000 rows"):
        RunFolder(tmp_path / "run").tables()


def test_what_runs_write_is_accepted_however_much_it_is_alike(tmp_path):
    """A thousand runs in a world whose episodes are all of one length and return."""
    runs, ends = 1_000, np.arange(1, 1_001)
    steps = np.concatenate([np.tile(ends + 1_000 * chunk, runs) for chunk in range(2)])
    each = np.tile(np.repeat(np.arange(runs), len(ends)), 2)
    table = alike(len(steps), run=each, seed=each, step=steps)
    part = tmp_path / "part.parquet"
    pq.write_table(table, part)
    assert table.nbytes > 50 * 2**20
    assert table.nbytes > 100 * part.stat().st_size
    assert read_parts([part], "episodes", range(runs)).equals(table)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.nulls(9), "it has a column extra of type null"),
        (pa.array(["long"] * 9).dictionary_encode(), "of type dictionary"),
        (pa.array([[1.0]] * 9), "column extra of type list"),
    ],
)
def test_columns_of_other_types(tmp_path, column, message):
    table = alike(9).append_column("extra", column)
    with pytest.raises(DamagedFileError, match=f"a is damaged: its episodes: .*{message}"):
        from_bytes(to_bytes(table), "episodes", [0], tmp_path / "a")
    if column.type != pa.null():
        pq.write_table(table, tmp_path / "b")
        with pytest.raises(DamagedFileError, match=f"b is damaged: .*{message}"):
            read_parts([tmp_path / "b"], "episodes", [0])


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_table_in_a_saved_agent(codec):
    """18 kB of it would have taken 800 MB."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    table = alike(1_000_000)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    assert len(data) < table.nbytes / 100
    del table
    before = pa.total_allocated_bytes()
    with pytest.raises(DamagedFileError, match=r"a is damaged: its episodes: it is compressed"):
        from_bytes(data, "episodes", [0], Path("a"))
    assert pa.total_allocated_bytes() - before < 10**6


def test_a_table_in_which_all_columns_are_the_same_bytes():
    """A batch says where its columns are, and a forged one that all are in one place."""
    table = alike(1_000, **{f"d{n}": np.zeros(1_000) for n in range(100)})
    data = to_bytes(table)
    _, batch = pa.ipc.MessageReader.open_stream(data)
    about = batch.metadata.to_pybytes()
    begin, offset = data.index(about), 0
    forged = about.replace(number(batch.body.size), number(8_000))
    for field in table.schema:
        size = 1_000 * field.type.byte_width
        forged = forged.replace(number(offset) + number(size), number(0) + number(size))
        offset += -(-size // 8) * 8
    forged = data[:begin] + forged + bytes(8_000)
    assert pa.ipc.open_stream(forged).read_all().equals(table)
    with pytest.raises(DamagedFileError, match=r"a is damaged: its episodes: it claims 428,000"):
        from_bytes(forged, "episodes", [0], Path("a"))


def number(value: int) -> bytes:
    """As Arrow writes it."""
    return value.to_bytes(8, "little")


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
    with pytest.warns(DamagedFileWarning, match=r"names .*precious.*, which is outside of the run"):
        assert RunFolder.open(run).restore(state())[0] == STEPS // 2
    assert (tmp_path / "precious.txt").read_text() == "mine"
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
