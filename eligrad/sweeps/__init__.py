"""Sweeps: trains many runs, each once, on this machine or on a cluster."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.sweeps.driver import Report as Report
    from eligrad.sweeps.driver import StoreFull as StoreFull
    from eligrad.sweeps.driver import run_sweep as run_sweep
    from eligrad.sweeps.spec import Draws as Draws
    from eligrad.sweeps.spec import Spec as Spec
    from eligrad.sweeps.spec import SpecError as SpecError
    from eligrad.sweeps.spec import Sweep as Sweep
    from eligrad.sweeps.spec import read_spec as read_spec

__getattr__, __dir__ = lazy(__name__)
