"""The parts that an environment is built of: whatever in it is an object and not data.

A part is never stored. It is found again, by its number, in another environment that was built
in the same way, and its state is put into it: the attributes of a Python object, the variables
that a function closes over, the memory of MuJoCo.
"""

from __future__ import annotations

import enum
import logging
import types
from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from eligrad.envs.adapters.gymnasium.encoding import NotData
from eligrad.envs.adapters.gymnasium.mujoco_parts import DataPart, ModelPart, is_data, is_model

# Attributes that say how an environment was made, or draw it: not what happened in it.
_DESCRIPTIONS = ("spec", "_cached_spec", "mujoco_renderer")
_UNCHANGING = (type, types.ModuleType, np.ufunc, enum.Enum, EnvSpec, logging.Logger)
_METHODS = (types.MethodType, types.BuiltinMethodType)


class _Empty:
    """Size and nature of an object that has nothing but attributes."""


class ObjectPart:
    """A Python object: its state is its attributes."""

    def __init__(self, obj: Any) -> None:
        self.object = obj
        self.identity = _qualified(type(obj))

    def children(self) -> list[Any]:
        """Where further parts may be."""
        return list(self._attributes().values())

    def state(self, where: str) -> dict[str, Any]:
        """The attributes."""
        return self._attributes()

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        if not all(type(name) is str and not self._is_description(name) for name in state):
            raise ValueError(f"attributes of {self.identity} that are none")

    def put(self, state: dict[str, Any]) -> None:
        """Gives it these attributes and no others."""
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


class FunctionPart:
    """A function: its state is the variables that it closes over."""

    def __init__(self, function: types.FunctionType) -> None:
        self.object = function
        self.identity = _qualified(function)
        self._cells = [cell for cell in function.__closure__ or () if _is_filled(cell)]

    def children(self) -> list[Any]:
        """Where further parts may be."""
        return [cell.cell_contents for cell in self._cells]

    def state(self, where: str) -> list[Any]:
        """The variables."""
        return self.children()

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        if len(state) != len(self._cells):
            raise ValueError(f"{len(state)} variables for {self.identity}")

    def put(self, state: list[Any]) -> None:
        """Sets the variables."""
        for cell, value in zip(self._cells, state, strict=True):
            cell.cell_contents = value


class FixedPart:
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
            raise NotData(f"{where} is a method of a {_qualified(type(self._owner))}")
        return self._owner

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        if state is not self._owner:
            raise ValueError(f"{self.identity} belongs to something else")

    def put(self, state: Any) -> None:
        """Nothing to do."""

    @property
    def _owner(self) -> Any:
        owner = self.object.__self__ if isinstance(self.object, _METHODS) else None
        return None if isinstance(owner, types.ModuleType) else owner


Part = ObjectPart | FunctionPart | FixedPart | ModelPart | DataPart


def find_parts(chain: list[gymnasium.Env]) -> list[Part]:
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
        return FunctionPart(value)
    if isinstance(value, (*_UNCHANGING, *_METHODS)):
        return FixedPart(value)
    return ObjectPart(value) if _has_attributes_only(value) else None


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
