"""The runs of a spec: checks all names and values, and fills in all settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from eligrad._base.checks import whole_number
from eligrad._base.errors import Mistakes
from eligrad.agents import registry
from eligrad.envs.names import check_name
from eligrad.runs.configuration import Configuration, Run
from eligrad.runs.plan import rollout_of, whole_rollouts
from eligrad.sweeps.spec import Spec, SpecError, Sweep

_RUN_FIELDS = ("max_episode_steps", "steps")
_ENV_PARAMS = "env_params."


def resolve(spec: Spec) -> list[Run]:
    """All runs of a spec, each once, in its order; raises `ValueError` with all mistakes in it.

    Names and numbers come first: mistakes in them are reported without JAX.
    """
    runs = named_runs(spec)
    check_environments(runs)
    return runs


def named_runs(spec: Spec) -> list[Run]:
    """As `resolve`, but no environment is made, and JAX is not imported."""
    runs, mistakes = dict[str, Run](), Mistakes(spec.mistakes)
    for sweep in spec.parts:
        for configuration in _configurations(sweep, mistakes):
            for seed in sweep.seed_list:
                run = Run(configuration, seed)
                runs.setdefault(run.name, run)
    mistakes.report()
    return list(runs.values())


def _configurations(sweep: Sweep, mistakes: Mistakes) -> Iterator[Configuration]:
    """Yields the configurations that are sound, and notes what is wrong with the others."""
    for name in sweep.envs:
        with mistakes.noted():
            check_name(name)
    for env, agent, changes in itertools.product(sweep.envs, sweep.agents, sweep.combinations()):
        with mistakes.noted():
            yield _configuration(agent, env, sweep, changes)


def check_environments(runs: Iterable[Run]) -> None:
    """Raises `ValueError` with all mistakes that only the environments of the runs can tell."""
    mistakes, checked = Mistakes(), set()
    for one in {run.configuration.hash: run.configuration for run in runs}.values():
        # Environments and networks take time to make, and do not depend on an agent's numbers.
        given = (one.agent, one.env, one.max_episode_steps, str(one.env_params), str(one.info))
        shape = (*given, static_part(one))
        if shape not in checked:
            checked.add(shape)
            with mistakes.noted():
                _check_environment(one)
    mistakes.report()


def _check_environment(configuration: Configuration) -> None:
    """Raises `ValueError` for an unknown environment, or one that the agent cannot act in."""
    from eligrad.envs.registry import as_environment, change_params

    env = as_environment(
        str(configuration.env), configuration.max_episode_steps, configuration.info
    )
    config = registry.make_settings(str(configuration.agent), configuration.settings)
    registry.build(str(configuration.agent), config, env)
    change_params(env, configuration.env_params)


def static_part(configuration: Configuration) -> tuple[tuple[str, Any], ...]:
    """The settings that shape a program; runs with the same ones can share it."""
    names = registry.static_settings(registry.get(str(configuration.agent)).config)
    return tuple((name, configuration.settings[name]) for name in sorted(names))


def _configuration(agent: str, env: str, sweep: Sweep, changes: dict[str, Any]) -> Configuration:
    known = vars(registry.get(agent).config)
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {"steps": 1}
    env_params: dict[str, Any] = {}
    mistakes = Mistakes()
    for name, value in ({"steps": sweep.steps} | changes).items():
        with mistakes.noted():
            if name.startswith(_ENV_PARAMS):
                value = value if isinstance(value, bool) else _number(name, value)
                env_params[name.removeprefix(_ENV_PARAMS)] = value
            elif name in _RUN_FIELDS:
                about[name] = whole_number(name, _number(name, value))
            elif name in ("seeds", "info"):
                raise SpecError(f"{name} is no setting: write it above the tables, beside steps")
            else:
                settings[name] = _like(name, value, known.get(name, 0.0))
    config = None
    with mistakes.noted():
        config = registry.make_settings(agent, settings, steps=about["steps"])
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
