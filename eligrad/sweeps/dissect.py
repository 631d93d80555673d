"""Checkpoints of many runs taken apart, without the agent or the environment they came from."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eligrad.engines.simulators import share
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import DamagedCheckpointError


def newest(checkpoints: Sequence[Path]) -> Leaves | None:
    """The last of these files that is sound; None where there is none."""
    for path in reversed(checkpoints):
        with contextlib.suppress(DamagedCheckpointError):
            return Leaves.read(path)
    return None


@dataclasses.dataclass(frozen=True)
class Leaves:
    """The leaves of a checkpoint as they are in the file, by name."""

    arrays: dict[str, np.ndarray]
    dtypes: dict[str, str]
    header: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Leaves:
        """All leaves of a file; `CheckpointError` where it is damaged."""
        with checkpoint.Reader(path) as reader:
            dtypes = dict(reader.about["leaves"])
            return cls(
                {name: reader.array(name) for name in dtypes}, dtypes, reader.about["header"]
            )

    def run(self, index: int, count: int) -> Leaves:
        """Those of one run out of `count`: its entry of every leaf's first axis, kept as one."""
        arrays = {}
        for name, array in self.arrays.items():
            if self.dtypes[name] == checkpoint.BYTES:
                own = share(array.tobytes(), index, count)
                arrays[name] = np.frombuffer(own, np.uint8)
            else:
                arrays[name] = array[index : index + 1]
        return dataclasses.replace(self, arrays=arrays)

    def write(self, path: Path, header: dict[str, Any]) -> None:
        """Writes a checkpoint with another header."""
        checkpoint.write(path, self.arrays, self.dtypes, header)
