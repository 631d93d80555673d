"""Hyper-parameters: Python numbers or traced scalars, checked where their value is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Shaped

Number = int | float | Shaped[Array, ""]

Leaf = Any
"""A number in a settings pytree: a batch of them inside `vmap`'s arguments, and whatever a
transformation puts in its place meanwhile."""


def check_number(name: str, value: Number, holds: Callable[[float], bool], accepted: str) -> None:
    """Raises ValueError unless `holds(value)`; a traced value has no value yet, and passes."""
    try:
        number = float(value)
    except jax.errors.ConcretizationTypeError:
        return
    if not holds(number):
        raise ValueError(f"{name} is {number}; {accepted} is accepted")
