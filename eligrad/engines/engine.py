"""The engine protocol, and which engine an agent and an environment need."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from eligrad.agents.protocol import Agent, RolloutAgent
from eligrad.engines.episodes import Record
from eligrad.engines.host import HostRuns
from eligrad.engines.host_rollout import HostRollouts
from eligrad.engines.rollout import Rollouts
from eligrad.engines.stream import Runs
from eligrad.envs import Environment, HostEnvironment
from eligrad.runs.plan import env_seeds


@runtime_checkable
class Engine(Protocol):
    """The engine protocol.

    `stream.Runs` and `host.HostRuns` learn from each step, `rollout.Rollouts` and
    `host_rollout.HostRollouts` from rollouts; `multiprocess.Multiprocess` is any of these two in
    several processes.
    """

    count: int
    state: Any
    """A pytree with all that a checkpoint holds."""

    @property
    def fault_step(self) -> Any:
        """First step of each run with a number that is not finite, or -1."""
        ...

    def advance(self, steps: int) -> Record:
        """Advances all runs; returns records of shape [runs, steps]."""
        ...

    def close(self) -> None:
        """Frees processes, simulators and memory."""
        ...


def make_engine(
    agent: Agent, env: Environment | HostEnvironment, params: Any, seeds: list[int]
) -> Engine:
    """The engine for runs of these seeds.

    Args:
        agent: one agent, or a batch of settings with a value for each run.
        env: the environment.
        params: the numbers of a JAX environment.
        seeds: one for each run; the seeds of the environments are derived from them.
    """
    of_agents, of_envs = np.asarray(seeds, np.int64), env_seeds(seeds)
    learns_from_rollouts = isinstance(agent, RolloutAgent)
    if isinstance(env, HostEnvironment):
        host: Any = HostRollouts if learns_from_rollouts else HostRuns
        return host(agent, env, of_agents, of_envs)
    compiled: Any = Rollouts if learns_from_rollouts else Runs
    return compiled(agent, env, params, of_agents, of_envs)
