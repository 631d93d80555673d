"""Modules named on the command line, such as one that registers environments."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Annotated

import tyro

Modules = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(name="import", metavar="MODULE")
]
"""The option --import of a command; may be given several times."""


def look_here() -> None:
    """Modules in the current folder are importable from now on, after those that are installed.

    Only for modules that the user typed or wrote: a folder of other people may hold anything, even
    a module with the name of a package that is not installed.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def import_typed(modules: Iterable[str]) -> None:
    """Imports what was given with --import, from the current folder, too."""
    for module in modules:
        look_here()
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"--import is {module}: {error}; a module that is installed, or is in the current "
                "folder, is accepted",
                name=error.name,
            ) from None
