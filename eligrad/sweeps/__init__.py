"""Sweeps: trains many runs, each once, on this machine or on a cluster."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.sweeps.driver import Report, StoreFull, run_sweep
    from eligrad.sweeps.spec import Draws, Spec, SpecError, Sweep, read_spec

__all__ = ["Draws", "Report", "Spec", "SpecError", "StoreFull", "Sweep", "read_spec", "run_sweep"]

__getattr__, __dir__ = lazy(__name__)
