"""Checks of arguments: what was given, and what is accepted."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from eligrad._base.errors import did_you_mean

MOST_STEPS = 2**31 - 1
"""The largest number of steps, and the largest seed: a 32-bit integer."""
MOST_RUNS = 100_000
"""Runs that one command may train: more are a mistake, and would fill the memory."""


Leaf = Any
"""A number in a settings pytree: a batch of them inside `vmap`'s arguments, and whatever a
transformation puts in its place meanwhile."""


def one_of(name: str, value: Any, accepted: Iterable[str]) -> None:
    """Refuses a name that is not in the list, and suggests the nearest one that is."""
    accepted = tuple(accepted)
    if value not in accepted:
        hint = did_you_mean(str(value), accepted, all_shown=True)
        raise ValueError(f"{name} is {value!r}; one of {', '.join(accepted)} is accepted{hint}")


def within(name: str, value: Any, low: float, high: float) -> None:
    """Refuses known values outside [low, high], NaN and infinity always.

    A traced value is not checked.
    """
    if is_traced(value):
        return
    interval = f"[{low:g}, {high:g}]" if np.isfinite(high) else f"[{low:g}, ∞)"
    accepted = f"values in {interval} are accepted"
    known = _known_numbers(name, value, accepted)
    outside = ~(np.isfinite(known) & (known >= low) & (known <= high))
    if np.any(outside):
        raise ValueError(f"{name} is {known[outside].flat[0]}; {accepted}")


def positive(name: str, value: Any) -> None:
    """Refuses known values that are not finite and above 0; a traced value is not checked."""
    if is_traced(value):
        return
    accepted = "numbers above 0 are accepted"
    known = _known_numbers(name, value, accepted)
    if not np.all(np.isfinite(known) & (known > 0)):
        raise ValueError(f"{name} is {value}; {accepted}")


def _known_numbers(name: str, value: Any, accepted: str) -> np.ndarray:
    known = np.asarray(value)
    if not is_real(known.dtype):
        raise TypeError(f"{name} is {value!r}; {accepted}")
    return known


def is_real(dtype: Any) -> bool:
    """Whether arrays of the dtype hold real numbers or truth values; also bfloat16 and such."""
    return any(kind in dtype.name for kind in ("float", "int", "bool"))


def is_traced(value: Any) -> bool:
    """Whether JAX is tracing the value, so that it is not known yet."""
    # Without JAX, nothing is traced.
    return isinstance(value, getattr(sys.modules.get("jax.core"), "Tracer", ()))


def whole_number(name: str, value: Any, *, typed: bool = False) -> int:
    """A count that may be written as 1e6; fractions and numbers below 1 are refused.

    So are strings and truth values, unless they were `typed` at a command line.
    """
    try:
        number = math.nan if isinstance(value, str | bool) and not typed else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (1 <= number <= MOST_STEPS and number == int(number)):
        shown = value if typed else repr(value)
        raise ValueError(f"{name} is {shown}; a whole number from 1 to 2³¹ - 1 is accepted")
    return int(number)


def true_or_false(name: str, value: Any) -> bool:
    """The truth of a flag; 0 and 1 are accepted, words are not: bool("False") is true."""
    if not isinstance(value, bool | np.bool_):
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "biuf" or array not in (0, 1):
            raise TypeError(f"{name} is {value!r}; True or False is accepted")
    return bool(value)
