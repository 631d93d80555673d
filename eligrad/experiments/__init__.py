"""Experiments: many runs, what they say together, and how it is shown."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eligrad.experiments.spec import Draws, Spec, SpecError, Sweep, read_spec
    from eligrad.experiments.store import load_chunks, load_episodes, load_runs
    from eligrad.experiments.sweep import Report, StoreFull, run_sweep

__all__ = [
    "Draws",
    "Report",
    "Spec",
    "SpecError",
    "StoreFull",
    "Sweep",
    "load_chunks",
    "load_episodes",
    "load_runs",
    "read_spec",
    "run_sweep",
]

_MODULES = {
    "spec": ("Draws", "Spec", "SpecError", "Sweep", "read_spec"),
    "store": ("load_chunks", "load_episodes", "load_runs"),
    "sweep": ("Report", "StoreFull", "run_sweep"),
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: a list of runs needs neither JAX nor pandas."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
