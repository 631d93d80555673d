"""The machine and its processes."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import pickle
from collections.abc import Iterator


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({} if before is None else {name: before})


@functools.cache
def version_of(package: str) -> str | None:
    """The version that is installed; None if it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def picklable(error: Exception) -> Exception:
    """The error itself, or its words where it would not come through a pipe."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
