"""`eligrad report`: writes one HTML page about all runs in a folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from eligrad._base.text import printable
from eligrad.cli import messages


@dataclasses.dataclass(frozen=True)
class Report:
    """Write one HTML page about many runs: curves, tables, configurations, versions, commands.

    The page is one file that needs no network and no server.
    """

    runs: Annotated[Path, tyro.conf.Positional]
    """A sweep's folder, a folder of run folders, or one run folder."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The file to write."""
    title: str | None = None
    """The page's heading; by default the folder's name."""


def main(arguments: list[str]) -> int:
    """Writes the report that the arguments ask for; returns the exit code."""
    command = tyro.cli(Report, prog="eligrad report", args=arguments)
    return messages.run("report", lambda: _write(command))


def _write(command: Report) -> int:
    from eligrad.analysis.report import write_report

    out = write_report(command.runs, command.out, command.title)
    print(f"report: {printable(str(out))}")
    return 0
