"""Spaces of observations and actions: a box of numbers, one of n choices, or several at once."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import numpy as np

from eligrad._base.checks import is_traced


class _Choices:
    """What one choice and several have in common: integers that count from 0."""

    low = 0
    high: Any
    dtype = np.dtype(np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """One choice is a scalar; several have an entry each."""
        return np.shape(self.high)

    def contains(self, value: Any) -> bool:
        """Whether `value` has an integer within range for each choice."""
        array = np.asarray(value)
        return (
            array.shape == self.shape
            and np.issubdtype(array.dtype, np.integer)
            and bool(np.all((array >= self.low) & (array <= self.high)))
        )


@dataclasses.dataclass(frozen=True)
class Discrete(_Choices):
    """The integers 0 … n - 1."""

    n: int

    @property
    def high(self) -> int:
        """The last choice."""
        return self.n - 1


@dataclasses.dataclass(frozen=True)
class MultiDiscrete(_Choices):
    """Several choices at once: entry i is one of 0 … nvec[i] - 1."""

    nvec: tuple[int, ...]

    @property
    def high(self) -> np.ndarray:
        """The last choice of each."""
        return np.array(self.nvec, np.int32) - np.int32(1)


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays of one shape and dtype whose entries lie in [low, high]; the bounds may be arrays."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "shape", tuple(map(operator.index, self.shape)))
        except TypeError:
            raise TypeError(f"Box shape is {self.shape!r}; a tuple of sizes is accepted") from None
        if min(self.shape, default=0) < 0:
            raise ValueError(f"Box shape is {self.shape}; sizes of at least 0 are accepted")
        for bound in ("low", "high"):
            shape = np.shape(getattr(self, bound))
            if shape not in ((), self.shape):
                raise ValueError(
                    f"Box {bound} has shape {shape}; a scalar or {self.shape} is accepted"
                )
        bounds = (self.low, self.high)
        if not any(map(is_traced, bounds)) and not np.all(np.less_equal(*bounds)):
            raise ValueError(
                f"Box low is {self.low} and high {self.high}; low at most high is accepted"
            )

    def contains(self, value: Any) -> bool:
        """Whether `value` has this shape and dtype and lies within the bounds."""
        array = np.asarray(value)
        return (
            array.shape == self.shape
            and array.dtype == np.dtype(self.dtype)
            and bool(np.all(array >= self.low) and np.all(array <= self.high))
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Box)
            and self.shape == other.shape
            and np.dtype(self.dtype) == np.dtype(other.dtype)
            and bool(np.all(self.low == other.low) and np.all(self.high == other.high))
        )

    def __hash__(self) -> int:
        return hash((self.shape, np.dtype(self.dtype)))


Space = Discrete | MultiDiscrete | Box


def space_to_json(space: Space) -> dict[str, Any]:
    """A space as JSON values; bounds are words, since JSON has no infinity."""
    if isinstance(space, Discrete):
        return {"n": space.n}
    if isinstance(space, MultiDiscrete):
        return {"nvec": list(space.nvec)}
    low, high = (
        list(map(str, np.broadcast_to(bound, space.shape).astype(float).ravel().tolist()))
        for bound in (space.low, space.high)
    )
    dtype = np.dtype(space.dtype).name
    return {"low": low, "high": high, "shape": list(space.shape), "dtype": dtype}


def space_from_json(content: dict[str, Any]) -> Space:
    """The inverse of `space_to_json`; ValueError for what is none."""
    try:
        if "n" in content:
            return Discrete(int(content["n"]))
        if "nvec" in content:
            return MultiDiscrete(tuple(map(int, content["nvec"])))
        shape = tuple(map(int, content["shape"]))
        low, high = (np.array(content[name], float).reshape(shape) for name in ("low", "high"))
        return Box(low, high, shape, np.dtype(content["dtype"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{content!r:.80} is no space: {error}") from error
