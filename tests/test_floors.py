"""Imports go down the floors of the house only."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "eligrad"
FLOORS = {
    "_base": -1,
    "rules": 0,
    "problems": 0,
    "nets": 1,
    "optim": 1,
    "normalize": 1,
    "envs": 2,
    "agents": 3,
    "runs": 4,
    "engines": 5,
    "analysis": 5,
    "training": 6,
    "sweeps": 7,
    "cli": 8,
    "api": 8,
    "demo": 8,
    "__init__": 8,
    "__main__": 8,
}
APART = [("engines", "analysis"), ("cli", "api")]
"""Pairs on one floor that must not know each other."""
ONE_WAY = [("rules", "problems")]
"""Pairs on one floor of which the first must not import the second.

Rules know no problem. Problems compute with rules: mean updates and stability follow from a rule's
own formula, so that a new rule needs no entry in a second list.
"""


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
            assert (part, other) not in ONE_WAY, f"{path} imports {other}"
