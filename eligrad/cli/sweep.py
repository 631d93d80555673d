"""`eligrad sweep`: trains every run of a spec."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from eligrad.cli import many_runs
from eligrad.cli.many_runs import Training


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Train every run of a spec; the same command again skips, resumes and retries."""

    spec: Annotated[Path, tyro.conf.Positional]
    """A .toml or .py file."""
    store: Path | None = None
    """Folder of the runs; by default runs/, then the name of the spec."""
    training: tyro.conf.OmitArgPrefixes[Training] = dataclasses.field(default_factory=Training)


def main(arguments: list[str]) -> int:
    """Trains the sweep that the arguments ask for; returns the exit code."""
    given = tyro.cli(Sweep, prog="eligrad sweep", args=arguments)
    return many_runs.run("sweep", given.training, lambda: _train(given))


def _train(given: Sweep) -> int:
    spec = many_runs.read_spec(given.spec)
    store = given.store or Path("runs") / given.spec.stem
    runs = many_runs.resolve(spec)
    from eligrad.sweeps.driver import train_runs

    executor = given.training.make_executor()
    print(f"{len(runs)} runs, to {store}")
    report = train_runs(runs, store, executor, setup=spec.setup, progress=given.training.progress)
    return many_runs.print_report(report, ["sweep", str(given.spec)], given.store)
