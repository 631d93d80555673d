"""What goes from one process to another."""

from __future__ import annotations

import pickle


def picklable(error: Exception) -> Exception:
    """The error itself, or its words where it would not come through a pipe."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
