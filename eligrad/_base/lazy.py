"""Imports at first use: what has a name can be listed, and typos answered, without JAX."""

from __future__ import annotations

import ast
import functools
import importlib
import operator
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from eligrad._base.optional import needs_train


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package that imports a public name at its first use.

    The public names are the imports for type checkers, under `if TYPE_CHECKING` in the package's
    `__init__.py`; `__all__` follows from them. No submodule may have the name of a public symbol.
    """
    module = sys.modules[package]

    @functools.cache
    def places() -> dict[str, str]:
        # Not inspect, which asks the package for names that it does not have.
        source = pkgutil.get_data(package, "__init__.py") or b""
        (block,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        return {
            alias.name: f"{node.module}:{alias.name}" for node in imports for alias in node.names
        }

    def get(name: str) -> Any:
        if name == "__all__":
            return list(places())
        if name not in places():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needs_train(f"{package}.{name}"):
            value = imported(places()[name])
        setattr(module, name, value)
        return value

    return get, lambda: list(places())


def imported(entry: Any) -> Any:
    """Returns what is at a place such as `"package.module:name"`; anything else as it is."""
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    return operator.attrgetter(name)(importlib.import_module(module))
