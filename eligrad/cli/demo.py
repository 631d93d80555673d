"""`eligrad demo`: TD(λ) and gradient TD(λ) on three small problems, as a figure."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from eligrad._base.files import check_target
from eligrad.cli import messages


@dataclasses.dataclass(frozen=True)
class Demo:
    """Show TD(λ) and gradient TD(λ) on three small problems: TD(λ) diverges on two of them."""

    out: Path = Path("demo.png")
    """Where to write the figure (.png, .pdf or .svg)."""
    seeds: int = 20
    """Number of independent learners for each line."""


def main(arguments: list[str]) -> int:
    """Runs the demonstration; returns the exit code."""
    command = tyro.cli(Demo, prog="eligrad demo", args=arguments)
    return messages.run("demo", lambda: _demo(command))


def _demo(command: Demo) -> int:
    if command.seeds < 1:
        raise ValueError(f"--seeds is {command.seeds}; 1 or more is accepted")
    from eligrad.runs.plot import SUFFIXES

    check_target(command.out, SUFFIXES)
    from eligrad import demo

    demo.main(command.out, command.seeds)
    return 0
