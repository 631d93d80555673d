"""The state of MuJoCo in a snapshot: which memory is saved, and how it is written back in place.

Positions and velocities are not enough: rewards and contact forces are read from quantities that
lag one substep behind, and the solver starts from its last solution. So every floating-point array
of `MjData` is saved, except those that each step allocates. Integers are not saved: they are
indices, which a step computes from the model, and which a file must not be able to change.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np

from eligrad.envs.adapters.gymnasium.encoding import NotSerializable

_SHAPES = ("mesh_", "skin_", "bvh_", "oct_")  # large, and made when a model is compiled


def is_model(value: Any) -> bool:
    """Whether this is an `MjModel`; MuJoCo need not be installed."""
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and type(value) is mujoco.MjModel


def is_data(value: Any) -> bool:
    """Whether this is an `MjData`."""
    mujoco = sys.modules.get("mujoco")
    return mujoco is not None and type(value) is mujoco.MjData


class ModelPart:
    """An `MjModel`: the numbers of the task, which an environment may change as it runs."""

    def __init__(self, model: Any) -> None:
        self.object = model
        self._numbers: dict[str, tuple[Any, str]] = {}
        self._others: list[tuple[Any, str]] = []
        for prefix, struct in (("", model), ("opt.", model.opt), ("stat.", model.stat)):
            for name, value in _fields(struct):
                if np.asarray(value).dtype.kind == "f" and not name.startswith(_SHAPES):
                    self._numbers[prefix + name] = (struct, name)
                else:
                    self._others.append((struct, name))
        self._checksum_when_built = self._checksum()
        self.identity = f"mujoco.MjModel {self._checksum_when_built:08x}"

    def children(self) -> list[Any]:
        """Nothing else is reached through it."""
        return []

    def state(self, where: str) -> dict[str, np.ndarray]:
        """All floating-point numbers but those of shapes."""
        if self._checksum() != self._checksum_when_built:
            raise NotSerializable(
                f"{where} has other kinds, flags, indices or shapes than it was built with"
            )
        return {name: self._get(name).copy() for name in self._numbers}

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        _check_arrays(state, {name: self._get(name) for name in self._numbers})

    def put(self, state: dict[str, np.ndarray]) -> None:
        """Writes them back in place."""
        for name, (struct, field) in self._numbers.items():
            if state[name].ndim:
                getattr(struct, field)[...] = state[name]
            else:
                setattr(struct, field, float(state[name]))

    def _get(self, name: str) -> np.ndarray:
        struct, field = self._numbers[name]
        return np.asarray(getattr(struct, field))

    def _checksum(self) -> int:
        checksum = 0
        for struct, field in self._others:
            checksum = zlib.crc32(np.asarray(getattr(struct, field)).tobytes(), checksum)
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
        model = self.object.model
        sleep = getattr(sys.modules["mujoco"].mjtEnableBit, "mjENBL_SLEEP", 0)
        if model.nplugin or model.opt.enableflags & int(sleep):
            raise NotSerializable(
                f"{where} has plugins or sleeping bodies, whose state is not numbers"
            )
        if model.nq and "qpos" not in self._names:
            raise NotSerializable(
                f"{where} keeps its numbers where this version does not find them"
            )
        return self._now()

    def check(self, state: Any) -> None:
        """Refuses what does not fit."""
        _check_arrays(state, self._now())

    def _now(self) -> dict[str, np.ndarray]:
        data = self.object
        numbers = {name: getattr(data, name).copy() for name in self._names}
        return numbers | {"time": np.asarray(data.time), "eq_active": data.eq_active != 0}

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
    kinds = (int, float, bytes, np.ndarray)
    return [(name, v) for name, v in values if isinstance(v, kinds) and np.size(v)]


def _check_arrays(state: Any, like: dict[str, np.ndarray]) -> None:
    if state.keys() != like.keys():
        raise ValueError(f"other fields: {sorted(state.keys() ^ like.keys())}")
    for name, wanted in like.items():
        if (state[name].shape, state[name].dtype) != (wanted.shape, wanted.dtype):
            raise ValueError(f"{name} has another shape or dtype: {state[name]!r:.99}")
