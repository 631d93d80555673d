"""What of MuJoCo's memory a snapshot must hold, and how it is written back in place.

Positions and velocities alone would not do: rewards and contact forces are read from quantities
that lag one substep behind them, and the solver starts from its last solution. So every
floating-point array of `MjData` is kept that a step does not allocate anew. Whole numbers are not:
they are indices, which a step computes from the model, and which a file must not be able to bend.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np

from eligrad.envs.gymnasium.encoding import NotData


def is_model(value: Any) -> bool:
    """Whether this is an `MjModel`; MuJoCo need not be installed."""
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and type(value) is mujoco.MjModel


def is_data(value: Any) -> bool:
    """Whether this is an `MjData`."""
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and type(value) is mujoco.MjData


class ModelPart:
    """An `MjModel`: the task's numbers, which few environments change while they run."""

    def __init__(self, model: Any) -> None:
        self.object = model
        structs = {"": model, "opt.": model.opt, "stat.": model.stat}
        self._numbers: dict[str, tuple[Any, str]] = {}
        self._whole_numbers: list[tuple[Any, str]] = []
        for prefix, struct in structs.items():
            for name, value in _fields(struct):
                if np.asarray(value).dtype.kind == "f":
                    self._numbers[prefix + name] = (struct, name)
                else:
                    self._whole_numbers.append((struct, name))
        self._built = {name: self._number(name).copy() for name in self._numbers}
        self._built_checksum = self._checksum()
        self.identity = f"mujoco.MjModel {self._built_checksum:08x}"

    def children(self) -> list[Any]:
        """Nothing else is reached through it."""
        return []

    def state(self, where: str) -> dict[str, Any]:
        """The numbers that are not those it was built with."""
        if self._checksum() != self._built_checksum:
            raise NotData(
                f"{where} has other whole numbers (kinds, flags, indices) than when built"
            )
        now = {name: self._number(name) for name in self._numbers}
        built = self._built
        return {n: v.copy() for n, v in now.items() if v.tobytes() != built[n].tobytes()}

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        _check_arrays(state, self._built)

    def put(self, state: dict[str, np.ndarray]) -> None:
        """Writes them back; the others become what they were built as."""
        for name, value in (self._built | state).items():
            struct, field = self._numbers[name]
            if value.ndim:
                getattr(struct, field)[...] = value
            else:
                setattr(struct, field, float(value))

    def _number(self, name: str) -> np.ndarray:
        struct, field = self._numbers[name]
        return np.asarray(getattr(struct, field))

    def _checksum(self) -> int:
        checksum = 0
        for struct, field in self._whole_numbers:
            checksum = zlib.crc32(np.asarray(getattr(struct, field)).data, checksum)
        return checksum


class DataPart:
    """An `MjData`: the state of the simulation."""

    identity = "mujoco.MjData"

    def __init__(self, data: Any) -> None:
        self.object = data
        new = sys.modules["mujoco"].MjData(data.model)
        # What a step allocates anew has no memory in new data: an array of NumPy's own is shown.
        self._names = [
            name
            for name, value in _fields(new)
            if isinstance(value, np.ndarray) and value.base is not None and value.dtype.kind == "f"
        ]

    def children(self) -> list[Any]:
        """The model that it belongs to."""
        return [self.object.model]

    def state(self, where: str) -> dict[str, Any]:
        """All floating-point numbers, and which equality constraints are active."""
        model, data = self.object.model, self.object
        mujoco = sys.modules["mujoco"]
        sleep = getattr(mujoco.mjtEnableBit, "mjENBL_SLEEP", 0)
        if model.nplugin or model.opt.enableflags & int(sleep):
            raise NotData(f"{where} has plugins or sleeping bodies, whose state is not numbers")
        numbers = {name: getattr(data, name).copy() for name in self._names}
        return numbers | {
            "time": np.asarray(data.time),
            "eq_active": data.eq_active != 0,
        }

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        data = self.object
        like = {name: getattr(data, name) for name in self._names}
        _check_arrays(state, like | {"time": np.float64(), "eq_active": data.eq_active != 0})
        if len(state) != len(like) + 2:
            raise ValueError("fields of mujoco.MjData are missing")

    def put(self, state: dict[str, np.ndarray]) -> None:
        """Writes them back in place; contacts are found again by the next step."""
        sys.modules["mujoco"].mj_resetData(self.object.model, self.object)
        for name in self._names:
            getattr(self.object, name)[...] = state[name]
        self.object.eq_active[...] = state["eq_active"]
        self.object.time = float(state["time"])


def _fields(struct: Any) -> list[tuple[str, Any]]:
    """The numbers and arrays of one of MuJoCo's structs, with their names."""
    values = ((name, getattr(struct, name)) for name in dir(struct) if not name.startswith("_"))
    return [(n, v) for n, v in values if isinstance(v, (int, float, bytes, np.ndarray))]


def _check_arrays(state: Any, like: dict[str, Any]) -> None:
    for name, array in state.items():
        wanted = like[name]
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ValueError(
                f"{name} is {array.dtype}{list(array.shape)}; "
                f"{wanted.dtype}{list(wanted.shape)} is accepted"
            )
