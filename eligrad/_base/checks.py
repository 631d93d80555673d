"""Checks of arguments: what was given, and what is accepted."""

from __future__ import annotations

import math
from typing import Any

MOST_STEPS = 2**31 - 1
"""The largest number of steps, and the largest seed: a 32-bit integer."""


def whole_number(name: str, value: Any) -> int:
    """A count that may be written as 1e6; fractions and numbers below 1 are refused."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (1 <= number <= MOST_STEPS and number == int(number)):
        raise ValueError(f"{name} is {value}; a whole number from 1 to 2³¹ - 1 is accepted")
    return int(number)
