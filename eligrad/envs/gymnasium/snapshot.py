"""The whole state of a Gymnasium environment as bytes, and back.

An environment is a chain: wrappers around a core. Its state is the attributes of every link,
pickled together. That holds for everything written in Python, and for MuJoCo, whose `MjData`
pickles completely: positions and velocities alone would not do, because rewards and contact
forces are read from quantities that lag one substep behind them, and the solver starts from
its last solution. What cannot be pickled (an emulator behind a C pointer, an open window)
has no snapshot.
"""

from __future__ import annotations

import io
import pickle
import zlib
from importlib import metadata
from typing import Any

import gymnasium

# How the environment was made, not what happened in it.
_DESCRIPTIONS = ("spec", "_cached_spec")
# Draws the data of the environment that it belongs to; has windows, but no state.
_RENDERER = "mujoco_renderer"
_SIMULATORS = ("gymnasium", "mujoco")


def take_snapshot(env: gymnasium.Env, elapsed: int) -> bytes | None:
    """The state of `env`, `elapsed` steps into its episode; None if it cannot be told."""
    chain = chain_of(env)
    states = [
        {k: v for k, v in vars(link).items() if k not in (*_DESCRIPTIONS, _RENDERER)}
        for link in chain
    ]
    try:
        body = _dump(states, chain)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return zlib.compress(pickle.dumps((_identity(chain), elapsed, body)), level=1)


def restore_snapshot(env: gymnasium.Env, snapshot: bytes) -> int:
    """Puts `env` into the state of `snapshot` and returns the steps elapsed in its episode."""
    chain = chain_of(env)
    identity, elapsed, body = pickle.loads(zlib.decompress(snapshot))
    if identity != _identity(chain):
        raise ValueError(
            f"the snapshot was taken from {identity}; this environment is {_identity(chain)}. "
            "Another simulator would not continue the same episode"
        )
    for link, state in zip(chain, _load(body, chain), strict=True):
        kept = {k: v for k, v in vars(link).items() if k in (*_DESCRIPTIONS, _RENDERER)}
        vars(link).clear()
        vars(link).update(kept | state)
    _show_restored_data(env.unwrapped)
    return elapsed


def chain_of(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The wrappers from the outermost to the core."""
    chain = [env]
    while isinstance(chain[-1], gymnasium.Wrapper):
        chain.append(chain[-1].env)
    return chain


def _identity(chain: list[gymnasium.Env]) -> dict[str, str]:
    """What must be the same for a snapshot to fit."""
    links = " < ".join(f"{type(link).__module__}.{type(link).__qualname__}" for link in chain)
    return {"environment": links} | {name: _version(name) for name in _SIMULATORS}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _dump(states: list[dict[str, Any]], chain: list[gymnasium.Env]) -> bytes:
    positions = {id(link): position for position, link in enumerate(chain)}

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> int | None:
            """References between the links stay references."""
            return positions.get(id(obj))

        def reducer_override(self, obj: Any) -> Any:
            """Refuses what pickles without its state: it would come back as new."""
            if isinstance(obj, gymnasium.utils.EzPickle):
                raise pickle.PicklingError(f"{type(obj).__name__} pickles without its state")
            return NotImplemented

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(states)
    return buffer.getvalue()


def _load(body: bytes, chain: list[gymnasium.Env]) -> list[dict[str, Any]]:
    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> gymnasium.Env:
            return chain[pid]

    return Unpickler(io.BytesIO(body)).load()


def _show_restored_data(core: Any) -> None:
    """MuJoCo's data come back as a new object, which the renderer must draw from now on."""
    renderer = getattr(core, _RENDERER, None)
    if renderer is not None:
        renderer.close()
        renderer._viewers.clear()
        renderer.model, renderer.data = core.model, core.data
