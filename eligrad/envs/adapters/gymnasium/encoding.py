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
from typing import Any, NamedTuple

import numpy as np

LARGEST = 2**26
"""Bytes of arrays in one snapshot: every copy has one, and large ones would fill the disk."""

_MAGIC = b"eligrad snapshot 1\n"
_LENGTH = struct.Struct("<Q")
_PLAIN = (type(None), bool, int, float, str)
_DTYPE = re.compile(r"[<>|][biufcSUMm]\d+(\[\w+\])?")  # above all no pointers to Python objects
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
    except NotSerializable:
        raise
    except (RecursionError, ValueError) as error:
        raise NotSerializable(f"something in it is too deep or too large: {error}") from error
    return b"".join([_MAGIC, _LENGTH.pack(len(text)), text, *encoder.raw])


class _Items(list[Any]):
    """Values that stand one by one in the entry of an object."""


class _Encoder:
    def __init__(self, parts: Sequence[Any]) -> None:
        self.objects: list[Any] = []
        self.raw: list[bytes] = []
        self._known = {id(part): {"part": number} for number, part in enumerate(parts)}
        self._size = 0
        self._alive: list[Any] = []  # an id means nothing once its object is gone

    def encode(self, value: Any, where: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if type(value) is _Items:
            return [self.encode(item, where) for item in value]
        if id(value) not in self._known:
            number = len(self.objects)
            self._known[id(value)] = {"object": number}
            self._alive.append(value)
            self.objects.append(None)
            self.objects[number] = self._describe(value, where)
        return self._known[id(value)]

    def _describe(self, value: Any, where: str) -> list[Any]:
        """The entry of an object: the name of its kind, and its details."""
        kind = type(value)
        if kind is dict:
            pairs = ((key, item, f"{where}.{key}") for key, item in value.items())
            return ["dict", [[self.encode(k, where), self.encode(v, at)] for k, v, at in pairs]]
        if isinstance(value, np.dtype):
            name, *details = "dtype", _name_of(value, where)
        elif isinstance(value, np.generic):
            raw = value.tobytes()[: value.dtype.itemsize]  # an empty string would have four
            name, *details = "scalar", _name_of(value.dtype, where), raw.hex()
        elif kind is np.ndarray:
            name, *details = self._describe_array(value, where)
        else:
            name = _NAMES.get(kind, "dict")
            details = _KINDS[name].details(value)
        if details is None:
            raise NotSerializable(f"{where} is a {kind.__module__}.{kind.__qualname__}")
        return [name, *(self.encode(detail, where) for detail in details)]

    def _describe_array(self, array: np.ndarray, where: str) -> tuple[Any, ...]:
        dtype = _name_of(array.dtype, where)
        if type(array.base) is np.ndarray:
            owner = _owner(array)
            offset = array.ctypes.data - owner.ctypes.data
            return "view", owner, dtype, _Items(array.shape), _Items(array.strides), offset
        if array.base is not None and type(array.base) is not bytes:
            raise NotSerializable(f"{where} is in the memory of a {type(array.base).__name__}")
        self._size += array.nbytes
        if self._size > LARGEST:
            brings = f"brings it to {self._size:,} bytes; {LARGEST:,} are accepted"
            raise NotSerializable(f"{where} {brings}")
        # The order of the axes in memory is kept, since sums depend on it in their last bits.
        axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        dense = array.transpose(axes)
        self.raw.append(dense.tobytes())
        order = np.argsort(axes).tolist()
        return "array", dtype, _Items(dense.shape), _Items(order), len(self.raw) - 1


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
            self._values, self._objects = document["values"], document["objects"]
            self._raw = []
            position = start + length
            for size in document["memory"]:
                self._raw.append(encoded[position : position + size])
                position += size
            if position != len(encoded) or min(document["memory"], default=0) < 0:
                raise ValueError("their length is not what they say")

    def values(self, parts: Sequence[Any] = ()) -> dict[str, Any]:
        """Returns the values; `parts` are those of the reader."""
        self._parts, self._made = parts, dict[int, Any]()
        with damage_as_value_error():
            return {name: self._decode(node) for name, node in self._values.items()}

    def _decode(self, node: Any) -> Any:
        if type(node) in _PLAIN:
            return node
        if type(node) is list:
            return [self._decode(item) for item in node]
        ((reference, number),) = node.items()
        if reference == "part":
            return self._parts[number]
        if reference != "object":
            raise ValueError(f"a reference to {reference!r}")
        if number not in self._made:
            self._make(number, *self._objects[number])
        return self._made[number]

    def _make(self, number: int, name: str, *details: Any) -> None:
        make, others, last = _KINDS[name].make, details[:-1], details[-1]
        if name == "array":
            self._made[number] = make(*others, self._raw[last])
        elif name in _CONTAINERS and type(last) is not list:
            raise ValueError(f"{last!r:.99} as the items of a {name}")
        elif name in ("list", "dict", "deque"):  # filled when there: they may hold themselves
            self._made[number] = made = make(*others)
            (made.update if name == "dict" else made.extend)(self._decode(last))
        else:
            self._made[number] = make(*map(self._decode, details))


@contextlib.contextmanager
def damage_as_value_error() -> Iterator[None]:
    """Turns every error that damaged bytes can cause into a ValueError."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"the bytes are no snapshot, or damaged: {error!r}") from error


def _array(dtype: str, shape: list[int], axes: list[int], raw: bytes) -> np.ndarray:
    kind = _dtype_of(dtype)
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes for an array of shape {shape} and dtype {dtype}")
    array = np.ndarray(tuple(shape), kind, buffer=raw).copy()
    return array if axes == list(range(len(shape))) else array.transpose(axes)


def _view(owner: Any, dtype: str, shape: list[int], strides: list[int], offset: int) -> np.ndarray:
    return np.ndarray(tuple(shape), _dtype_of(dtype), _owner(owner), offset, tuple(strides))


def _with_state(made: Any, state: Any, put: str = "__setstate__") -> Any:
    """A random number generator in that state."""
    if put == "__setstate__":  # NumPy's, which does not check what would be outside its memory
        position = state["state"].get("pos", 0)
        if not 0 <= position <= 624:
            raise ValueError(f"position {position} in a Mersenne Twister")
    getattr(made, put)(state)
    return made


def _in_order(values: set[Any] | frozenset[Any]) -> tuple[_Items] | None:
    """The items of a set, unless they would come back in another order."""
    return (_Items(values),) if list(type(values)(list(values))) == list(values) else None


def _owner(array: np.ndarray) -> np.ndarray:
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def _name_of(dtype: np.dtype, where: str) -> str:
    if not _DTYPE.fullmatch(dtype.str):
        raise NotSerializable(f"{where} has dtype {dtype}")
    return dtype.str


def _dtype_of(name: str) -> np.dtype:
    if not _DTYPE.fullmatch(name):
        raise ValueError(f"dtype {name!r}")
    return np.dtype(name)


_BITS = {kind.__name__: kind for kind in (
    np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64,
)}  # fmt: skip


class _Kind(NamedTuple):
    """How values of some types are written and made."""

    make: Callable[..., Any]
    details: Callable[[Any], Sequence[Any] | None] = lambda _: None
    """What `make` makes them of; None for a value that cannot be written."""
    types: Sequence[type] = ()


_KINDS = {
    "dict": _Kind(dict),
    "array": _Kind(_array),
    "view": _Kind(_view),
    "scalar": _Kind(lambda dtype, digits: _array(dtype, [], [], bytes.fromhex(digits))[()]),
    "dtype": _Kind(_dtype_of),
    "list": _Kind(list, lambda v: [_Items(v)], [list]),
    "tuple": _Kind(tuple, lambda v: [_Items(v)], [tuple]),
    "deque": _Kind(lambda n: deque(maxlen=n), lambda v: [v.maxlen, _Items(v)], [deque]),
    "set": _Kind(set, _in_order, [set]),
    "frozenset": _Kind(frozenset, _in_order, [frozenset]),
    "bytes": _Kind(bytes.fromhex, lambda v: [v.hex()], [bytes]),
    "bytearray": _Kind(bytearray.fromhex, lambda v: [v.hex()], [bytearray]),
    "complex": _Kind(complex, lambda v: [v.real, v.imag], [complex]),
    "range": _Kind(range, lambda v: [v.start, v.stop, v.step], [range]),
    "random": _Kind(
        lambda state: _with_state(random.Random(0), state, "setstate"),
        lambda v: [v.getstate()], [random.Random],
    ),
    "generator": _Kind(np.random.Generator, lambda v: [v.bit_generator], [np.random.Generator]),
    "random_state": _Kind(
        lambda bits, state: _with_state(np.random.RandomState(bits), state),
        lambda v: [v._bit_generator, v.get_state(legacy=False)], [np.random.RandomState],
    ),
    "bits": _Kind(
        lambda name, seeds, state: _with_state(_BITS[name](seeds), state),
        lambda v: [type(v).__name__, v.seed_seq, v.state], [*_BITS.values()],
    ),
    "seeds": _Kind(
        lambda entropy, key, spawned: np.random.SeedSequence(
            entropy, spawn_key=key, n_children_spawned=operator.index(spawned)
        ),
        lambda v: [v.entropy, v.spawn_key, v.n_children_spawned] if v.pool_size == 4 else None,
        [np.random.SeedSequence],
    ),
}  # fmt: skip
_CONTAINERS = ("list", "dict", "deque", "tuple", "set", "frozenset")
_NAMES = {each: name for name, kind in _KINDS.items() for each in kind.types}
