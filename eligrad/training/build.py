"""From the plan of a run to its engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from eligrad._base.checks import whole_number
from eligrad._base.system import cores
from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.engines.engine import Engine, make_engine
from eligrad.engines.multiprocess import Multiprocess
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.registry import as_environment, change_params
from eligrad.runs.plan import Plan


def build_engine(
    plan: Plan, agent: Agent, env: Environment | HostEnvironment, processes: int | None = 1
) -> Engine:
    """The engine of a plan, in as many processes as asked for and of use.

    Args:
        plan: of the runs.
        agent: theirs.
        env: their environment.
        processes: how many share the runs; None: one for each core, where that is possible.
    """
    params = change_params(env, plan.env_params)
    shareable = isinstance(env, HostEnvironment) and None not in (plan.agent, plan.env)
    if processes is None:
        processes = cores() if shareable else 1
    processes = min(whole_number("processes", processes), len(plan.seeds))
    if processes == 1:
        return make_engine(agent, env, params, plan.seeds)
    if not shareable:
        raise ValueError(
            f"processes is {processes}; more than 1 is for an agent and an environment given by "
            "name, and for environments outside JAX (others use all cores anyway)"
        )
    make = functools.partial(engine_of_part, plan)
    return Multiprocess(make, len(plan.seeds), processes, agent, env.observation_space)


def engine_of_part(plan: Plan, runs: Sequence[int]) -> Engine:
    """The engine of some runs of a plan, by their indices; agent and environment have names."""
    part = plan.part(runs)
    env = as_environment(str(plan.env), plan.max_episode_steps, plan.info)
    agent = registry.build(str(plan.agent), part.settings, env)
    engine: Any = make_engine(agent, env, change_params(env, plan.env_params), part.seeds)
    engine.elsewhere = len(plan.seeds) - len(runs)
    return engine


def title(plan: Plan, env: Any) -> str:
    """Agent and environment as a figure names them."""
    return f"{registry.title_of(plan.agent)} on {env.name}"
