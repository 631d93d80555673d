"""All optimisers by name; one with a line here is tested by all tests of optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import optax

from eligrad._base import array_checks as check
from eligrad._base.array_checks import Number
from eligrad.optim.obgd import adaptive_obgd, obgd
from eligrad.optim.trace_adam import trace_adam


class Settings(NamedTuple):
    """The numbers that an agent has for its optimiser, which takes those that it needs."""

    step_size: Number
    kappa: Number
    """κ of ObGD: a larger one makes smaller steps."""
    trace_decay: Number
    """γ λ, by which the traces fade in one step."""


class _Entry(NamedTuple):
    make: Callable[[Settings], optax.GradientTransformation]
    uses_trace: bool = False


_OPTIMIZERS = {
    "sgd": _Entry(lambda s: optax.sgd(s.step_size)),
    "adam": _Entry(lambda s: optax.adam(s.step_size)),
    "rmsprop": _Entry(lambda s: optax.rmsprop(s.step_size)),
    "obgd": _Entry(lambda s: obgd(s.step_size, s.kappa), uses_trace=True),
    "adaptive-obgd": _Entry(lambda s: adaptive_obgd(s.step_size, s.kappa), uses_trace=True),
    "trace-adam": _Entry(lambda s: trace_adam(s.step_size, s.trace_decay), uses_trace=True),
}


def names() -> tuple[str, ...]:
    """The names of all optimisers."""
    return tuple(_OPTIMIZERS)


def make(name: str, settings: Settings) -> optax.GradientTransformation:
    """The optimiser of that name, which descends a gradient; its numbers may be traced."""
    check.one_of("optimizer", name, names())
    return _OPTIMIZERS[name].make(settings)


def uses_trace(name: str) -> bool:
    """Whether the optimiser of that name needs the eligibility trace."""
    check.one_of("optimizer", name, names())
    return _OPTIMIZERS[name].uses_trace
