"""`eligrad compare`: what two sets of runs allow one to claim."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import tyro

from eligrad.analysis.compare import SeveralConfigurations, compare
from eligrad.analysis.load import load_runs
from eligrad.runs.records import STAGE_ONE


@dataclasses.dataclass(frozen=True)
class Compare:
    """Say in words what can and what cannot be claimed of A against B.

    A and B are folders with the runs of one configuration each, on the same environments.
    """

    a: Annotated[Path, tyro.conf.Positional]
    """A run folder, or a folder of runs."""
    b: Annotated[Path, tyro.conf.Positional]
    """Another."""
    score: Literal["return_last", "return_all", "return_area"] = "return_last"
    """What a run is judged by: its last tenth, all its episodes, or the area under its curve."""


def main(arguments: list[str]) -> int:
    """Prints the comparison that the arguments ask for; returns the exit code."""
    command = tyro.cli(Compare, prog="eligrad compare", args=arguments)
    try:
        print(compare(_runs(command.a), _runs(command.b), command.score).in_words())
    except SeveralConfigurations as error:
        print(
            f"eligrad compare: {error.found}; a folder with the runs of one is accepted, as "
            "`eligrad train --seeds 10` writes it; eligrad report FOLDER shows all of a sweep",
            file=sys.stderr,
        )
        return 2
    except (ValueError, OSError) as error:
        print(f"eligrad compare: {error}", file=sys.stderr)
        return 2
    return 0


def _runs(path: Path) -> pd.DataFrame:
    runs = load_runs(path)
    # Runs that a configuration was chosen by flatter it, from wherever one looks at them.
    return runs.assign(stage=1) if STAGE_ONE in path.resolve().parts else runs
