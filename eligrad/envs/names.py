"""Names of environments, and the modules that some ask for; importable without JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from eligrad._base.errors import UnknownName

PROBES: dict[str, str] = {
    f"Probe/{name}-v0": f"eligrad.envs.probes:{name}"
    for name in (
        "Reward",
        "Observation",
        "Discount",
        "Action",
        "Policy",
        "Trace",
        "Truncation",
        "OffPolicy",
        "Continuous",
    )
}
"""Entry points by name, easiest first."""

EntryPoint = str | Callable[..., Any]

REGISTERED: dict[str, EntryPoint] = {
    "MinAtar/Asterix-v1": "eligrad.envs.minatar.asterix:Asterix",
    "MinAtar/Breakout-v1": "eligrad.envs.minatar.breakout:Breakout",
    "MinAtar/Freeway-v1": "eligrad.envs.minatar.freeway:Freeway",
    "MinAtar/Seaquest-v1": "eligrad.envs.minatar.seaquest:Seaquest",
    "MinAtar/SpaceInvaders-v1": "eligrad.envs.minatar.space_invaders:SpaceInvaders",
    **PROBES,
}
"""The environments of eligrad and those of users, by name; `register` adds to them."""
_OWN_SUITES = {name.partition("/")[0] for name in REGISTERED}

# Each takes the rest of the name as its first argument.
ADAPTERS: dict[str, str] = {
    "gymnax": "eligrad.envs.adapters.gymnax:GymnaxEnvironment",
    "brax": "eligrad.envs.adapters.brax:make_brax",
    "gymnasium": "eligrad.envs.adapters.gymnasium:GymnasiumEnvironment",
}


def module_of(env: str) -> str | None:
    """The module that the name of an environment asks for, as in `"my_package:MyEnv-v0"`."""
    module, named, _ = env.removeprefix("gymnasium/").rpartition(":")
    return module if named else None


def is_gymnasium(env: str) -> bool:
    """Whether a name can only be one of Gymnasium's."""
    suite = env.partition("/")[0]
    return suite == "gymnasium" or (
        suite not in ADAPTERS and env not in REGISTERED and module_of(env) is None
    )


def import_module_of(env: str) -> None:
    """Imports the module that the name of an environment asks for, if it does."""
    module = module_of(env)
    if module is None:
        return
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # one that the module itself needs
        raise ModuleNotFoundError(
            f"{env!r} asks for the module {module!r}, and there is no {error.name!r} to import: "
            "install its package, or add its folder to PYTHONPATH",
            name=error.name,
        ) from None


def register(name: str, entry_point: EntryPoint) -> None:
    """Registers an environment under a name.

    `entry_point` is a class or function that returns an `Environment` (or a `HostEnvironment`, for
    instance `lambda: GymnasiumEnvironment(MyEnv)`), or a string `"package.module:Class"`, which is
    imported when the environment is first made.
    """
    if name in REGISTERED:
        raise ValueError(f"the name {name!r} is taken by {REGISTERED[name]!r}")
    if name.partition("/")[0] in ADAPTERS:
        raise ValueError(f"the name {name!r} begins like those of another suite: {list(ADAPTERS)}")
    if not callable(entry_point) and entry_point.count(":") != 1:
        raise ValueError(
            f"entry_point is {entry_point!r}; a class, a function or 'package.module:Class' is "
            "accepted"
        )
    REGISTERED[name] = entry_point


def list_envs() -> list[str]:
    """The registered names, in alphabetical order; `make` also knows those of other suites."""
    return sorted(REGISTERED)


def check_name(name: str) -> None:
    """Raises an error for a name of one of eligrad's own suites that is not registered."""
    if name not in REGISTERED and name.partition("/")[0] in _OWN_SUITES:
        raise UnknownName("environment", name, REGISTERED)
