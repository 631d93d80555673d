"""Files that a reader never sees half-written: write beside, then rename."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` once all went well.

    Until then whatever was at `path` stays; after a failure too.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    # The leading dot keeps readers of a whole folder, such as pyarrow's, from seeing it.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Locks a folder against other processes that ask by this; False where one has it already.

    The lock ends with the process, however that ends. Where the system or the disk has no such
    locks, whoever asks gets it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield True
        return
    # The folder itself, for reading: nothing is left behind, and a disk may become read-only.
    handle = os.open(folder, os.O_RDONLY)
    try:
        alone = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = False
        except OSError:
            pass
        yield alone
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Writes JSON for people and programs; NaN and infinity, which JSON has not, are refused."""
    with replacing(path) as partial:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")
