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

import zlib
from collections import deque
from typing import Any

import gymnasium

from eligrad._base.system import version_of
from eligrad.envs.adapters.gymnasium.encoding import Document, damage_as_value_error, to_bytes
from eligrad.envs.adapters.gymnasium.parts import Part, part_of


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
        before = {name: part.state(name) for name, part in self._parts.items()}
        try:
            with damage_as_value_error():
                for name, part in self._parts.items():
                    part.put(states[name])
        except ValueError:
            for name, part in self._parts.items():
                part.put(before[name])
            raise
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
            **{name: version_of(name) or "not installed" for name in ("gymnasium", "mujoco")},
        }


def chain_of(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The wrappers from the outermost to the core."""
    chain = [env]
    while isinstance(chain[-1], gymnasium.Wrapper):
        chain.append(chain[-1].env)
    return chain


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
        part = part_of(value)
        if part is not None:
            parts.append(part)
            ahead.extend(part.children())
        elif type(value) in (list, tuple, deque):
            ahead.extend(value)
        elif type(value) is dict:
            ahead.extend(value.keys())
            ahead.extend(value.values())
    return parts
