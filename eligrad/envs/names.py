"""Names of environments that ask for a module."""

from __future__ import annotations

import importlib


def module_of(env: str) -> str | None:
    """The module that the name of an environment asks for, as in `"my_package:MyEnv-v0"`."""
    module, named, _ = env.removeprefix("gymnasium/").rpartition(":")
    return module if named else None


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
