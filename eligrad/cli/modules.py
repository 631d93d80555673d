"""Modules that people name on the command line, such as one that registers their environments."""

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
    """Modules in the present folder are found from now on, after those that are installed.

    For what somebody typed or wrote down himself only: a folder of others may hold anything, also a
    module by the name of a package that is looked for and not installed.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def import_typed(modules: Iterable[str]) -> None:
    """Imports what was given with --import, from the present folder, too."""
    for module in modules:
        look_here()
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"--import is {module}: {error}; a module that is installed, or is in the present "
                "folder, is accepted",
                name=error.name,
            ) from None
