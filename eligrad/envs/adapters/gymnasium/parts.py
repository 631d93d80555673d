"""The objects in a Gymnasium environment, and what the state of each is.

Of MuJoCo, positions and velocities are not enough: rewards and contact forces are read from
quantities that lag one substep behind, and the solver starts from its last solution. So every
floating-point array of `MjData` is saved, except those that each step allocates, and those of
`MjModel`, which a task may change. Integers are not: they are indices, which a step computes from
the model, and which a file must not be able to change.
"""

from __future__ import annotations

import enum
import functools
import logging
import sys
import types
import zlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from eligrad.envs.adapters.gymnasium.encoding import NotSerializable

# Attributes that say how an environment was made, or draw it: not what happened in it.
_DESCRIPTIONS = ("spec", "_cached_spec", "mujoco_renderer")
_UNCHANGING = (type, types.ModuleType, np.ufunc, enum.Enum, EnvSpec, logging.Logger)
_METHODS = (types.MethodType, types.BuiltinMethodType)
_SHAPES = ("mesh_", "skin_", "bvh_", "oct_")  # large, and made when a model is compiled


class Part:
    """An object that never changes: a class, a module, a method of a part."""

    def __init__(self, obj: Any) -> None:
        self.object = obj
        self.identity = _qualified(obj)
        """What it is; the same in an environment that was built in the same way."""

    def children(self) -> list[Any]:
        """Where further parts may be: what a method belongs to; of an enumeration, all members."""
        if isinstance(self.object, enum.Enum):
            return list(type(self.object))
        return [self.object.__self__] if isinstance(self.object, _METHODS) else []

    def state(self, where: str) -> Any:
        """Returns its state as data, or raises `NotSerializable`."""

    def put(self, state: Any) -> None:
        """Puts it into that state; an error for one that does not fit may come midway."""


def part_of(value: Any) -> Part | None:
    """The part that an object is; None if it is data, or has state that cannot be reached."""
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and type(value) is mujoco.MjModel:
        return _ModelPart(value)
    if mujoco is not None and type(value) is mujoco.MjData:
        return _DataPart(value)
    if isinstance(value, types.FunctionType):
        return _FunctionPart(value)
    if isinstance(value, _METHODS):
        return Part(value) if part_of(value.__self__) is not None else None
    if isinstance(value, _UNCHANGING):
        return Part(value)
    return _ObjectPart(value) if _has_attributes_only(value) else None


class _ObjectPart(Part):
    """A Python object: its state is its attributes."""

    def children(self) -> list[Any]:
        return list(self.state("").values())

    def state(self, where: str) -> dict[str, Any]:
        items = vars(self.object).items()
        return {name: value for name, value in items if not self._is_description(name)}

    def put(self, state: dict[str, Any]) -> None:
        attributes = vars(self.object)
        kept = {name: value for name, value in attributes.items() if self._is_description(name)}
        attributes.clear()
        attributes.update(state)
        attributes.update(kept)

    def _is_description(self, name: str) -> bool:
        if isinstance(self.object, gymnasium.Space):  # all of it but the samples it will give
            return name != "_np_random"
        return name in _DESCRIPTIONS


class _FunctionPart(Part):
    """A function: its state is the variables that it closes over."""

    def __init__(self, obj: types.FunctionType) -> None:
        super().__init__(obj)
        self._cells = [cell for cell in obj.__closure__ or () if cell != types.CellType()]

    def children(self) -> list[Any]:
        return self.state("")

    def state(self, where: str) -> list[Any]:
        return [cell.cell_contents for cell in self._cells]

    def put(self, state: list[Any]) -> None:
        for cell, value in zip(self._cells, state, strict=True):
            cell.cell_contents = value


class _NumbersPart(Part):
    """Numbers of MuJoCo, in the fields of its structs; they are written back in place."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj)
        self._numbers: dict[str, tuple[Any, str]] = {}

    def state(self, where: str) -> dict[str, np.ndarray]:
        return {name: np.array(getattr(*field)) for name, field in self._numbers.items()}

    def put(self, state: dict[str, np.ndarray]) -> None:
        for name, (struct, field) in self._numbers.items():
            new, now = state[name], np.asarray(getattr(struct, field))
            if (new.shape, new.dtype) != (now.shape, now.dtype):
                raise ValueError(f"{name} has another shape or dtype: {new!r:.99}")
            if now.ndim:
                now[...] = new
            else:
                setattr(struct, field, float(new))


class _ModelPart(_NumbersPart):
    """An `MjModel`: the numbers of the task, which an environment may change as it runs."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj)
        self._others: list[tuple[Any, str]] = []
        for prefix, struct in (("", obj), ("opt.", obj.opt), ("stat.", obj.stat)):
            for name, value in _fields(struct):
                if np.asarray(value).dtype.kind == "f" and not name.startswith(_SHAPES):
                    self._numbers[prefix + name] = (struct, name)
                else:
                    self._others.append((struct, name))
        self._checksum_when_built = self._checksum()
        self.identity = f"mujoco.MjModel {self._checksum_when_built:08x}"

    def state(self, where: str) -> dict[str, np.ndarray]:
        if self._checksum() != self._checksum_when_built:
            raise NotSerializable(
                f"{where} has other kinds, flags, indices or shapes than it was built with"
            )
        return super().state(where)

    def _checksum(self) -> int:
        raw = (np.asarray(getattr(*field)).tobytes() for field in self._others)
        return functools.reduce(lambda checksum, each: zlib.crc32(each, checksum), raw, 0)


class _DataPart(_NumbersPart):
    """An `MjData`: the state of the simulation."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj)
        self.identity = "mujoco.MjData"
        self._mujoco = sys.modules["mujoco"]
        # What a step allocates anew has no memory in new data: an array of NumPy's own is shown.
        for name, value in _fields(self._mujoco.MjData(obj.model)):
            array = np.asarray(value)
            if name == "time" or (array.base is not None and array.dtype.kind == "f"):
                self._numbers[name] = (obj, name)

    def children(self) -> list[Any]:
        return [self.object.model]

    def state(self, where: str) -> dict[str, np.ndarray]:
        model = self.object.model
        sleep = getattr(self._mujoco.mjtEnableBit, "mjENBL_SLEEP", 0)
        if model.nplugin or model.opt.enableflags & int(sleep):
            raise NotSerializable(
                f"{where} has plugins or sleeping bodies, whose state is not numbers"
            )
        if model.nq and "qpos" not in self._numbers:
            raise NotSerializable(
                f"{where} keeps its numbers where this version does not find them"
            )
        return super().state(where) | {"eq_active": self.object.eq_active != 0}

    def put(self, state: dict[str, np.ndarray]) -> None:
        """Contacts are found again by the next step."""
        self._mujoco.mj_resetData(self.object.model, self.object)
        super().put(state)
        self.object.eq_active[...] = state["eq_active"] != 0


def _fields(struct: Any) -> list[tuple[str, Any]]:
    """The numbers and arrays of one of MuJoCo's structs, with their names."""
    values = ((name, getattr(struct, name)) for name in dir(struct) if not name.startswith("_"))
    kinds = (int, float, bytes, np.ndarray)
    return [(name, v) for name, v in values if isinstance(v, kinds) and np.size(v)]


class _Empty:
    """An object with nothing but attributes, to compare sizes with."""


def _has_attributes_only(value: Any) -> bool:
    """Whether there is no more to an object than its dictionary: no slots, no memory of C."""
    kind = type(value)
    return (
        hasattr(value, "__dict__")
        and kind.__basicsize__ <= _Empty.__basicsize__
        and kind.__itemsize__ == 0
        and not any(vars(base).get("__slots__") for base in kind.__mro__)
    )


def _qualified(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{_qualified(type(value))}.{value.name}"
    if isinstance(value, types.ModuleType):
        return value.__name__
    if not hasattr(value, "__qualname__"):
        return _qualified(type(value))
    return f"{value.__module__}.{value.__qualname__}"
