"""From the plan of a run to its environment, agent and engine."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eligrad._base.checks import whole_number
from eligrad._base.system import cores
from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.engines.engine import Engine, make_engine
from eligrad.engines.multiprocess import Multiprocess
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.names import module_of
from eligrad.envs.registry import as_environment, change_params
from eligrad.runs.config import Plan


def environment_of(plan: Plan, path: Path, given: Any = None) -> Environment | HostEnvironment:
    """The environment of a plan that a file holds, or the one given in its place.

    A module that a file names is not imported: a user who trusts it imports it first.
    """
    if given is not None:
        made = isinstance(given, Environment | HostEnvironment)
        return as_environment(given, None if made else plan.max_episode_steps, plan.info)
    if plan.env is None:
        raise ValueError(f"the environment of {path} is a custom one: pass env= again")
    check_imported(plan.env, path)
    return as_environment(plan.env, plan.max_episode_steps, plan.info)


def check_imported(env: str, path: Path) -> None:
    """Refuses the name of an environment in a file whose module has not been imported."""
    module = module_of(env)
    if module is not None and module not in sys.modules:
        raise ValueError(
            f"the environment of {path} is {env!r}: to make it, the code of {module!r} would "
            f"be run. If you trust that, import it first; a command does it with --import {module}"
        )


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
    return make_engine(agent, env, change_params(env, plan.env_params), part.seeds)


def title(plan: Plan, env: Any) -> str:
    """Agent and environment as a figure names them."""
    return f"{registry.title_of(plan.agent)} on {env.name}"
