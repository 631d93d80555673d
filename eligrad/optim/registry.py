"""All optimisers by name; one with a line here is tested by all tests of optimisers.

Names are known without JAX.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from eligrad._base import checks as check
from eligrad._base.lazy import imported


class Settings(NamedTuple):
    """The numbers that an agent has for its optimiser, which takes those that it needs."""

    step_size: Any
    kappa: Any
    """κ of ObGD: a larger one makes smaller steps."""
    trace_decay: Any
    """γ λ, by which the traces fade in one step."""


class _Entry(NamedTuple):
    place: str
    takes: tuple[str, ...] = ("step_size",)
    """The settings that are its arguments."""
    uses_trace: bool = False


_OPTIMIZERS = {
    "sgd": _Entry("optax:sgd"),
    "adam": _Entry("optax:adam"),
    "rmsprop": _Entry("optax:rmsprop"),
    "obgd": _Entry("eligrad.optim.bounded:obgd", ("step_size", "kappa"), uses_trace=True),
    "adaptive-obgd": _Entry(
        "eligrad.optim.bounded:adaptive_obgd", ("step_size", "kappa"), uses_trace=True
    ),
    "trace-adam": _Entry(
        "eligrad.optim.adam:trace_adam", ("step_size", "trace_decay"), uses_trace=True
    ),
}


def names() -> tuple[str, ...]:
    """The names of all optimisers."""
    return tuple(_OPTIMIZERS)


def make(name: str, settings: Settings) -> Any:
    """The optax optimiser of that name, which descends a gradient; its numbers may be traced."""
    entry = _get(name)
    return imported(entry.place)(*(getattr(settings, each) for each in entry.takes))


def uses_trace(name: str) -> bool:
    """Whether the optimiser of that name needs the eligibility trace."""
    return _get(name).uses_trace


def _get(name: str) -> _Entry:
    check.one_of("optimizer", name, names())
    return _OPTIMIZERS[name]
