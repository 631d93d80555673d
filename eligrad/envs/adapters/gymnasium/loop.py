"""Copies of an environment, stepped one after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np

from eligrad.envs.adapters.gymnasium.snapshot import Snapshots
from eligrad.envs.host import HostTransition
from eligrad.envs.spaces import Discrete, Space


class Loop:
    """Steps its copies one after another."""

    def __init__(
        self,
        envs: Sequence[gymnasium.Env],
        observation_space: Space,
        action_space: Space,
        max_episode_steps: int | None,
        name: str,
    ) -> None:
        self._envs = list(envs)
        self._snapshots = [Snapshots(env) for env in self._envs]
        self._shape = tuple(observation_space.shape)
        self._dtype = np.dtype(observation_space.dtype)
        self._discrete = isinstance(action_space, Discrete)
        self._limit = math.inf if max_episode_steps is None else max_episode_steps
        self._elapsed = [0] * len(self._envs)
        self._name = name

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """First observations of all copies."""
        first = self._empty_observations()
        for row, (env, seed) in enumerate(zip(self._envs, seeds, strict=True)):
            self._put_first(env.reset(seed=seed)[0], first, row)
        self._elapsed = [0] * len(self._envs)
        return first

    def step(self, actions: np.ndarray) -> HostTransition:
        """One transition of all copies."""
        copies = len(self._envs)
        reached = self._empty_observations()
        reward = np.empty(copies)
        terminated = np.empty(copies, bool)
        truncated = np.empty(copies, bool)
        ended = []
        elapsed = self._elapsed
        choices = actions.tolist() if self._discrete else actions
        for row, env in enumerate(self._envs):
            observation, reward[row], end, cut, _ = env.step(choices[row])
            if np.shape(observation) != self._shape:  # else it might be broadcast, silently
                self._refuse_shape(observation, "step")
            reached[row] = observation
            elapsed[row] += 1
            cut = cut or elapsed[row] >= self._limit
            terminated[row] = end
            truncated[row] = cut
            if end or cut:
                ended.append(row)
        following = self._restart(ended, reached) if ended else reached
        return HostTransition(following, reward, terminated, truncated, reached)

    def snapshot(self) -> list[bytes]:
        """The state of each copy; `NotData` says what of it cannot be told."""
        pairs = zip(self._snapshots, self._elapsed, strict=True)
        return [snapshots.take(elapsed) for snapshots, elapsed in pairs]

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """The inverse of `snapshot`."""
        pairs = zip(self._snapshots, snapshots, strict=True)
        self._elapsed = [each.restore(snapshot) for each, snapshot in pairs]

    def render(self) -> list[Any]:
        """A frame of each copy."""
        return [env.render() for env in self._envs]

    def close(self) -> None:
        """Ends all copies."""
        for env in self._envs:
            env.close()

    def _restart(self, ended: list[int], reached: np.ndarray) -> np.ndarray:
        following = reached.copy()
        for row in ended:
            self._put_first(self._envs[row].reset()[0], following, row)
            self._elapsed[row] = 0
        return following

    def _empty_observations(self) -> np.ndarray:
        return np.empty((len(self._envs), *self._shape), self._dtype)

    def _put_first(self, observation: Any, rows: np.ndarray, row: int) -> None:
        if np.shape(observation) != self._shape:
            self._refuse_shape(observation, "reset")
        dtype = np.asarray(observation).dtype
        if not np.can_cast(dtype, self._dtype, casting="same_kind"):
            raise TypeError(
                f"reset of {self._name} returned an observation of dtype {dtype}; "
                f"its observation_space says {self._dtype}"
            )
        rows[row] = observation

    def _refuse_shape(self, observation: Any, method: str) -> NoReturn:
        raise ValueError(
            f"{method} of {self._name} returned an observation of shape "
            f"{np.shape(observation)}; its observation_space says {self._shape}"
        )
