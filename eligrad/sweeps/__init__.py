"""Sweeps: trains many runs, each once, on this machine or on a cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eligrad._base.optional import needs_train

if TYPE_CHECKING:
    from eligrad.sweeps.driver import Report, StoreFull, run_sweep
    from eligrad.sweeps.spec import Draws, Spec, SpecError, Sweep, read_spec

__all__ = ["Draws", "Report", "Spec", "SpecError", "StoreFull", "Sweep", "read_spec", "run_sweep"]

_MODULES = {
    "driver": ("Report", "StoreFull", "run_sweep"),
    "spec": ("Draws", "Spec", "SpecError", "Sweep", "read_spec"),
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: a spec can be read without JAX."""
    for module, names in _MODULES.items():
        if name in names:
            with needs_train("eligrad.sweeps"):
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
