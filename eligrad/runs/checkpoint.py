"""Checkpoints: any pytree of arrays in one file, written atomically.

The file is a zip archive, which `numpy.load` opens too: `header.json`, and an `.npy` for each leaf,
named by its path in the tree. Nothing in it is ever executed or compressed: reading a file takes no
more memory than the file's length. The archive's CRC-32 of each member is the
checksum. A leaf that is `bytes` may have any length when it is read.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eligrad._base.errors import DamagedFileError
from eligrad._base.files import regular_size, replacing

FORMAT = 3
"""Version of the layout; a file with a higher one comes from a later eligrad."""

_HEADER = "header.json"
_NAME = re.compile(r"checkpoint-[0-9]{12}\.npz$")
BYTES = "bytes"
"""The dtype, in a file, of a leaf that is `bytes`."""
LARGEST_HEADER, LARGEST_BYTES = 2**26, 2**33
"""Bytes that the header and the archive's directory may have, and a leaf of unknown size."""
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_LARGEST_HEADER = 2**16
# As NumPy writes it for arrays of numbers. NumPy itself would evaluate it as Python.
_NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|][?a-zA-Z]\d*)', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d+, ?)*\d*)\), \} *\n"
)
# Raised by zipfile, json and NumPy on a damaged file. Not MemoryError: the file may be intact.
_DAMAGE = (
    zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError, NotImplementedError,
    RuntimeError, struct.error, OverflowError,
)  # fmt: skip


class CheckpointError(ValueError):
    """A file that cannot be used as a checkpoint; the message names it and says why."""


class DamagedCheckpointError(CheckpointError, DamagedFileError):
    """A file that is cut off, altered, or not a checkpoint."""


def in_folder(folder: Path) -> list[Path]:
    """All checkpoints that a run wrote to its folder, from the oldest to the newest."""
    return sorted(f for f in folder.glob("checkpoint-*.npz") if _NAME.match(f.name))


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint in a run's folder; 0 without one."""
    return max((int(file.stem.rpartition("-")[2]) for file in in_folder(folder)), default=0)


def save(path: Path, tree: Any, header: dict[str, Any]) -> None:
    """Writes all leaves of `tree`, and a `header` of JSON values, to one file."""
    leaves = _named_leaves(tree)
    dtypes = {name: str(_dtype(leaf)) for name, leaf in leaves.items()}
    about = {"format": FORMAT, "header": header, "leaves": dtypes}
    with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(about, ensure_ascii=False, allow_nan=False)
        # Not `writestr`, which would write the hour: the same content is the same file.
        with archive.open(_HEADER, "w") as member:
            member.write(text.encode())
        for name, leaf in leaves.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _array(leaf), allow_pickle=False)


def load(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """Reads a tree of the structure, shapes and dtypes of `like`, and the header.

    Leaves that are JAX arrays in `like` are put on the devices those are bound to. Raises
    `CheckpointError` for a file that is damaged, from a later format, or of another tree.
    """
    import jax

    wanted = _named_leaves(like)
    with Reader(path) as reader:
        reader.check_leaves(wanted)
        leaves = [reader.leaf(name, leaf) for name, leaf in wanted.items()]
        return jax.tree.unflatten(jax.tree.structure(like), leaves), reader.about["header"]


def read_header(path: Path) -> dict[str, Any]:
    """Returns the header, without reading the leaves."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    with Reader(path) as reader:
        return reader.about["header"]


def _from_1(about: dict[str, Any]) -> None:
    """Simulators, and checksums of the metrics before it, were not yet part of every file."""
    about["lacks_bytes"] = True
    about["header"].setdefault("metrics", {})


def _from_2(about: dict[str, Any]) -> None:
    """The statistics of agents were called perception."""
    about["members"] = {
        re.sub(r"(^|/)perception(/|$)", r"\1normalizer\2", name): name for name in about["leaves"]
    }
    about["leaves"] = {name: about["leaves"][old] for name, old in about["members"].items()}


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], None]] = {1: _from_1, 2: _from_2}
"""For each earlier format, what makes the `about` of a file that of the next one."""


class Reader:
    """An open checkpoint, whatever format it was written in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._size = regular_size(path)
        except DamagedFileError as error:
            raise DamagedCheckpointError(str(error)) from error
        self._file = _File(path, LARGEST_HEADER)
        try:
            self.about = self._read_about()
        except BaseException:
            self._file.close()
            raise

    def _read_about(self) -> dict[str, Any]:
        """Format, header and dtypes of the leaves, as a file of the current format has them."""
        try:
            self._archive = zipfile.ZipFile(self._file)
            self._file.largest = None
            about = json.loads(self._member(_HEADER, LARGEST_HEADER))
            written, header, leaves = (about[k] for k in ("format", "header", "leaves"))
            if not (type(written) is int and type(header) is type(leaves) is dict):
                raise ValueError(f"{_HEADER} is not the header of a checkpoint")
            _check_header(header)
        except _DAMAGE as error:
            raise self._damaged(error) from error
        if written > FORMAT or written < min(_MIGRATIONS):
            raise CheckpointError(
                f"{self._path} has checkpoint format {written}; this eligrad reads "
                f"{min(_MIGRATIONS)} to {FORMAT}: use the version that wrote it, or a later one"
            )
        for number in range(written, FORMAT):
            _MIGRATIONS[number](about)
        return about

    def check_leaves(self, wanted: dict[str, Any]) -> None:
        """Raises CheckpointError if the file holds another tree."""
        dtypes = {name: str(_dtype(leaf)) for name, leaf in wanted.items()}
        for name in dtypes | self.about["leaves"]:
            here, there = self.about["leaves"].get(name), dtypes.get(name)
            if here != there and not (there == BYTES and self._lacks(name)):
                raise CheckpointError(
                    f"{self._path} does not fit: {name} is {here or 'absent'} in the file and "
                    f"{there or 'absent'} in what is to be restored; agent, environment and "
                    "settings must be those it was saved with"
                )

    def array(self, name: str, largest: int = LARGEST_BYTES) -> np.ndarray:
        """One leaf as it is in the file; refuses more than `largest` bytes."""
        try:
            member = self.about.get("members", {}).get(name, name)
            return _read_npy(self._member(f"{member}.npy", largest + _NPY_LARGEST_HEADER))
        except CheckpointError:
            raise
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def leaf(self, name: str, like: Any) -> Any:
        """One leaf, in the form of `like`."""
        import jax
        import jax.numpy as jnp

        if isinstance(like, bytes) and self._lacks(name):
            return b""
        if isinstance(like, bytes):
            return self.array(name).tobytes()
        template = jax.random.key_data(like) if _is_key(like) else like
        array = self.array(name, math.prod(np.shape(template)) * _dtype(template).itemsize)
        if array.dtype.kind == "V":  # NumPy loses the name of dtypes such as bfloat16
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

    def _member(self, name: str, largest: int) -> bytes:
        """The bytes of an archive's member, after checks of its length."""
        info = self._archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"{name} is compressed; parts of a checkpoint never are")
        if info.header_offset < 0 or info.file_size > self._size:
            raise ValueError(f"{name} is outside of the file")
        if info.file_size > largest:
            raise CheckpointError(
                f"{self._path} does not fit: {name} has {info.file_size:,} bytes in the file, and "
                f"at most {largest:,} can be restored; the number of runs and the network must be "
                "those it was saved with"
            )
        return self._archive.read(info)

    def _damaged(self, error: Exception) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"{self._path} is damaged or not a checkpoint: {error}")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()
        self._file.close()


class _File(io.BufferedReader):
    """A file that refuses to read more than `largest` bytes at once, unless it is None.

    `zipfile` reads an archive's directory at once, whatever length the file states.
    """

    def __init__(self, path: Path, largest: int) -> None:
        super().__init__(io.FileIO(path))
        self.largest: int | None = largest

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads like other files."""
        if size is not None and self.largest is not None and size > self.largest:
            raise ValueError(f"its directory claims {size:,} bytes")
        return super().read(size)


def _named_leaves(tree: Any) -> dict[str, Any]:
    import jax

    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _is_key(leaf: Any) -> bool:
    import jax
    import jax.numpy as jnp

    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any) -> np.ndarray:
    import jax

    if isinstance(leaf, bytes):
        return np.frombuffer(leaf, np.uint8)
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _dtype(leaf: Any) -> Any:
    if isinstance(leaf, bytes):
        return BYTES
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _check_header(header: dict[str, Any]) -> None:
    """Refuses header fields of a wrong type."""
    for name in ("step", "steps"):
        value = header.get(name, 0)
        if type(value) is not int or not 0 <= value < 2**63:
            raise ValueError(f"{name} is {value!r:.80}; a whole number of at least 0 is accepted")
    sums = header.get("metrics", {})
    if type(sums) is not dict or not all(type(digest) is str for digest in sums.values()):
        raise ValueError(f"metrics is {sums!r:.80}; checksums by file are accepted")


def _read_npy(raw: bytes) -> np.ndarray:
    """Returns the array in these bytes, as `numpy.lib.format.write_array` wrote it.

    Nothing in them is executed, and the array takes no more memory than they do. Raises ValueError
    for other bytes.
    """
    begin = len(_NPY_MAGIC) + 2
    if len(raw) < begin or not raw.startswith(_NPY_MAGIC):
        raise ValueError("it does not begin like an array of NumPy's format 1.0")
    end = begin + int.from_bytes(raw[len(_NPY_MAGIC) : begin], "little")
    header = _NPY_HEADER.fullmatch(raw[begin:end])
    if header is None:
        raise ValueError(f"it is not an array of numbers: {raw[begin:end]!r:.200}")
    dtype = np.dtype(header[1].decode())
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and is not unpickled: that could run anything")
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    if math.prod(shape) * dtype.itemsize != len(raw) - end:
        raise ValueError(f"{len(raw) - end} bytes for an array of shape {shape} and dtype {dtype}")
    order = "F" if header[2] == b"True" else "C"
    return np.ndarray(shape, dtype, buffer=raw, offset=end, order=order).copy(order)
