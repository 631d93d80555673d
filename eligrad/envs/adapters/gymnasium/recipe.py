"""How one copy of a Gymnasium environment is built.

The copies are bare: no checker, no order enforcing and no time limit around them. We call `reset`
and count the steps ourselves, so that nothing is checked twice and no final observation is lost.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from eligrad.envs.adapters.gymnasium.snapshot import chain_of
from eligrad.envs.names import UnknownName, import_module_of
from eligrad.envs.optional import import_optional, missing_package

# Suites that must be imported before Gymnasium knows their ids: module and our extra.
_SUITES = {"ALE/": ("ale_py", "atari"), "MinAtar/": ("minatar.gym", "minatar")}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All that a worker, perhaps in another process, needs in order to build a copy."""

    source: EnvSpec | Callable[..., gymnasium.Env]
    name: str
    max_episode_steps: int | None
    options: dict[str, Any]

    @classmethod
    def of(
        cls,
        source: str | Callable[..., gymnasium.Env],
        max_episode_steps: int | None,
        options: dict[str, Any],
    ) -> Recipe:
        """The recipe of an id, or of a class or function that returns an environment."""
        if max_episode_steps is not None and max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {max_episode_steps}; at least 1 is accepted")
        if isinstance(source, str):
            spec = find_spec(source)
            limit = spec.max_episode_steps if max_episode_steps is None else max_episode_steps
            return cls(spec, spec.id, limit, options)
        if isinstance(source, gymnasium.Env) or not callable(source):
            raise TypeError(
                f"source is {source!r}; an id, or a class or function that builds an environment "
                "is accepted, because every copy is built anew"
            )
        name = getattr(source, "__qualname__", repr(source))
        return cls(source, name, max_episode_steps, options)

    def build(self) -> gymnasium.Env:
        """One copy."""
        if isinstance(self.source, EnvSpec):
            env = _build_spec(self.source, self.options)
        else:
            env = self.source(**self.options)
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"{self.name} returned {env!r}; a gymnasium.Env is accepted")
        if any(isinstance(link, gymnasium.wrappers.Autoreset) for link in chain_of(env)):
            raise ValueError(
                f"{self.name} is wrapped in gymnasium.wrappers.Autoreset; leave the wrapper away: "
                "eligrad begins the next episode by itself and keeps the final observation"
            )
        return env


def find_spec(env_id: str) -> EnvSpec:
    """The registered description of an id such as "Ant-v5" or "my_package:MyEnv-v0"."""
    import_module_of(env_id)
    name = env_id.rpartition(":")[2]
    if name not in gymnasium.registry:
        _import_suite(name)
    if name not in gymnasium.registry:
        raise UnknownName("environment", env_id, gymnasium.registry)
    return gymnasium.registry[name]


def _import_suite(env_id: str) -> None:
    for prefix, (module, extra) in _SUITES.items():
        if env_id.startswith(prefix):
            suite = import_optional(module, extra=extra, purpose=f"{env_id!r} through Gymnasium")
            # ale_py registers its ids when it is imported, minatar no longer does.
            if prefix == "MinAtar/" and "MinAtar/Breakout-v1" not in gymnasium.registry:
                suite.register_envs()


def _build_spec(spec: EnvSpec, options: dict[str, Any]) -> gymnasium.Env:
    try:
        env = gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        if "mujoco" in str(error).lower() and importlib.util.find_spec("mujoco") is None:
            raise missing_package("mujoco", "mujoco", repr(spec.id)) from error
        raise
    return env.env if type(env) is gymnasium.wrappers.OrderEnforcing else env
