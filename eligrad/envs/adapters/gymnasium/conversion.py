"""Gymnasium's spaces as ours, and actions on their way back."""

from __future__ import annotations

import gymnasium
import jax
import numpy as np
from jaxtyping import Shaped

from eligrad.envs.spaces import Box, Discrete, MultiDiscrete, Space


def convert_observation_space(space: gymnasium.Space, name: str) -> Box:
    """An observation space as a `Box`; Gymnasium flattens those of other kinds."""
    if isinstance(space, gymnasium.spaces.Box):
        return _convert_box(space)
    flat = gymnasium.spaces.flatten_space(space) if space.is_np_flattenable else None
    if isinstance(flat, gymnasium.spaces.Box):
        return Box(flat.low, flat.high, flat.shape, np.float32)
    raise ValueError(
        f"{name} has observations of {space}; Box is accepted, and what Gymnasium can flatten: "
        "Discrete, MultiDiscrete, MultiBinary, Dict, Tuple. Wrap the environment so that it "
        "observes one of these (gymnasium.wrappers.TransformObservation)"
    )


def convert_action_space(space: gymnasium.Space, name: str) -> Space:
    """An action space as a `Box`, or as choices that count from 0."""
    if isinstance(space, gymnasium.spaces.Box):
        return _convert_box(space)
    if isinstance(space, gymnasium.spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, gymnasium.spaces.MultiDiscrete) and len(space.shape) == 1:
        return MultiDiscrete(tuple(space.nvec.tolist()))
    raise ValueError(
        f"{name} has actions of {space}; Box, Discrete, and MultiDiscrete of one axis are "
        "accepted. Wrap the environment so that it takes one of these "
        "(gymnasium.wrappers.TransformAction)"
    )


def _convert_box(space: gymnasium.spaces.Box) -> Box:
    return Box(space.low, space.high, space.shape, space.dtype)


class ActionChecker:
    """Checks the actions of all copies at once, and converts them to what the simulator takes."""

    def __init__(self, space: gymnasium.Space, num_copies: int, name: str) -> None:
        self._space = convert_action_space(space, name)
        self._shape = (num_copies, *self._space.shape)
        self._name = name
        self._start = np.asarray(getattr(space, "start", 0))
        self._shifted = bool(self._start.any())
        self._kinds = "f" if isinstance(self._space, Box) else "iu"
        self._low, self._high = (
            np.broadcast_to(bound, self._shape).copy()
            for bound in (self._space.low, self._space.high)
        )

    def __call__(self, actions: Shaped[np.ndarray | jax.Array, "..."]) -> np.ndarray:
        """Returns the actions in an array that the simulator may change.

        Choices of a space that does not start at 0 are shifted, numbers for whole ones rounded.
        """
        array = np.asarray(actions)
        if array.dtype.kind not in self._kinds:
            wanted = "integers" if self._kinds == "iu" else "floats"
            raise TypeError(
                f"actions of dtype {array.dtype} for {self._name}, which takes {wanted}: "
                f"{self._accepted}"
            )
        if array.shape != self._shape:
            raise ValueError(
                f"actions of shape {array.shape} for {self._name}; expected {self._shape}: "
                f"one action of shape {self._space.shape} for each copy"
            )
        low, high = self._low, self._high
        if self._kinds == "f":  # agents compute in float32, where a bound may be rounded outwards
            with np.errstate(over="ignore"):  # beyond float32 is infinite
                low, high = (bound.astype(array.dtype, copy=False) for bound in (low, high))
        inside = (array >= low) & (array <= high)  # false where not a number
        if np.count_nonzero(inside) != inside.size:
            copy = int(np.argmin(inside.reshape(len(array), -1).all(axis=1)))
            raise ValueError(
                f"action {array[copy]} of copy {copy} is out of range for {self._name}; "
                f"accepted: {self._accepted}"
            )
        if self._kinds == "f":
            if array.dtype == self._low.dtype:
                return array.copy()
            if self._low.dtype.kind in "iu":
                array = np.rint(array)
            return np.clip(array.astype(self._low.dtype), self._low, self._high)
        return array.astype(np.int64) + self._start if self._shifted else array.copy()

    @property
    def _accepted(self) -> str:
        return f"{self._space.low} … {self._space.high}"
