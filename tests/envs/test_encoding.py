"""Data come back as they were, the same object in two places included; all else is refused."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import struct
from collections import deque
from typing import Any

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest

from eligrad.envs.adapters.gymnasium import encoding
from eligrad.envs.adapters.gymnasium.encoding import Document, NotSerializable, to_bytes

QUICK = hypothesis.settings(deadline=None, max_examples=50)


def there_and_back(value: Any, parts: Any = ()) -> Any:
    return Document(to_bytes({}, {"value": value}, parts)).values(parts)["value"]


START = b"eligrad snapshot 1\n"


def read(encoded: bytes) -> tuple[Any, bytes]:
    """The JSON and the memory in the bytes."""
    begin = len(START) + 8
    end = begin + struct.unpack("<Q", encoded[len(START) : begin])[0]
    return json.loads(encoded[begin:end]), encoded[end:]


def written(document: Any, raw: bytes) -> bytes:
    """The inverse."""
    text = json.dumps(document).encode()
    return START + struct.pack("<Q", len(text)) + text + raw


def forge(objects: list[Any], value: Any = None, raw: bytes = b"", sizes: Any = None) -> bytes:
    """Bytes that no encoder wrote."""
    root = {"object": 0} if value is None else value
    sizes = [len(raw)] if sizes is None else sizes
    return written(
        {"header": {}, "values": {"value": root}, "objects": objects, "memory": sizes}, raw
    )


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal in every bit and in every type."""
    assert type(ours) is type(theirs)
    if isinstance(ours, (list, tuple, deque)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(ours, dict):
        assert_same(list(ours), list(theirs))
        assert_same(list(ours.values()), list(theirs.values()))
    elif isinstance(ours, (np.ndarray, np.generic)):
        assert (ours.dtype, ours.shape, ours.strides) == (
            theirs.dtype,
            theirs.shape,
            theirs.strides,
        )
        assert ours.tobytes() == theirs.tobytes()
    elif isinstance(ours, (float, complex)):
        assert repr(ours) == repr(theirs)
    else:
        assert ours == theirs


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.unicode_string_dtypes(min_len=1),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3))
KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary())
LEAVES = st.one_of(
    KEYS,
    st.floats(),
    st.complex_numbers(),
    ARRAYS,
    ARRAYS.map(lambda array: array.T),
    DTYPES,
    DTYPES.flatmap(lambda dtype: hnp.from_dtype(dtype)),
    st.frozensets(st.integers(0, 5)),
    st.binary().map(bytearray),
    st.just(range(2, 9, 3)),
)
DATA = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.lists(inner).map(lambda items: deque(items, maxlen=5)),
    ),
    max_leaves=8,
)


@QUICK
@hypothesis.example(np.str_(""))
@hypothesis.given(DATA)
def test_data_come_back_as_they_were(value):
    assert_same(there_and_back(value), value)


def test_one_object_stays_one_object():
    inner: list[Any] = [1]
    inner.append(inner)
    part = object()
    back = there_and_back({"a": inner, "b": (inner, part)}, [part])
    assert back["a"] is back["b"][0] is back["a"][1]
    assert back["b"][1] is part


@pytest.mark.parametrize(
    "owner",
    [
        np.arange(24.0),
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        np.arange(24.0).reshape(4, 3, 2).transpose(1, 0, 2).copy(order="K"),
        np.frombuffer(np.arange(24.0).tobytes()),
    ],
)
def test_views_stay_views(owner):
    views = [owner, owner[1:], owner[::-1], owner.reshape(-1)[3::2], owner.view(np.int64).T]
    back = there_and_back(views)
    assert_same(back, views)
    if owner.flags.writeable:
        back[0].flat[7] = -1.0
        owner.flat[7] = -1.0
        assert_same(back, views)


def generators() -> list[Any]:
    names = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]
    made = [np.random.Generator(getattr(np.random, name)(7)) for name in names]
    for generator in made:
        generator.integers(5, dtype=np.uint8)  # leaves half a word over
        generator.spawn(2)
    return made


def test_random_numbers_go_on():
    ours = [*generators(), np.random.RandomState(3), random.Random(4)]
    shared = np.random.PCG64(8)
    ours += [np.random.Generator(shared), np.random.Generator(shared)]
    ours[5].normal()  # both keep a second draw for later
    ours[6].gauss(0.0, 1.0)
    theirs = there_and_back(ours)
    for ours_too in range(2):
        for a, b in zip(ours, theirs, strict=True):
            draw = "gauss" if isinstance(a, random.Random) else "normal"
            assert [getattr(a, draw)(0, 1) for _ in range(3)] == [
                getattr(b, draw)(0, 1) for _ in range(3)
            ]
            if isinstance(a, np.random.Generator) and not ours_too:
                child, other = a.spawn(1)[0], b.spawn(1)[0]
                assert child.integers(2**60) == other.integers(2**60)


class Special(list):
    pass


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "value is a builtins.object"),
        ([0, {"key": Special()}], r"value\.key is a .*Special"),
        (np.array([None]), "value has dtype object"),
        (np.zeros(2, [("a", "f4")]), r"value has dtype \[\('a'"),
        (np.frombuffer(bytearray(8)), "in the memory of a memoryview"),
        (np.random.default_rng(0).random, "value is a builtins"),
        (np.random.Generator(np.random.PCG64(np.random.SeedSequence(0, pool_size=8))), "value is"),
        ([10**5000], "too large"),
    ],
)
def test_what_is_no_data_is_named(value, told):
    with pytest.raises(NotSerializable, match=told):
        to_bytes({}, {"value": value})


def test_depth_and_size_have_limits(monkeypatch):
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotSerializable, match="too deep"):
        to_bytes({}, {"value": deep})
    monkeypatch.setattr(encoding, "LARGEST", 100)
    to_bytes({}, {"value": [np.zeros(6), np.zeros(6)]})
    with pytest.raises(NotSerializable, match="value brings it to 104 bytes; 100 are accepted"):
        to_bytes({}, {"value": [np.zeros(6), np.zeros(7)]})


def encoded() -> bytes:
    """One of everything."""
    array = np.arange(6).reshape(2, 3)
    plain = [1, 2.5, "text", None, True, b"raw", 1j, range(3), {1}, np.float32(2), np.dtype("i4")]
    return to_bytes(
        {"about": 1},
        {"a": [*plain, array, array[1:], array.T, deque([1], 2)], "b": generators(),
         "c": {"x": (np.random.RandomState(0), random.Random(0))}},
    )  # fmt: skip


def test_cut_off_anywhere():
    whole = encoded()
    Document(whole).values()
    for length in [*range(200), *range(200, len(whole), 37), len(whole) - 1]:
        with pytest.raises(ValueError, match="no snapshot, or damaged"):
            Document(whole[:length]).values()
    with pytest.raises(ValueError, match="length"):
        Document(whole + b"0")


@QUICK
@hypothesis.given(st.data())
def test_altered_anywhere(data):
    """Nothing but a ValueError, or other data, comes of it."""
    whole = bytearray(encoded())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        Document(bytes(whole)).values()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), st.text(max_size=3),
              st.fixed_dictionaries({"object": st.integers(-2, 80)})),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=4,
)  # fmt: skip


@QUICK
@hypothesis.given(st.data())
def test_forged_anywhere(data):
    """JSON that is sound, but says what the encoder never says."""
    document, raw = read(encoded())
    entry = document["objects"][data.draw(st.integers(0, len(document["objects"]) - 1))]
    entry[data.draw(st.integers(0, len(entry) - 1))] = data.draw(JSON)
    with contextlib.suppress(ValueError):
        Document(written(document, raw)).values()


@pytest.mark.parametrize(
    "bad",
    [
        pickle.dumps([1]),
        forge([["array", "|O8", [1], [0], 0]], raw=bytes(8)),
        forge([["array", "<f8", [2**40], [0], 0]], raw=bytes(8)),
        forge([["array", "<f8", [-1, -1], [0, 1], 0]], raw=bytes(8)),
        forge([["array", "<f8", [1], [0], 0]], raw=bytes(8), sizes=[9, -1]),
        forge([["view", {"object": 1}, "<f8", [3], [8], 0], ["array", "<f8", [2], [0], 0]],
              raw=bytes(16)),
        forge([["view", {"object": 1}, "<f8", [2], [-8], 0], ["array", "<f8", [2], [0], 0]],
              raw=bytes(16)),
        forge([["scalar", "<f8", "00"]]),
        forge([["scalar", "|O8", "0000000000000000"]]),
        forge([["tuple", [{"object": 0}]]]),
        forge([["tuple", {"object": 1}], ["range", 0, 2, 1]]),  # or 10**12 of them
        forge([["eval", "1 + 1"]]),
        forge([], value={"object": 3}),
        forge([], value={"part": 0}),
        forge([["dict", [[{"object": 1}, 0]]], ["list", []]]),
    ],
)  # fmt: skip
def test_forgeries_are_refused(bad):
    with pytest.raises(ValueError, match="no snapshot, or damaged"):
        Document(bad).values()


@pytest.mark.parametrize("position", [-1, 625, 2**31])
def test_positions_outside_of_a_generator_are_refused(position):
    for generator in (np.random.Generator(np.random.MT19937(0)), np.random.RandomState(0)):
        document, raw = read(to_bytes({}, {"value": generator}))
        pairs = [
            pair
            for kind, *details in document["objects"]
            if kind == "dict"
            for pair in details[0]
            if pair[0] == "pos"
        ]
        assert pairs
        pairs[-1][1] = position
        with pytest.raises(ValueError, match="Mersenne"):
            Document(written(document, raw)).values()
        # NumPy takes a pair as well, in which nobody would look for the position.
        objects = document["objects"]
        for entry in [entry for entry in objects if entry[0] in ("bits", "random_state")]:
            objects.append(["tuple", [entry[-1], None]])
            entry[-1] = {"object": len(objects) - 1}
        with pytest.raises(ValueError, match="tuple indices"):
            Document(written(document, raw)).values()
