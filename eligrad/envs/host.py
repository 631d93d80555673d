"""Environments that run on the host, outside JAX: their protocol.

A `HostEnvironment` knows its spaces and opens any number of copies, which are then stepped
together:

    with env.open(4) as copies:
        observation = copies.reset(seeds=[0, 1, 2, 3])
        transition = copies.step(actions)

The meaning of every field is that of `eligrad.envs.core.Transition`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float64, Shaped

from eligrad.envs.spaces import Space


class HostTransition(NamedTuple):
    """One transition of each copy. The arrays are never written again: JAX may share them."""

    observation: Shaped[np.ndarray, "copies ..."]
    """The observation to act on next: after an end, the first one of the next episode."""
    reward: Float64[np.ndarray, "copies"]
    terminated: Bool[np.ndarray, "copies"]
    truncated: Bool[np.ndarray, "copies"]
    next_observation: Shaped[np.ndarray, "copies ..."]
    """The observation that the action led to: bootstrap from this one."""


class HostCopies(ABC):
    """Copies of one environment, stepped together; each begins its next episode by itself."""

    num_copies: int
    obstacle: str | None = None
    """Why the last `snapshot` failed; None if it did not."""

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> Shaped[np.ndarray, "copies ..."]:
        """Begins a first episode in each copy, seeded by that copy's own integer."""

    @abstractmethod
    def step(self, actions: Shaped[np.ndarray | jax.Array, "..."]) -> HostTransition:
        """Takes one action in each copy; where an episode ended, the next one starts."""

    @abstractmethod
    def snapshot(self) -> list[bytes] | None:
        """The whole state of each copy, or None where the simulator cannot give it.

        The bytes are data: restoring them executes no code, whoever wrote them.
        """

    @abstractmethod
    def restore(self, snapshots: Sequence[bytes]) -> None:
        """Continues where `snapshot` was taken, bit for bit; no `reset` is needed before."""

    def take_info(self) -> dict[str, Float64[np.ndarray, "copies"]]:
        """The means of what `HostEnvironment.info` names, over the steps since the last call."""
        return {}

    @abstractmethod
    def render(self) -> list[Any]:
        """One frame of each copy (make the environment with `render_mode="rgb_array"`)."""

    @abstractmethod
    def close(self) -> None:
        """Closes the simulators and their windows; may be called twice."""

    def __enter__(self) -> HostCopies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HostEnvironment(ABC):
    """An environment outside JAX, which opens copies of itself."""

    name: str
    observation_space: Space
    action_space: Space
    note: str | None = None
    """What was done to its observations, for the user."""
    info: tuple[str, ...] = ()
    """The numbers of a step's `info` that its copies note; see `with_info`."""

    first_action: Any = 0
    """The first of its choices, which agents count from 0; added to what `predict` returns."""

    def as_array(self, observation: Any) -> Any:
        """An observation as the environment itself returns it, flattened as agents observe it."""
        return observation

    def with_info(self, names: Sequence[str]) -> HostEnvironment:
        """Returns the same environment, whose copies note these numbers of a step's `info`."""
        raise ValueError(f"info is {list(names)}, but the steps of {self.name!r} have no info")

    @abstractmethod
    def open(self, num_copies: int) -> HostCopies:
        """Opens `num_copies` of the environment."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
