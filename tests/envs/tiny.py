"""Gymnasium environments so small that every transition is known."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np


class Counter(gymnasium.Env):
    """Observes (episode, step, seed); the reward is 10 * step + action.

    Terminates after `length` steps, or one step later in every second episode.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 1}
    observation_space = gymnasium.spaces.Box(0, 1000, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 2, render_mode: str | None = None):
        self.length = length
        self.render_mode = render_mode
        self.episode = -1
        self.seed = 0
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seed, self.episode = seed, -1
        self.episode += 1
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        ended = self.steps >= self.length + self.episode % 2
        return self._observe(), 10.0 * self.steps + action, ended, False, {}

    def render(self):
        return np.full((2, 2, 3), self.steps, np.uint8)

    def _observe(self):
        return np.array([self.episode, self.steps, self.seed], np.float32)


class Faulty(Counter):
    """Returns a wrong shape or dtype, or fails, at a chosen step."""

    def __init__(self, fault: str):
        super().__init__()
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.fault == "reset shape":
            return observation[:1], info
        if self.fault == "reset dtype":
            return observation.astype(complex), info
        return observation, info

    def step(self, action):
        observation, *rest = super().step(action)
        if self.fault == "step dtype":
            return observation.astype(complex), *rest
        if self.fault == "step shape":
            return observation[:1], *rest
        if self.fault == "step error":
            raise ZeroDivisionError("the simulator fell over")
        if self.fault == "step flag":
            rest[1] = "False"
        return observation, *rest


class Opaque(Counter):
    """Has a part that cannot be copied."""

    def __init__(self):
        super().__init__()
        self.handle = (number for number in range(3))


def limited(length: int) -> gymnasium.Env:
    """Ends of both kinds: a counter of any length, cut after 4 steps."""
    return gymnasium.wrappers.TimeLimit(Counter(length), 4)
