"""The runs of a spec: checks all names and values, and fills in all settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eligrad._base.checks import whole_number
from eligrad._base.errors import Mistakes
from eligrad.agents import registry
from eligrad.envs.names import check_name
from eligrad.runs.configuration import ENV_PARAMS, Configuration, Run
from eligrad.runs.plan import rollout_of, whole_rollouts
from eligrad.sweeps.spec import Spec, SpecError, Sweep

_RUN_FIELDS = ("max_episode_steps", "steps")


def resolve(spec: Spec) -> list[Run]:
    """All runs of a spec, each once, in its order; raises `ValueError` with all mistakes in it.

    Names and numbers come first: mistakes in them are reported without JAX.
    """
    named = named_runs(spec)
    envs, mistakes = dict[tuple[Any, ...], Any](), Mistakes()
    for place, one in {_place(run.configuration): run.configuration for run in named}.items():
        with mistakes.noted():
            envs[place] = _environment(one)
    shapes = {str(env): made.observation_space.shape for (env, *_), made in envs.items()}
    runs = named_runs(spec, shapes)
    # Networks take time to make, and do not depend on an agent's numbers.
    programs = {
        (_place(run.configuration), run.configuration.agent, static_part(run.configuration)): run
        for run in runs
        if _place(run.configuration) in envs
    }
    for (place, agent, _), run in programs.items():
        with mistakes.noted():
            config = registry.make_settings(str(agent), run.configuration.settings)
            registry.build(str(agent), config, envs[place])
    mistakes.report()
    return runs


def named_runs(spec: Spec, shapes: Mapping[str, Sequence[int]] | None = None) -> list[Run]:
    """The runs without a look at their environments, which needs no JAX.

    Args:
        spec: of the runs.
        shapes: of the observations of each environment, on which defaults may depend.
    """
    runs, mistakes = dict[str, Run](), Mistakes(spec.mistakes)
    for sweep in spec.parts:
        for configuration in _configurations(sweep, mistakes, shapes or {}):
            for seed in sweep.seed_list:
                run = Run(configuration, seed)
                runs.setdefault(run.name, run)
    mistakes.report()
    return list(runs.values())


def _configurations(
    sweep: Sweep, mistakes: Mistakes, shapes: Mapping[str, Sequence[int]]
) -> Iterator[Configuration]:
    """Yields the configurations that are sound, and notes what is wrong with the others."""
    for name in sweep.envs:
        with mistakes.noted():
            check_name(name)
    for env, agent, changes in itertools.product(sweep.envs, sweep.agents, sweep.combinations()):
        with mistakes.noted():
            yield _configuration(agent, env, sweep, changes, shapes.get(env))


def _place(configuration: Configuration) -> tuple[Any, ...]:
    """What an environment is made from."""
    one = configuration
    return (one.env, one.max_episode_steps, str(one.env_params), str(one.info))


def _environment(configuration: Configuration) -> Any:
    """The environment; raises `ValueError` for an unknown one, or parameters that it lacks."""
    from eligrad.envs.registry import as_environment, change_params

    env = as_environment(
        str(configuration.env), configuration.max_episode_steps, configuration.info
    )
    change_params(env, configuration.env_params)
    return env


def static_part(configuration: Configuration) -> tuple[tuple[str, Any], ...]:
    """The settings that shape a program; runs with the same ones can share it."""
    names = registry.static_settings(registry.get(str(configuration.agent)).config)
    return tuple((name, configuration.settings[name]) for name in sorted(names))


def _configuration(
    agent: str, env: str, sweep: Sweep, changes: dict[str, Any], shape: Sequence[int] | None
) -> Configuration:
    known = vars(registry.get(agent).config)
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {"steps": 1}
    env_params: dict[str, Any] = {}
    mistakes = Mistakes()
    for name, value in ({"steps": sweep.steps} | changes).items():
        with mistakes.noted():
            if name.startswith(ENV_PARAMS):
                value = value if isinstance(value, bool) else _number(name, value)
                env_params[name.removeprefix(ENV_PARAMS)] = value
            elif name in _RUN_FIELDS:
                about[name] = whole_number(name, _number(name, value))
            elif name in ("seeds", "info"):
                raise SpecError(f"{name} is no setting: write it above the tables, beside steps")
            else:
                settings[name] = _like(name, value, known.get(name, 0.0))
    config = None
    with mistakes.noted():
        config = registry.make_settings(
            agent, settings, steps=about["steps"], observation_shape=shape
        )
    mistakes.report()
    about["steps"] = whole_rollouts(about["steps"], rollout_of(config))
    return Configuration(
        agent=agent,
        settings=registry.to_json(config),
        env=env,
        env_params=env_params,
        info=list(sweep.info),
        **about,
    )


def _like(name: str, value: Any, default: Any) -> Any:
    """The value, if it has the type of the setting's default."""
    if isinstance(default, (str, bool)):
        if type(value) is not type(default):
            accepted = "a name" if isinstance(default, str) else "true or false"
            raise SpecError(f"{name} is {value!r}; {accepted} is accepted")
        return value
    return _number(name, value)


def _number(name: str, value: Any) -> float | int:
    sound = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not sound or not -math.inf < value < math.inf:
        raise SpecError(f"{name} is {value!r}; a number is accepted")
    return value
