"""Checks of arguments: what was given, and what is accepted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MOST_STEPS = 2**31 - 1
"""The largest number of steps, and the largest seed: a 32-bit integer."""
MOST_RUNS = 100_000
"""Runs that one command may train: more are a mistake, and would fill the memory."""


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
