"""Deep reinforcement learning with gradient eligibility traces."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from eligrad._base.optional import needs_train

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

_ELSEWHERE = {"Online": "eligrad.engines", "load_runs": "eligrad.analysis"}


def __getattr__(name: str) -> Any:
    # Looked up when first used: the rules alone need none of it, and `eligrad --help` no JAX.
    if name in __all__:
        with needs_train(f"eligrad.{name}"):
            return getattr(importlib.import_module(_ELSEWHERE.get(name, "eligrad.api")), name)
    if name == "__version__":
        try:
            return importlib.metadata.version("eligrad")
        except importlib.metadata.PackageNotFoundError:
            return "unknown"  # run from its source, without being installed
    raise AttributeError(f"module 'eligrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
