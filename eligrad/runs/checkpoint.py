"""Checkpoints: any pytree of arrays in one file, complete or absent, never half.

The file is a zip archive, which `numpy.load` opens too: `header.json`, and an `.npy` for each leaf,
named by its path in the tree. Nothing in it is ever executed, and nothing in it is compressed: no
file makes its reader take more memory than it is long. The archive's CRC-32 of each member is the
checksum. A leaf that is `bytes` may have any length when it is read.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from eligrad._base.files import replacing
from eligrad._damaged import DamagedFileError
from eligrad.runs.npy import read_array

FORMAT = 2
"""Version of the layout; a file with a higher one comes from a later eligrad."""

_HEADER = "header.json"
BYTES = "bytes"
"""The dtype, in a file, of a leaf that is `bytes`."""
# What zipfile, json and NumPy raise on a damaged file. Not MemoryError: the file may be sound then.
_DAMAGE = (
    zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, NotImplementedError,
    RuntimeError, struct.error, OverflowError,
)  # fmt: skip


class CheckpointError(ValueError):
    """A file that cannot be used as a checkpoint; the message names it and says why."""


class DamagedCheckpointError(CheckpointError, DamagedFileError):
    """A file that is cut off, altered, or no checkpoint at all."""


def save(path: Path, tree: PyTree, header: dict[str, Any]) -> None:
    """Writes all leaves of `tree`, and a `header` of JSON values, to one file."""
    leaves = _named_leaves(tree)
    dtypes = {name: str(_dtype(leaf)) for name, leaf in leaves.items()}
    write(path, {name: _array(leaf) for name, leaf in leaves.items()}, dtypes, header)


def write(
    path: Path, arrays: dict[str, np.ndarray], dtypes: dict[str, str], header: dict[str, Any]
) -> None:
    """Writes leaves that are arrays already, by name; `dtypes` are what they were before that."""
    about = {"format": FORMAT, "header": header, "leaves": dtypes}
    with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(about, ensure_ascii=False, allow_nan=False)
        # Not `writestr`, which would write the hour: the same content is the same file.
        with archive.open(_HEADER, "w") as member:
            member.write(text.encode())
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: Path, like: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Reads a tree of the structure, shapes and dtypes of `like`, and the header.

    Leaves that are JAX arrays in `like` are put on the devices those are bound to. Raises
    `CheckpointError` for a file that is damaged, from a later format, or of another tree.
    """
    wanted = _named_leaves(like)
    with Reader(path) as reader:
        reader.check_leaves(wanted)
        leaves = [reader.leaf(name, leaf) for name, leaf in wanted.items()]
        return jax.tree.unflatten(jax.tree.structure(like), leaves), reader.about["header"]


def read_header(path: Path) -> dict[str, Any]:
    """The header alone."""
    with Reader(path) as reader:
        return reader.about["header"]


def _from_1(about: dict[str, Any]) -> None:
    """Simulators, and checksums of the metrics before it, were not yet part of every file."""
    about["lacks_bytes"] = True
    about["header"].setdefault("metrics", {})


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], None]] = {1: _from_1}
"""For each earlier format, what makes the `about` of a file that of the next one."""


class Reader:
    """An open checkpoint, whatever format it was written in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self.about: dict[str, Any] = json.loads(self._member(_HEADER))
            written, header, leaves = (self.about[k] for k in ("format", "header", "leaves"))
            if not (type(written) is int and type(header) is type(leaves) is dict):
                raise ValueError(f"{_HEADER} is none of a checkpoint")
        except _DAMAGE as error:
            raise self._damaged(error) from error
        if written > FORMAT or written < min(_MIGRATIONS):
            raise CheckpointError(
                f"{path} has checkpoint format {written}; this eligrad reads {min(_MIGRATIONS)} "
                f"to {FORMAT}: use the version that wrote it, or a later one"
            )
        for number in range(written, FORMAT):
            _MIGRATIONS[number](self.about)

    def check_leaves(self, wanted: dict[str, Any]) -> None:
        """Refuses a file that holds another tree."""
        dtypes = {name: str(_dtype(leaf)) for name, leaf in wanted.items()}
        for name in dtypes | self.about["leaves"]:
            here, there = self.about["leaves"].get(name), dtypes.get(name)
            if here != there and not (there == BYTES and self._lacks(name)):
                raise CheckpointError(
                    f"{self._path} does not fit: {name} is {here or 'absent'} in the file and "
                    f"{there or 'absent'} in what is to be restored; agent, environment and "
                    "settings must be those it was saved with"
                )

    def array(self, name: str) -> np.ndarray:
        """One leaf as it is in the file."""
        try:
            return read_array(self._member(f"{name}.npy"))
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def leaf(self, name: str, like: Any) -> Any:
        """One leaf, in the form of `like`."""
        if isinstance(like, bytes) and self._lacks(name):
            return b""
        array = self.array(name)
        if isinstance(like, bytes):
            return array.tobytes()
        template = jax.random.key_data(like) if _is_key(like) else like
        if array.dtype.kind == "V":  # NumPy forgets the names of bfloat16 and its kin
            array = array.view(_dtype(template))
        if array.shape != np.shape(template):
            raise CheckpointError(
                f"{self._path} does not fit: {name} has shape {array.shape} in the file and "
                f"{np.shape(template)} in what is to be restored; the number of runs and the "
                "network must be those it was saved with"
            )
        if not isinstance(like, jax.Array):
            return array
        restored = jnp.asarray(array)
        if _is_key(like):
            restored = jax.random.wrap_key_data(restored, impl=jax.random.key_impl(like))
        # An array that is bound to no device must stay so, to go where a program needs it.
        return jax.device_put(restored, like.sharding) if like.committed else restored

    def _lacks(self, name: str) -> bool:
        """Whether a leaf of `bytes` is absent because of the file's age, and so empty."""
        return "lacks_bytes" in self.about and name not in self.about["leaves"]

    def _member(self, name: str) -> bytes:
        """A part of the archive, if it is no longer than it says and the file is."""
        info = self._archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"{name} is compressed, which no part of a checkpoint is")
        if info.header_offset < 0 or info.file_size > self._path.stat().st_size:
            raise ValueError(f"{name} is said to be where the file is not")
        return self._archive.read(info)

    def _damaged(self, error: Exception) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"{self._path} is damaged or no checkpoint: {error}")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()


def _named_leaves(tree: PyTree) -> dict[str, Any]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any) -> np.ndarray:
    if isinstance(leaf, bytes):
        return np.frombuffer(leaf, np.uint8)
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _dtype(leaf: Any) -> Any:
    if isinstance(leaf, bytes):
        return BYTES
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
