"""Imports go down the floors of the house only."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "eligrad"
FLOORS = {
    "rules": 0,
    "problems": 0,
    "_number": 0,
    "_damaged": 0,
    "_files": 0,
    "_machine": 0,
    "_names": 0,
    "_processes": 0,
    "nets": 1,
    "optim": 1,
    "normalize": 1,
    "envs": 2,
    "agents": 2,
    "_base": 0,
    "runs": 3,
    "engines": 3,
    "training": 3,
    "experiments": 4,
    "cli": 5,
    "cli_train": 5,
    "cli_report": 5,
    "cli_compare": 5,
    "cli_experiments": 5,
    "cli_modules": 5,
    "cli_runs": 5,
    "cli_play": 5,
    "cli_watch": 5,
    "demo": 5,
    "facade": 5,
    "__init__": 5,
    "__main__": 5,
}
APART = [("rules", "problems"), ("envs", "agents")]
"""Pairs on one floor that must not know each other."""


def imported_parts(path: Path) -> set[str]:
    """Which top-level parts of the package a file imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "eligrad":
            parts |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eligrad."):
            parts.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("eligrad.")]
            parts |= {name.split(".")[1] for name in names}
    return parts


def test_imports_go_down():
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for other in imported_parts(path) - {part}:
            assert FLOORS[other] <= FLOORS[part], f"{path} imports {other}, a floor above it"
            assert (part, other) not in APART, f"{path} imports {other}"
            assert (other, part) not in APART, f"{path} imports {other}"


def test_files_are_short():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
