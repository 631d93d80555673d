"""A checkpoint comes back bit for bit, or is refused with its name; never half."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables


class State(NamedTuple):
    w: Any
    keys: Any
    step: Any
    nothing: Any = None


def state(seed: int = 0) -> State:
    key = jax.random.key(seed)
    return State(
        w={"a": jax.random.normal(key, (2, 3)), "b": [jnp.arange(4, dtype=jnp.bfloat16)]},
        keys=jax.random.split(key, 2),
        step=np.array([7, 8], np.int32),
    )


def assert_equal(ours: Any, theirs: Any) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert type(a) is type(b)
        if isinstance(a, bytes):
            assert a == b
            continue
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_round_trip(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, state(0), {"step": 7, "config": {"λ": 0.8}})
    restored, header = checkpoint.load(path, like=state(1))
    assert_equal(restored, state(0))
    assert header == {"step": 7, "config": {"λ": 0.8}} == checkpoint.read_header(path)
    # Readable without eligrad.
    np.testing.assert_array_equal(np.load(path)["w/a"], state(0).w["a"])


def test_the_same_content_is_the_same_file(tmp_path, monkeypatch):
    for name, hour in (("a", 1e9), ("b", 1.1e9)):
        monkeypatch.setattr("time.time", lambda hour=hour: hour)
        checkpoint.save(tmp_path / name, state(), {"step": 7})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("there", [b"", b"\x00 any \xff bytes \x00"])
@pytest.mark.parametrize("here", [b"", b"of another length"])
def test_bytes_have_any_length(tmp_path, there, here):
    checkpoint.save(tmp_path / "c.npz", {"a": there, "b": np.zeros(2)}, {})
    restored, _ = checkpoint.load(tmp_path / "c.npz", like={"a": here, "b": np.ones(2)})
    assert_equal(restored, {"a": there, "b": np.zeros(2)})
    with pytest.raises(CheckpointError, match="a is bytes in the file and uint8"):
        checkpoint.load(tmp_path / "c.npz", like={"a": np.zeros(3, np.uint8), "b": np.ones(2)})


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"a": np.zeros(2)}, {})
    with zipfile.ZipFile(path) as archive:
        header = archive.read("header.json")
    np.savez(path, a=np.array([{"an": "object"}], dtype=object))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("header.json", header)
    with pytest.raises(DamagedCheckpointError, match="pickle"):
        checkpoint.load(path, {"a": np.zeros(2)})


def test_altered_bytes_are_noticed(tmp_path):
    path, broken = tmp_path / "c.npz", tmp_path / "broken.npz"
    checkpoint.save(path, state(), {"step": 1})
    content = path.read_bytes()
    harmless = refused = named = 0
    for place in range(0, len(content), 7):
        altered = bytearray(content)
        altered[place] ^= 0x10
        broken.write_bytes(altered)
        try:
            restored, header = checkpoint.load(broken, like=state(1))
        except CheckpointError as refusal:
            named += "broken.npz" in str(refusal)
            refused += 1
            continue
        # Not all of an archive means something (dates, for one); what does, is intact.
        assert_equal(restored, state())
        assert header == {"step": 1}
        harmless += 1
    assert named == refused > harmless


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_cut_off_files_are_refused(tmp_path, share):
    path = tmp_path / "c.npz"
    checkpoint.save(path, state(), {})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedCheckpointError, match=r"c\.npz is damaged"):
        checkpoint.load(path, like=state())


def written_by_hand(path, about, **arrays):
    """A checkpoint by another writer."""
    np.savez(path, **arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("header.json", json.dumps(about))


@pytest.mark.parametrize("number", [0, checkpoint.FORMAT + 1, 10**9])
def test_later_formats_are_refused(tmp_path, number):
    path = tmp_path / "c.npz"
    written_by_hand(path, {"format": number, "header": {}, "leaves": {}})
    message = rf"c\.npz has checkpoint format {number}; .* 1 to {checkpoint.FORMAT}"
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path, like=())


def test_a_file_in_which_the_normalizer_was_called_perception(tmp_path):
    path = tmp_path / "c.npz"
    leaves = {"agent/perception/mean": "float64", "perception_net": "float64"}
    arrays = {name: np.arange(number, 3.0) for number, name in enumerate(leaves)}
    written_by_hand(path, {"format": 2, "header": {}, "leaves": leaves}, **arrays)
    like = {"agent": {"normalizer": {"mean": np.zeros(3)}}, "perception_net": np.zeros(2)}
    restored, _ = checkpoint.load(path, like=like)
    expected = {"agent": {"normalizer": {"mean": np.arange(3.0)}}}
    assert_equal(restored, expected | {"perception_net": np.arange(1, 3.0)})


def test_a_file_from_before_there_were_simulators_and_checksums(tmp_path):
    path = tmp_path / "c.npz"
    about = {"format": 1, "header": {"step": 7}, "leaves": {"b": "float64"}}
    written_by_hand(path, about, b=np.arange(2.0))
    restored, header = checkpoint.load(path, like={"a": b"something", "b": np.ones(2)})
    assert_equal(restored, {"a": b"", "b": np.arange(2.0)})
    assert header == {"step": 7, "metrics": {}}
    # Later ones cannot do without.
    written_by_hand(path, about | {"format": 2}, b=np.arange(2.0))
    with pytest.raises(CheckpointError, match="a is absent in the file and bytes"):
        checkpoint.load(path, like={"a": b"something", "b": np.ones(2)})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", "8000"), ("step", float("nan")), ("step", -5), ("step", True), ("step", 2**63),
        ("step", None), ("steps", 1.5), ("metrics", []), ("metrics", {"a": 1}),
    ],
)  # fmt: skip
def test_header_fields_of_another_type_are_refused(tmp_path, field, value):
    path = tmp_path / "c.npz"
    written_by_hand(path, {"format": 2, "header": {field: value}, "leaves": {}})
    for read in (checkpoint.read_header, lambda path: checkpoint.load(path, like=())):
        with pytest.raises(DamagedCheckpointError, match=rf"c\.npz is damaged .*: {field} is "):
            read(path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (state()._replace(nothing=np.zeros(1)), "nothing is absent in the file and float64"),
        (state()._replace(step=None), "step is int32 in the file and absent"),
        (state()._replace(step=np.zeros(2, np.float32)), "step is int32 in the file and float32"),
        (state()._replace(step=np.zeros(3, np.int32)), r"step has shape \(2,\) in the file and"),
        (state()._replace(keys=jax.random.split(jax.random.key(0, impl="rbg"))), "keys is key<fry"),
    ],
)
def test_other_trees_are_refused(tmp_path, other, message):
    path = tmp_path / "c.npz"
    checkpoint.save(path, state(), {})
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path, like=other)


def test_an_array_larger_than_the_one_restored_is_not_read(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, {"w": np.zeros(2**20)}, {})
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"not fit: w\.npy has 8,388,736 bytes"):
            checkpoint.load(path, like={"w": np.zeros(2)})
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "c.npz"
    checkpoint.save(path, state(), {})
    content = path.read_bytes()
    with pytest.raises(ValueError, match="pickle"):
        checkpoint.save(path, {"a": np.zeros(3), "b": np.array([object()])}, {})
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_the_last_two_are_kept_and_a_damaged_one_is_passed_over(tmp_path, damage):
    folder = RunFolder.create(tmp_path / "run")
    for step in (10, 20, 30):
        folder.save(step, state(step), Tables.join([]), {})
    older, newest = folder.checkpoints()
    assert (older.name, newest.name) == (
        "checkpoint-000000000020.npz",
        "checkpoint-000000000030.npz",
    )

    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1  # in a leaf: the header can be read
    newest.write_bytes(content[:-100] if damage == "cut" else content)
    with pytest.warns(UserWarning, match=r"30\.npz is damaged .* continuing from .*20\.npz"):
        step, restored = folder.restore(state())
    assert step == 20
    assert_equal(restored, state(20))
    assert [p.stem for p in (folder.path / "metrics/chunks").iterdir()] != []
    assert not (folder.path / "metrics/chunks/000000000030.parquet").exists()

    older.write_bytes(b"")
    with pytest.raises(DamagedCheckpointError, match=r"20\.npz"):
        folder.restore(state())
