"""The machine and its processes."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pickle


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
