"""Deep reinforcement learning with gradient eligibility traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eligrad.analysis import load_runs
    from eligrad.api import (
        GQ2,
        PPO,
        QC,
        QRC,
        ExpectedSarsaLambda,
        GradientPPO,
        Learner,
        QLambda,
        SarsaLambda,
        StreamQ,
        load,
    )

_API = (
    "QRC", "QC", "GQ2", "QLambda", "SarsaLambda", "ExpectedSarsaLambda", "StreamQ", "PPO",
    "GradientPPO", "Learner", "load",
)  # fmt: skip

__all__ = [
    "GQ2",
    "PPO",
    "QC",
    "QRC",
    "ExpectedSarsaLambda",
    "GradientPPO",
    "Learner",
    "QLambda",
    "SarsaLambda",
    "StreamQ",
    "load",
    "load_runs",
]


def __getattr__(name: str) -> Any:
    # Looked up when first used: the rules alone need none of it, and `eligrad --help` no JAX.
    if name in _API:
        from eligrad import api

        return getattr(api, name)
    if name == "load_runs":
        from eligrad.analysis import load_runs

        return load_runs
    if name == "__version__":
        import importlib.metadata

        try:
            return importlib.metadata.version("eligrad")
        except importlib.metadata.PackageNotFoundError:
            return "unknown"  # run from its source, without being installed
    raise AttributeError(f"module 'eligrad' has no attribute {name!r}")
