"""Atomic writes, folder locks, checksums, and JSON files that carry their own checksum."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eligrad._base.errors import DamagedFileError

LOCK = ".lock"
"""The file in a folder that is locked where folders cannot be, as on Windows."""


def check_target(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuses a file that could not be written: another suffix than these, or no such folder."""
    if suffixes and path.suffix not in suffixes:
        raise ValueError(f"{path} ends in {path.suffix!r}; {', '.join(suffixes)} are accepted")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary file to write to, and renames it to `path` at the end.

    Readers never see half a file. After a failure the old file is still at `path`.
    """
    check_target(path)
    # The leading dot keeps readers of a whole folder, such as pyarrow's, from seeing it.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Makes a folder and its parents, and syncs them to the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def make_parents(path: Path) -> None:
    """Makes the folders above a file; where that cannot be, writing the file says so."""
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        make_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Syncs a folder to the disk: without it a power cut may undo a rename."""
    if sys.platform == "win32":  # where a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network disks sync no folders
            raise
    finally:
        os.close(handle)


def regular_size(path: Path, largest: int | None = None) -> int:
    """Returns the size of a file in bytes; call it before opening the file.

    Raises `DamagedFileError` for a pipe or a device, and for a file larger than `largest`.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise DamagedFileError(f"{path} is damaged: it is no regular file")
    if largest is not None and about.st_size > largest:
        raise DamagedFileError(
            f"{path} is damaged: it has {about.st_size:,} bytes; at most {largest:,} are accepted"
        )
    return about.st_size


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Locks a folder against other processes; gives False if one of them holds the lock.

    The lock ends with the process, however that ends. On a disk without locks, every process gets
    True.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        with _locked_file(folder) as alone:
            yield alone
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


@contextlib.contextmanager
def _locked_file(folder: Path) -> Iterator[bool]:
    import filelock

    lock = filelock.FileLock(folder / LOCK, blocking=False)
    with contextlib.suppress(filelock.Timeout):
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()


def checksum(path: Path) -> str:
    """Returns the SHA-256 of a file's content."""
    regular_size(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(path: Path, digest: str, largest: int | None = None) -> str | None:
    """Says why a file does not have this checksum; None if it has.

    A file larger than `largest` is not read.
    """
    try:
        regular_size(path, largest)
        same = checksum(path) == digest
    except FileNotFoundError:
        return f"{path} is damaged: it is gone"
    except DamagedFileError as error:
        return str(error)
    return None if same else f"{path} is damaged: its checksum differs"


def write_json(path: Path, content: Any) -> None:
    """Writes indented JSON; NaN and infinity are refused, since JSON has neither."""
    with replacing(path) as partial:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


LARGEST = 2**26
"""Bytes that a JSON file may have: 64 MiB, enough for the configuration of millions of runs."""
_SEAL = "sha256"


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the content with its own checksum added, which `read_json` compares."""
    return content | {_SEAL: _digest(content)}


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file; `DamagedFileError` if its own checksum differs.

    A file without a checksum, from an earlier version or written by hand, is read as it is.
    """
    regular_size(path, LARGEST)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
    if isinstance(content, dict):
        seal = content.pop(_SEAL, None)
        if seal is not None and seal != _digest(content):
            raise DamagedFileError(
                f"{path} is damaged: its checksum differs (after a change by hand, remove the "
                f'line "{_SEAL}" too)'
            )
    return content


def inside(folder: Path, name: str) -> Path:
    """Returns the path of a file in a folder; refuses names that lead out of it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise DamagedFileError(f"{folder} is damaged: it names {name}, which is outside of it")
    return folder / name


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
