"""Packages of the extras, which plain eligrad does not install."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType

TRAIN = frozenset({"filelock", "matplotlib", "pandas", "pyarrow", "tqdm", "tyro"})
"""What the extra `train` brings: tables, plots and the command line."""


def missing_package(package: str, extra: str, purpose: str) -> ImportError:
    """The error for a package that `purpose` needs, with the command that installs it."""
    return ImportError(
        f"{purpose} needs the package {package!r}, which is not installed: "
        f"pip install 'eligrad[{extra}]'",
        name=package,
    )


def import_optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Imports `module`, or says which extra of eligrad brings it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != package:
            raise  # the package is there; something that it needs itself is not
        raise missing_package(package, extra, purpose) from error


@contextlib.contextmanager
def needs_train(purpose: str) -> Iterator[None]:
    """If an import within fails because the extra `train` is missing, says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAIN:
            raise
        raise missing_package(package, "train", purpose) from error
