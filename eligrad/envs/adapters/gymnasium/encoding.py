"""Serializes Python data to bytes; reading them executes nothing, whoever wrote them.

The bytes are a JSON document, followed by the raw memory of arrays. Numbers, strings and None are
written as they are. Everything else is an entry of the table `objects`: an object that is referred
to twice is one object again. Parts of an environment are referred to by their index in a list that
the reader has as well.
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
import random
import re
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

LARGEST = 2**26
"""Bytes of arrays in one snapshot: every copy has one, and large ones would fill the disk."""

_MAGIC = b"eligrad snapshot 1\n"
_LENGTH = struct.Struct("<Q")
_PLAIN = (type(None), bool, int, float, str)
_NUMBERS = "biufcSUMm"  # kinds of arrays that hold values, not references
_DTYPE = re.compile(rf"[<>|][{_NUMBERS}]\d+(\[\w+\])?")
_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64,
    )
}  # fmt: skip
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError,
    MemoryError, struct.error,
)  # fmt: skip


class NotSerializable(ValueError):
    """A value that cannot be serialized; the message names it."""


def to_bytes(header: Any, values: dict[str, Any], parts: Sequence[Any] = ()) -> bytes:
    """Serializes the values and a header of JSON; `NotSerializable` names what cannot be."""
    encoder = _Encoder(parts)
    try:
        encoded = {name: encoder.encode(value, name) for name, value in values.items()}
        document = {
            "header": header,
            "values": encoded,
            "objects": encoder.objects,
            "memory": [len(raw) for raw in encoder.raw],
        }
        text = json.dumps(document, separators=(",", ":")).encode()
    except (RecursionError, ValueError) as error:
        if isinstance(error, NotSerializable):
            raise
        raise NotSerializable(f"something in it is too deep or too large: {error}") from error
    return b"".join([_MAGIC, _LENGTH.pack(len(text)), text, *encoder.raw])


class Document:
    """The content of bytes that `to_bytes` made; others are refused with a ValueError."""

    def __init__(self, encoded: bytes) -> None:
        with damage_as_value_error():
            if not encoded.startswith(_MAGIC):
                raise ValueError("they do not begin as those of this version do")
            start = len(_MAGIC) + _LENGTH.size
            (length,) = _LENGTH.unpack(encoded[len(_MAGIC) : start])
            document = json.loads(encoded[start : start + length])
            self.header = document["header"]
            self._values = document["values"]
            self._objects = document["objects"]
            self._raw = []
            position = start + length
            for size in document["memory"]:
                self._raw.append(encoded[position : position + size])
                position += size
            if position != len(encoded) or min(document["memory"], default=0) < 0:
                raise ValueError("their length is not what they say")

    def values(self, parts: Sequence[Any] = ()) -> dict[str, Any]:
        """Returns the values; `parts` are those of the reader."""
        with damage_as_value_error():
            decoder = _Decoder(self._objects, self._raw, parts)
            return {name: decoder.decode(node) for name, node in self._values.items()}


@contextlib.contextmanager
def damage_as_value_error() -> Iterator[None]:
    """Turns every error that damaged bytes can cause into a ValueError."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"the bytes are no snapshot, or damaged: {error!r}") from error


class _Encoder:
    def __init__(self, parts: Sequence[Any]) -> None:
        self.objects: list[Any] = []
        self.raw: list[bytes] = []
        self._parts = {id(part): number for number, part in enumerate(parts)}
        self._size = 0
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id means nothing once its object is gone

    def encode(self, value: Any, where: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if id(value) in self._parts:
            return {"part": self._parts[id(value)]}
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.objects)
            self._alive.append(value)
            self.objects.append(None)
            self.objects[self._numbers[id(value)]] = self._describe(value, where)
        return {"object": self._numbers[id(value)]}

    def _describe(self, value: Any, where: str) -> list[Any]:
        kind = type(value)
        if kind in (list, tuple):
            return [kind.__name__, self._items(value, where)]
        if kind is dict:
            pairs = (
                [self.encode(key, where), self.encode(item, _join(where, key))]
                for key, item in value.items()
            )
            return ["dict", list(pairs)]
        if kind is deque:
            return ["deque", value.maxlen, self._items(value, where)]
        if kind in (set, frozenset):
            if list(kind(list(value))) != list(value):
                raise NotSerializable(f"{where} is a set whose order cannot be made again")
            return [kind.__name__, self._items(value, where)]
        if kind in (bytes, bytearray):
            return [kind.__name__, value.hex()]
        if kind is complex:
            return ["complex", value.real, value.imag]
        if kind is range:
            return ["range", value.start, value.stop, value.step]
        if isinstance(value, np.dtype):
            return ["dtype", _name_of(value, where)]
        if isinstance(value, np.generic):
            raw = value.tobytes()[: value.dtype.itemsize]  # an empty string would have four
            return ["scalar", _name_of(value.dtype, where), raw.hex()]
        if kind is np.ndarray:
            return self._describe_array(value, where)
        if kind is random.Random:
            return ["random", self.encode(value.getstate(), where)]
        return self._describe_numpy_random(value, where)

    def _describe_array(self, array: np.ndarray, where: str) -> list[Any]:
        dtype = _name_of(array.dtype, where)
        if type(array.base) is np.ndarray:
            owner = _owner(array)
            offset = _address(array) - _address(owner)
            base = self.encode(owner, where)
            return ["view", base, dtype, list(array.shape), list(array.strides), offset]
        if array.base is not None and type(array.base) is not bytes:
            raise NotSerializable(
                f"{where} is an array in the memory of a {type(array.base).__name__}"
            )
        # The order of the axes in memory is kept, since sums depend on it in their last bits.
        axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        dense = array.transpose(axes)
        self._size += array.nbytes
        if self._size > LARGEST:
            raise NotSerializable(
                f"{where} brings it to {self._size:,} bytes; {LARGEST:,} are accepted"
            )
        self.raw.append(dense.tobytes())
        return ["array", dtype, list(dense.shape), np.argsort(axes).tolist(), len(self.raw) - 1]

    def _describe_numpy_random(self, value: Any, where: str) -> list[Any]:
        kind = type(value)
        if kind is np.random.Generator:
            return ["generator", self.encode(value.bit_generator, where)]
        if kind is np.random.RandomState:
            state = value.get_state(legacy=False)
            bits = self.encode(value._bit_generator, where)
            return ["random_state", bits, self.encode(state, where)]
        if kind in _BIT_GENERATORS.values():
            seeds = self.encode(value.seed_seq, where)
            return ["bits", kind.__name__, seeds, self.encode(value.state, where)]
        if kind is np.random.SeedSequence and value.pool_size == 4:
            history = value.entropy, value.spawn_key, value.n_children_spawned
            return ["seeds", *(self.encode(item, where) for item in history)]
        raise NotSerializable(f"{where} is a {kind.__module__}.{kind.__qualname__}")

    def _items(self, items: Any, where: str) -> list[Any]:
        return [self.encode(item, f"{where}[{place}]") for place, item in enumerate(items)]


class _Decoder:
    def __init__(self, objects: list[Any], raw: list[bytes], parts: Sequence[Any]) -> None:
        self._objects = objects
        self._raw = raw
        self._parts = parts
        self._made: dict[int, Any] = {}
        self._under_way: set[int] = set()

    def decode(self, node: Any) -> Any:
        if type(node) in _PLAIN:
            return node
        ((kind, number),) = node.items()
        if kind == "part":
            return self._parts[number]
        if kind != "object":
            raise ValueError(f"a reference to {kind!r}")
        if number in self._made:
            return self._made[number]
        if number in self._under_way:
            raise ValueError(f"object {number} is within itself")
        self._under_way.add(number)
        name, *details = self._objects[number]
        if name in _CONTAINERS:
            self._fill(number, name, *details)
        else:
            self._made[number] = _MAKERS[name](self, *details)
        return self._made[number]

    def _fill(self, number: int, name: str, *details: Any) -> None:
        """Lists and dictionaries may hold themselves: they are there before they are filled."""
        if name == "dict":
            self._made[number] = made = {}
            for key, item in details[0]:
                made[self.decode(key)] = self.decode(item)
        else:
            self._made[number] = made = deque(maxlen=details[0]) if name == "deque" else []
            made.extend(self.decode(item) for item in details[-1])

    def array(self, dtype: str, shape: list[int], axes: list[int], place: int) -> np.ndarray:
        kind, raw = _dtype_of(dtype), self._raw[place]
        if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes for an array of shape {shape} and dtype {dtype}")
        array = np.ndarray(tuple(shape), kind, buffer=raw).copy()
        return array if axes == list(range(len(shape))) else array.transpose(axes)

    def view(
        self, base: Any, dtype: str, shape: list[int], strides: list[int], offset: int
    ) -> np.ndarray:
        owner = _owner(self.decode(base))
        layout: dict[str, Any] = {"offset": offset, "strides": tuple(strides)}
        return np.ndarray(tuple(shape), _dtype_of(dtype), buffer=owner, **layout)

    def scalar(self, dtype: str, digits: str) -> Any:
        kind, raw = _dtype_of(dtype), bytes.fromhex(digits)
        if kind.itemsize != len(raw):
            raise ValueError(f"{len(raw)} bytes for one {dtype}")
        return np.ndarray((), kind, buffer=raw)[()]

    def bits(self, name: str, seeds: Any, state: Any) -> np.random.BitGenerator:
        bits: Any = _BIT_GENERATORS[name](self.decode(seeds))
        bits.state = _inside(self.decode(state))
        return bits

    def random_state(self, bits: Any, state: Any) -> np.random.RandomState:
        restored = np.random.RandomState(self.decode(bits))
        restored.set_state(_inside(self.decode(state)))
        return restored

    def seeds(self, entropy: Any, spawn_key: Any, spawned: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(
            self.decode(entropy),
            spawn_key=self.decode(spawn_key),
            n_children_spawned=operator.index(spawned),
        )

    def random(self, state: Any) -> random.Random:
        restored = random.Random(0)
        restored.setstate(self.decode(state))
        return restored


_CONTAINERS = ("list", "dict", "deque")
_MAKERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda decoder, items: tuple(decoder.decode(item) for item in items),
    "set": lambda decoder, items: {decoder.decode(item) for item in items},
    "frozenset": lambda decoder, items: frozenset(decoder.decode(item) for item in items),
    "bytes": lambda _, digits: bytes.fromhex(digits),
    "bytearray": lambda _, digits: bytearray.fromhex(digits),
    "complex": lambda _, real, imaginary: complex(real, imaginary),
    "range": lambda _, start, stop, step: range(start, stop, step),
    "dtype": lambda _, name: _dtype_of(name),
    "scalar": _Decoder.scalar,
    "array": _Decoder.array,
    "view": _Decoder.view,
    "generator": lambda decoder, bits: np.random.Generator(decoder.decode(bits)),
    "random_state": _Decoder.random_state,
    "bits": _Decoder.bits,
    "seeds": _Decoder.seeds,
    "random": _Decoder.random,
}


def _name_of(dtype: np.dtype, where: str) -> str:
    if dtype.kind not in _NUMBERS:
        raise NotSerializable(f"{where} has dtype {dtype}")
    return dtype.str


def _dtype_of(name: str) -> np.dtype:
    if not _DTYPE.fullmatch(name):  # above all no pointers to Python objects
        raise ValueError(f"dtype {name!r}")
    return np.dtype(name)


def _inside(state: dict[str, Any]) -> dict[str, Any]:
    """Refuses a position that NumPy does not check, and that is outside of its memory."""
    position = state["state"].get("pos", 0)
    if not 0 <= position <= 624:
        raise ValueError(f"position {position} in a Mersenne Twister")
    return state


def _owner(array: np.ndarray) -> np.ndarray:
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _join(where: str, key: Any) -> str:
    if type(key) is str and key.isidentifier():
        return f"{where}.{key}" if where else key
    return f"{where}[{key!r}]"
