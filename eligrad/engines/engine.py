"""What training needs of an engine, and which one an agent and an environment call for."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from eligrad.agents import ActorCritic
from eligrad.engines.host import HostRuns
from eligrad.engines.host_rollout import HostRollouts
from eligrad.engines.rollout import Rollouts
from eligrad.engines.stream import Runs
from eligrad.envs import HostEnvironment
from eligrad.runs import config as planning
from eligrad.runs.config import Agent, World
from eligrad.runs.metrics import Measured


@runtime_checkable
class Engine(Protocol):
    """What training needs of an engine.

    `stream.Runs` and `host.HostRuns` learn from each step, `rollout.Rollouts` and
    `host_rollout.HostRollouts` from rollouts; `crew.Crew` is any of them in several processes.
    """

    count: int
    state: Any
    """A pytree, and all that a checkpoint holds."""

    @property
    def fault_step(self) -> Any:
        """First step of each run with a number that is not finite, or -1."""
        ...

    def advance(self, steps: int) -> Any:
        """Moves all runs on; returns an `EpisodeRecord` whose fields have shape [runs, steps]."""
        ...

    def measure(self, record: Any) -> Measured:
        """What the record just returned says beside its episodes."""
        ...

    def close(self) -> None:
        """Frees what the engine holds."""
        ...


def make_engine(agent: Agent, env: World, params: Any, seeds: list[int]) -> Engine:
    """The engine for runs of these seeds."""
    of_agents, of_envs = np.asarray(seeds, np.int64), planning.env_seeds(seeds)
    if isinstance(agent, ActorCritic):
        if isinstance(env, HostEnvironment):
            return HostRollouts(agent, env, of_agents, of_envs)
        return Rollouts(agent, env, params, of_agents, of_envs)
    if isinstance(env, HostEnvironment):
        return HostRuns(agent, env, of_agents, of_envs)
    return Runs(agent, env, params, of_agents, of_envs)
