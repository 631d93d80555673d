"""The whole state of a Gymnasium environment as bytes, and back.

An environment is a chain of links, wrappers around a core, and of the parts that these hold:
whatever in them is an object and not data. A part is never stored. It is found again, by its
number, in another environment that was built in the same way, and its state is put into it: the
attributes of a Python object, the variables that a function closes over, the memory of MuJoCo. That
state is plain data (see `encoding`): reading a snapshot executes nothing.

What is neither data nor a part that was there when the environment was built (an emulator behind a
C pointer, an open window) cannot be saved. Not covered is what lives outside the environment:
variables of modules, NumPy's global random numbers.
"""

from __future__ import annotations

import enum
import functools
import logging
import types
import zlib
from collections import deque
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from eligrad.envs.adapters.gymnasium.encoding import (
    Document,
    NotSerializable,
    damage_as_value_error,
    to_bytes,
)
from eligrad.envs.adapters.gymnasium.mujoco_parts import DataPart, ModelPart, is_data, is_model

# Attributes that say how an environment was made, or draw it: not what happened in it.
_DESCRIPTIONS = ("spec", "_cached_spec", "mujoco_renderer")
_UNCHANGING = (type, types.ModuleType, np.ufunc, enum.Enum, EnvSpec, logging.Logger)
_METHODS = (types.MethodType, types.BuiltinMethodType)
_SIMULATORS = ("gymnasium", "mujoco")


class Snapshots:
    """Takes and restores snapshots of one environment; to be made right after it is built."""

    def __init__(self, env: gymnasium.Env) -> None:
        self._chain = chain_of(env)
        self._parts: dict[str, Part] = {}
        for number, part in enumerate(_find_parts(self._chain)):
            name = part.identity.partition(" ")[0].rpartition(".")[-1]
            self._parts[f"{name} ({number})" if name in self._parts else name] = part
        self._objects = [part.object for part in self._parts.values()]

    def take(self, elapsed: int) -> bytes:
        """Returns the state, `elapsed` steps into an episode, or raises `NotSerializable`."""
        states = {name: part.state(name) for name, part in self._parts.items()}
        return to_bytes({"identity": self._identity(), "elapsed": elapsed}, states, self._objects)

    def restore(self, snapshot: bytes) -> int:
        """Puts the environment into that state and returns the steps elapsed in its episode."""
        document = Document(snapshot)
        with damage_as_value_error():
            identity, elapsed = document.header["identity"], document.header["elapsed"]
        if identity != self._identity():
            raise ValueError(
                f"the snapshot was taken from {identity}; this environment is {self._identity()}. "
                "Another simulator would not continue the same episode"
            )
        states = document.values(self._objects)
        with damage_as_value_error():
            for name, part in self._parts.items():
                part.check(states[name])
        # Nothing is changed before all of it was checked.
        for name, part in self._parts.items():
            part.put(states[name])
        return int(elapsed)

    def _identity(self) -> dict[str, Any]:
        """What must be equal for a snapshot to fit."""
        links = " < ".join(
            f"{type(link).__module__}.{type(link).__qualname__}" for link in self._chain
        )
        parts = "\n".join(part.identity for part in self._parts.values())
        return {
            "environment": links,
            "parts": f"{len(self._parts)}, checksum {zlib.crc32(parts.encode()):08x}",
            **{name: _version(name) for name in _SIMULATORS},
        }


def chain_of(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The wrappers from the outermost to the core."""
    chain = [env]
    while isinstance(chain[-1], gymnasium.Wrapper):
        chain.append(chain[-1].env)
    return chain


@functools.cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


@runtime_checkable
class Part(Protocol):
    """An object in an environment whose state can be written as data."""

    identity: str
    """What it is; the same in an environment that was built in the same way."""

    @property
    def object(self) -> Any:
        """The part itself."""

    def children(self) -> list[Any]:
        """Where further parts may be."""
        ...

    def state(self, where: str) -> Any:
        """Returns its state as data, or raises `NotSerializable`."""
        ...

    def check(self, state: Any) -> None:
        """Raises an error for a state that does not fit."""

    def put(self, state: Any) -> None:
        """Puts it into that state."""


class _Empty:
    """An object with nothing but attributes, to compare sizes with."""


class _ObjectPart:
    """A Python object: its state is its attributes."""

    def __init__(self, obj: Any) -> None:
        self.object = obj
        self.identity = _qualified(type(obj))

    def children(self) -> list[Any]:
        return list(self._attributes().values())

    def state(self, where: str) -> dict[str, Any]:
        return self._attributes()

    def check(self, state: Any) -> None:
        if not all(type(name) is str and not self._is_description(name) for name in state):
            raise ValueError(f"attributes of {self.identity} that are none")

    def put(self, state: dict[str, Any]) -> None:
        attributes = vars(self.object)
        kept = {name: value for name, value in attributes.items() if self._is_description(name)}
        attributes.clear()
        attributes.update(kept | state)

    def _attributes(self) -> dict[str, Any]:
        items = vars(self.object).items()
        return {name: value for name, value in items if not self._is_description(name)}

    def _is_description(self, name: str) -> bool:
        if isinstance(self.object, gymnasium.Space):  # all of it but the samples it will give
            return name != "_np_random"
        return name in _DESCRIPTIONS


class _FunctionPart:
    """A function: its state is the variables that it closes over."""

    def __init__(self, function: types.FunctionType) -> None:
        self.object = function
        self.identity = _qualified(function)
        self._cells = [cell for cell in function.__closure__ or () if _is_filled(cell)]

    def children(self) -> list[Any]:
        return [cell.cell_contents for cell in self._cells]

    def state(self, where: str) -> list[Any]:
        return self.children()

    def check(self, state: Any) -> None:
        if len(state) != len(self._cells):
            raise ValueError(f"{len(state)} variables for {self.identity}")

    def put(self, state: list[Any]) -> None:
        for cell, value in zip(self._cells, state, strict=True):
            cell.cell_contents = value


class _FixedPart:
    """Something that never changes: a class, a module, a method of a part."""

    def __init__(self, obj: Any) -> None:
        self.object = obj
        self.identity = _qualified(obj)

    def children(self) -> list[Any]:
        """What a method belongs to; of one member of an enumeration, all."""
        if isinstance(self.object, enum.Enum):
            return list(type(self.object))
        return [self._owner] if self._owner is not None else []

    def state(self, where: str) -> Any:
        """Nothing, or the part that a method belongs to."""
        if self._owner is not None and _part_of(self._owner) is None:
            raise NotSerializable(f"{where} is a method of a {_qualified(type(self._owner))}")
        return self._owner

    def check(self, state: Any) -> None:
        if state is not self._owner:
            raise ValueError(f"{self.identity} belongs to something else")

    def put(self, state: Any) -> None:
        pass

    @property
    def _owner(self) -> Any:
        owner = self.object.__self__ if isinstance(self.object, _METHODS) else None
        return None if isinstance(owner, types.ModuleType) else owner


def _find_parts(chain: list[gymnasium.Env]) -> list[Part]:
    """All parts that are reached from the links of a chain, in the order in which they are met."""
    parts: list[Part] = []
    met: set[int] = set()
    ahead = deque[Any](chain)
    while ahead:
        value = ahead.popleft()
        if id(value) in met:
            continue
        met.add(id(value))
        part = _part_of(value)
        if part is not None:
            parts.append(part)
            ahead.extend(part.children())
        elif type(value) in (list, tuple, deque):
            ahead.extend(value)
        elif type(value) is dict:
            ahead.extend(value.keys())
            ahead.extend(value.values())
    return parts


def _part_of(value: Any) -> Part | None:
    if is_model(value):
        return ModelPart(value)
    if is_data(value):
        return DataPart(value)
    if isinstance(value, types.FunctionType):
        return _FunctionPart(value)
    if isinstance(value, (*_UNCHANGING, *_METHODS)):
        return _FixedPart(value)
    return _ObjectPart(value) if _has_attributes_only(value) else None


def _has_attributes_only(value: Any) -> bool:
    """Whether there is no more to an object than its dictionary: no slots, no memory of C."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and kind.__basicsize__ <= _Empty.__basicsize__
        and kind.__itemsize__ == 0
        and not any(vars(base).get("__slots__") for base in kind.__mro__)
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _qualified(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{_qualified(type(value))}.{value.name}"
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not hasattr(value, "__qualname__"):
        return _qualified(type(value))
    return f"{value.__module__}.{value.__qualname__}"
