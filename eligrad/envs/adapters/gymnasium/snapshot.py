"""The whole state of a Gymnasium environment as bytes, and back.

An environment is a chain of links, wrappers around a core, and of the parts that these hold. Its
state is that of all of them, as plain data (see `encoding`): reading a snapshot executes nothing.
What is neither data nor a part that was there when the environment was built (an emulator behind a
C pointer, an open window) cannot be saved. Not covered is what lives outside the environment:
variables of modules, NumPy's global random numbers.
"""

from __future__ import annotations

import functools
import zlib
from importlib import metadata
from typing import Any

import gymnasium

from eligrad.envs.adapters.gymnasium.encoding import Document, noticing_damage, to_bytes
from eligrad.envs.adapters.gymnasium.parts import Part, find_parts

_SIMULATORS = ("gymnasium", "mujoco")


class Snapshots:
    """Takes and restores the snapshots of one environment; made as soon as that is built."""

    def __init__(self, env: gymnasium.Env) -> None:
        self._chain = chain_of(env)
        self._parts: dict[str, Part] = {}
        for number, part in enumerate(find_parts(self._chain)):
            name = part.identity.partition(" ")[0].rpartition(".")[-1]
            self._parts[f"{name} ({number})" if name in self._parts else name] = part
        self._objects = [part.object for part in self._parts.values()]

    def take(self, elapsed: int) -> bytes:
        """The state, `elapsed` steps into an episode; `NotData` says what cannot be told."""
        states = {name: part.state(name) for name, part in self._parts.items()}
        return to_bytes({"identity": self._identity(), "elapsed": elapsed}, states, self._objects)

    def restore(self, snapshot: bytes) -> int:
        """Puts the environment into that state and returns the steps elapsed in its episode."""
        document = Document(snapshot)
        with noticing_damage():
            identity, elapsed = document.header["identity"], document.header["elapsed"]
        if identity != self._identity():
            raise ValueError(
                f"the snapshot was taken from {identity}; this environment is {self._identity()}. "
                "Another simulator would not continue the same episode"
            )
        states = document.values(self._objects)
        with noticing_damage():
            for name, part in self._parts.items():
                part.check(states[name])
        # Only now, when all of it is found to fit, anything is changed.
        for name, part in self._parts.items():
            part.put(states[name])
        return int(elapsed)

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a snapshot to fit."""
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
