"""Names that nobody knows, and names that ask for a module."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from eligrad._names import did_you_mean


class UnknownName(ValueError):
    """A name that is not among the `known` ones; the message suggests the nearest of them.

    Of a name that others use for the same thing, `here` tells what it is called here.
    """

    def __init__(
        self, what: str, name: str, known: Iterable[str], here: Iterable[str] = ()
    ) -> None:
        self.what = what
        self.name = name
        self.known = frozenset(known)
        self.here = tuple(here)
        hint = f"; here that is {' or '.join(map(repr, self.here))}" if self.here else ""
        super().__init__(f"unknown {what} {name!r}{hint or did_you_mean(name, self.known)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.name, self.known, self.here)


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
            "install its package, or say by PYTHONPATH where it is",
            name=error.name,
        ) from None
