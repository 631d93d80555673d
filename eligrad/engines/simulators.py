"""Simulators outside JAX as one leaf of an engine's state, so that checkpoints hold them.

The leaf is `bytes`, which a checkpoint stores whatever their length. It is empty where the state of
a simulator cannot be read; a restored run then continues in a new episode.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from eligrad.envs.host import HostCopies, HostTransition

_NUMBER = struct.Struct("<Q")


class Simulators:
    """The copies that an engine steps, and their state in bytes."""

    def __init__(self, copies: HostCopies) -> None:
        self._copies = copies
        self._packed: bytes | None = None

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Begins a first episode in each copy."""
        self._packed = None
        return self._copies.reset(seeds)

    def step(self, actions: Any) -> HostTransition:
        """Takes one action in each copy."""
        self._packed = None
        return self._copies.step(actions)

    def take_info(self, runs: int) -> dict[str, np.ndarray]:
        """The means of numbers in `info` since the last call, [runs], as columns of metrics."""
        info = self._copies.take_info()
        return {f"info_{name}": mean.reshape(runs, -1).mean(axis=1) for name, mean in info.items()}

    @property
    def packed(self) -> bytes:
        """The state of all copies, read once for each step; empty if it cannot be read."""
        if self._packed is None:
            self._packed = _pack(self._copies.snapshot() or [])
        return self._packed

    def restore(self, packed: bytes) -> None:
        """Puts all copies into a state that was `packed`; an empty one changes nothing."""
        if packed:
            self._copies.restore(_unpack(packed))
        self._packed = packed

    @property
    def obstacle(self) -> str:
        """Why the state is empty, in words."""
        return self._copies.obstacle or "it was saved without"

    def close(self) -> None:
        """Frees the copies; a state that was not asked for before is lost."""
        if self._packed is None:
            self._packed = b""
        self._copies.close()


def share_of(packed: bytes, first: int, runs: int, count: int) -> bytes:
    """The simulators of that many runs, from the `first` on, out of `count`, packed."""
    snapshots = _unpack(packed) if packed else []
    each = len(snapshots) // count
    return _pack(snapshots[first * each : (first + runs) * each])


def join(packs: Sequence[bytes]) -> bytes:
    """The simulators of several engines as those of one; empty if any of them is."""
    if not all(packs):
        return b""
    return _pack([snapshot for packed in packs for snapshot in _unpack(packed)])


class HostEngine(ABC):
    """Base of the engines whose environments are outside JAX.

    Setting `state` puts the simulators into theirs, too. If it has none of them, call `interrupt`
    then: the runs continue in new episodes.
    """

    _copies: Simulators
    _state: Any
    """A NamedTuple with `fault_step` and `simulators`; the latter is empty here."""

    @property
    def state(self) -> Any:
        """All that a checkpoint must hold; the simulators are asked for theirs."""
        return self._state._replace(simulators=self._copies.packed)

    @state.setter
    def state(self, state: Any) -> None:
        self._copies.restore(state.simulators)
        self._state = state._replace(simulators=b"")

    @property
    def fault_step(self) -> np.ndarray:
        """First step of each run with a number that is not finite, or -1."""
        return self._state.fault_step

    @abstractmethod
    def interrupt(self, env_seeds: np.ndarray) -> None:
        """Starts new episodes in new simulators; unfinished ones count as truncated."""

    @property
    def obstacle(self) -> str:
        """Why a state has no simulators, in words."""
        return self._copies.obstacle

    def close(self) -> None:
        """Closes the simulators."""
        self._copies.close()


def _pack(snapshots: Sequence[bytes]) -> bytes:
    if not snapshots:
        return b""
    numbers = (len(snapshots), *map(len, snapshots))
    return b"".join([*map(_NUMBER.pack, numbers), *snapshots])


def _unpack(packed: bytes) -> list[bytes]:
    try:
        (count,) = _NUMBER.unpack_from(packed)
        begin = _NUMBER.size * (count + 1)
        lengths = [length for (length,) in _NUMBER.iter_unpack(packed[_NUMBER.size : begin])]
    except struct.error as error:
        raise ValueError(f"the packed simulators are damaged: {error}") from error
    ends = list(accumulate(lengths, initial=begin))
    if len(lengths) != count or ends[-1] != len(packed):
        raise ValueError("the packed simulators are damaged: their length is not what they say")
    return [packed[start:end] for start, end in pairwise(ends)]
