"""From a spec to its runs: every name and value checked, every setting filled in, nothing run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from eligrad._base.checks import whole_number
from eligrad.agents import PRESETS
from eligrad.envs.names import UnknownName
from eligrad.runs import config as planning
from eligrad.runs.configuration import Configuration, Run
from eligrad.sweeps.spec import Spec, SpecError, Sweep

_RUN_FIELDS = ("exploration_fraction", "max_episode_steps", "steps")
_ENV_PARAMS = "env_params."


def resolve(spec: Spec) -> list[Run]:
    """All runs of a spec, each once, in its order; raises for what cannot be meant."""
    runs: dict[str, Run] = {}
    for sweep in spec.parts:
        for configuration in _configurations(sweep):
            for seed in sweep.seed_list:
                run = Run(configuration, seed)
                runs.setdefault(run.name, run)
    return list(runs.values())


def _configurations(sweep: Sweep) -> list[Configuration]:
    combinations = list(sweep.combinations())
    made = [
        _configuration(agent, env, sweep.steps, changes)
        for env in sweep.envs
        for agent in sweep.agents
        for changes in combinations
    ]
    checked = set()
    for one in made:
        # Worlds and networks take time to make, and numbers of an agent do not matter to them.
        shape = (one.agent, one.env, one.max_episode_steps, str(one.env_params), static_part(one))
        if shape not in checked:
            checked.add(shape)
            check_world(one)
    return made


def check_world(configuration: Configuration) -> None:
    """Refuses an environment that nobody knows, or that the agent cannot act in."""
    world = planning.make_world(str(configuration.env), configuration.max_episode_steps)
    planning.make_agent(str(configuration.agent), configuration.settings, world)
    planning.make_params(world, configuration.env_params)


def static_part(configuration: Configuration) -> tuple[tuple[str, Any], ...]:
    """The settings that shape a program; runs that agree in them can share one."""
    fields = dataclasses.fields(PRESETS[str(configuration.agent)])
    names = [field.name for field in fields if field.metadata.get("static")]
    return tuple((name, configuration.settings[name]) for name in names)


def _configuration(agent: str, env: str, steps: Any, changes: dict[str, Any]) -> Configuration:
    if agent not in PRESETS:
        raise UnknownName("agent", agent, PRESETS)
    known = {field.name: getattr(PRESETS[agent], field.name) for field in _fields(agent)}
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {"steps": steps}
    env_params: dict[str, Any] = {}
    for name, value in changes.items():
        if name.startswith(_ENV_PARAMS):
            value = value if isinstance(value, bool) else _number(name, value)
            env_params[name.removeprefix(_ENV_PARAMS)] = value
        elif name in _RUN_FIELDS:
            about[name] = _number(name, value)
        elif name in known:
            settings[name] = _like(name, value, known[name])
        else:
            raise UnknownName(f"setting of {agent}", name, {*known, *_RUN_FIELDS})
    about["steps"] = whole_number("steps", about["steps"])
    if "max_episode_steps" in about:
        limit = whole_number("max_episode_steps", about["max_episode_steps"])
        about["max_episode_steps"] = limit
    settings = planning.make_settings(agent, _explored(settings, about, known), runs=1)
    about["steps"] = planning.whole_rollouts(about["steps"], settings.get("rollout", 1))
    return Configuration(
        agent=agent,
        settings=settings,
        env=env,
        env_params=env_params,
        **about,
    )


def _explored(
    settings: dict[str, Any], about: dict[str, Any], known: dict[str, Any]
) -> dict[str, Any]:
    """The length of the exploration schedule, as a share of the steps unless it is given."""
    fraction = about.pop("exploration_fraction", None)
    if "exploration_steps" not in known:
        if fraction is not None:
            raise SpecError("exploration_fraction is set, but the agent has no such schedule")
        return settings
    if fraction is not None and "exploration_steps" in settings:
        raise SpecError("exploration_fraction and exploration_steps are both set; one is enough")
    fraction = planning.EXPLORATION_FRACTION if fraction is None else fraction
    if not 0 <= fraction <= 1:
        raise SpecError(f"exploration_fraction is {fraction}; values in [0, 1] are accepted")
    return {"exploration_steps": fraction * about["steps"]} | settings


def _fields(agent: str) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(PRESETS[agent])


def _like(name: str, value: Any, default: Any) -> Any:
    """A value of the type that the setting has by default."""
    if isinstance(default, (str, bool)):
        if type(value) is not type(default):
            accepted = "a name" if isinstance(default, str) else "true or false"
            raise SpecError(f"{name} is {value!r}; {accepted} is accepted")
        return value
    return _number(name, value)


def _number(name: str, value: Any) -> float | int:
    sound = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not sound or not np.isfinite(value):
        raise SpecError(f"{name} is {value!r}; a number is accepted")
    return value
