"""Deep reinforcement learning with gradient eligibility traces."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.analysis import load_runs
    from eligrad.api import (
        GQ2,
        PPO,
        QC,
        QRC,
        ExpectedSarsaLambda,
        GradientAC,
        GradientPPO,
        Learner,
        QLambda,
        SarsaLambda,
        StreamAC,
        StreamQ,
        learner,
        load,
    )
    from eligrad.engines import Online

__all__ = [
    "GQ2",
    "PPO",
    "QC",
    "QRC",
    "ExpectedSarsaLambda",
    "GradientAC",
    "GradientPPO",
    "Learner",
    "Online",
    "QLambda",
    "SarsaLambda",
    "StreamAC",
    "StreamQ",
    "learner",
    "load",
    "load_runs",
]

_get, _names = lazy(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        try:
            return importlib.metadata.version("eligrad")
        except importlib.metadata.PackageNotFoundError:
            return "unknown"  # run from its source, without being installed
    return _get(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
