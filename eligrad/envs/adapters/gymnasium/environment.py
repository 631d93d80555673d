"""Any Gymnasium environment, by its id or by a function that builds it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, get_args

import gymnasium
import jax
import numpy as np
from jaxtyping import Shaped

from eligrad._machine import cores
from eligrad.envs.adapters.gymnasium.encoding import NotData
from eligrad.envs.adapters.gymnasium.loop import Loop
from eligrad.envs.adapters.gymnasium.recipe import Recipe
from eligrad.envs.adapters.gymnasium.spaces import (
    ActionGate,
    convert_action_space,
    convert_observation_space,
)
from eligrad.envs.adapters.gymnasium.team import Processes, Team, Threads
from eligrad.envs.host import HostCopies, HostEnvironment, HostTransition, Workers
from eligrad.envs.spaces import Space


class GymnasiumEnvironment(HostEnvironment):
    """A Gymnasium environment: by id, `"HalfCheetah-v5"`, or by class or function, `MyEnv`.

    `options` go to the environment itself (`render_mode="rgb_array"`). `max_episode_steps`
    replaces the limit that the id was registered with.
    """

    def __init__(
        self,
        source: str | Callable[..., gymnasium.Env],
        *,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        self._recipe = Recipe.of(source, max_episode_steps, options)
        env = self._recipe.build()
        self.name = self._recipe.name
        self._raw_action_space = env.action_space
        self.observation_space = convert_observation_space(env.observation_space, self.name)
        self.action_space = convert_action_space(env.action_space, self.name)
        env.close()

    @property
    def max_episode_steps(self) -> int | None:
        """After how many steps an episode is truncated; None if only the task itself ends it."""
        return self._recipe.max_episode_steps

    def open(self, num_copies: int, workers: Workers = "loop") -> HostCopies:
        """Opens `num_copies` of the environment, stepped in a loop, in threads or in processes."""
        if num_copies < 1:
            raise ValueError(f"num_copies is {num_copies}; at least 1 is accepted")
        build = functools.partial(
            _build_loop, self._recipe, self.observation_space, self.action_space
        )
        sizes = _shares(num_copies)
        if workers == "loop":
            crew = build(num_copies)
        elif workers == "threads":
            crew = Threads(build, sizes)
        elif workers == "processes":
            crew = Processes(build, sizes)
        else:
            raise ValueError(f"workers is {workers!r}; one of {get_args(Workers)} is accepted")
        gate = ActionGate(self._raw_action_space, num_copies, self.name)
        return GymnasiumCopies(crew, gate, num_copies)


class GymnasiumCopies(HostCopies):
    """Bare Gymnasium environments, stepped together by a crew."""

    def __init__(self, crew: Loop | Team, gate: ActionGate, num_copies: int) -> None:
        self.num_copies = num_copies
        self._crew = crew
        self._gate = gate
        self._begun = False
        self._closed = False

    def reset(self, seeds: Sequence[int]) -> Shaped[np.ndarray, "copies ..."]:
        """Begins a first episode in each copy, seeded by that copy's own integer."""
        self._begun = True
        return self._crew.reset(check_seeds(seeds, self.num_copies))

    def step(self, actions: Shaped[np.ndarray | jax.Array, "..."]) -> HostTransition:
        """Takes one action in each copy; where an episode ended, the next one is begun."""
        if not self._begun:
            raise ValueError("step was called before reset(seeds) or restore(snapshots)")
        return self._crew.step(self._gate(actions))

    def snapshot(self) -> list[bytes] | None:
        """The whole state of each copy, or None where the simulator cannot give it."""
        self.obstacle = None
        try:
            return self._crew.snapshot()
        except NotData as error:
            self.obstacle = str(error)
            return None

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """Continues where `snapshot` was taken, bit for bit; no `reset` is needed before."""
        if len(snapshots) != self.num_copies:
            raise ValueError(f"{len(snapshots)} snapshots for {self.num_copies} copies")
        self._crew.restore(snapshots)
        self._begun = True

    def render(self) -> list[Any]:
        """One frame of each copy (make the environment with `render_mode="rgb_array"`)."""
        return self._crew.render()

    def close(self) -> None:
        """Frees windows, threads and processes; may be called twice."""
        if not self._closed:
            self._closed = True
            self._crew.close()


def check_seeds(seeds: Sequence[int], num_copies: int) -> list[int]:
    """One non-negative integer for each copy."""
    checked = [operator.index(seed) for seed in seeds]
    if len(checked) != num_copies:
        raise ValueError(f"{len(checked)} seeds for {num_copies} copies; one each is accepted")
    if min(checked) < 0:
        raise ValueError(f"seed {min(checked)} is negative; integers from 0 on are accepted")
    return checked


def _build_loop(recipe: Recipe, observation_space: Space, action_space: Space, copies: int) -> Loop:
    envs = [recipe.build() for _ in range(copies)]
    return Loop(envs, observation_space, action_space, recipe.max_episode_steps, recipe.name)


def _shares(num_copies: int) -> list[int]:
    """The copies divided among as many workers as this process has cores."""
    members = min(num_copies, cores())
    return [len(range(first, num_copies, members)) for first in range(members)]
