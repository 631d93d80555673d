"""Wrappers: environments around environments."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PRNGKeyArray, Shaped

from eligrad._base.checks import whole_number
from eligrad.envs.core import Environment, Step


class TimeLimitState(NamedTuple):
    """The inner environment's state, and how long the episode has lasted."""

    inner: Any
    steps: Int32[Array, ""]


class TimeLimit(Environment[TimeLimitState]):
    """Cuts every episode off after `max_steps` steps.

    The cut is a truncation, never a termination: rewards would still follow the final observation.
    If the last allowed step also ends the task, both flags are true, and `terminated` takes
    precedence: no reward follows.
    """

    def __init__(self, env: Environment, max_steps: int) -> None:
        self.env = env
        self.max_steps = whole_number("max_steps", max_steps)
        self.name = env.name
        self.observation_space = env.observation_space
        self.action_space = env.action_space

    def default_params(self) -> Any:
        """Those of the inner environment."""
        return self.env.default_params()

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[TimeLimitState, Shaped[Array, "..."]]:
        """Starts an episode and its step count."""
        return _with_step_count(self.env.reset(key, params))

    def restart(
        self, key: PRNGKeyArray, state: TimeLimitState, params: Any
    ) -> tuple[TimeLimitState, Shaped[Array, "..."]]:
        """Starts the next episode as the inner environment does, and its step count."""
        return _with_step_count(self.env.restart(key, state.inner, params))

    def step(self, key: PRNGKeyArray, state: TimeLimitState, action: Array, params: Any) -> Step:
        """One step of the inner environment; truncated where it was the last one allowed."""
        stepped = self.env.step(key, state.inner, action, params)
        steps = state.steps + 1
        return stepped._replace(
            state=TimeLimitState(stepped.state, steps),
            truncated=stepped.truncated | (steps >= self.max_steps),
        )

    def render(self, state: TimeLimitState, params: Any) -> np.ndarray | Array | None:
        """The inner environment's picture."""
        return self.env.render(state.inner, params)

    def __repr__(self) -> str:
        return f"TimeLimit({self.env!r}, max_steps={self.max_steps})"


def _with_step_count(start: tuple[Any, Array]) -> tuple[TimeLimitState, Array]:
    inner, observation = start
    return TimeLimitState(inner, jnp.zeros((), jnp.int32)), observation
