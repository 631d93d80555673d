"""`eligrad reproduce`: trains the runs of a figure of the paper, and draws it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eligrad.cli import many_runs
from eligrad.cli.many_runs import Training


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train what a figure of the paper shows, with the paper's settings, and draw it."""

    figure: Annotated[Literal["fig1", "fig2", "fig3", "fig4", "fig5", "fig6"], tyro.conf.Positional]
    """fig1: Gradient PPO and PPO; fig2: TDRC, TDC and GTD2 in Gradient PPO; fig3: QRC(λ), Q(λ) and
    StreamQ; fig4: QRC(λ), QC(λ) and GQ2(λ); fig5, fig6: their steps per second."""
    scale: Literal["smoke", "small", "paper"] = "smoke"
    """smoke: minutes on two cores; small: hours; paper: 30 seeds and 5 million steps."""
    store: Path | None = None
    """Folder of the runs; by default runs/FIGURE-SCALE."""
    training: tyro.conf.OmitArgPrefixes[Training] = dataclasses.field(default_factory=Training)


def main(arguments: list[str]) -> int:
    """Trains the figure that the arguments ask for; returns the exit code."""
    given = tyro.cli(Reproduce, prog="eligrad reproduce", args=arguments)
    return many_runs.run("reproduce", given.training, lambda: _train(given))


def _train(given: Reproduce) -> int:
    from eligrad.sweeps.paper import draw, figure_spec, is_about_speed

    training = given.training
    spec = figure_spec(given.figure, given.scale)
    store = given.store or Path("runs") / f"{given.figure}-{given.scale}"
    runs = many_runs.resolve(spec)
    from eligrad.sweeps.driver import train_runs

    if is_about_speed(given.figure) and training.workers is None:
        # Jobs that share a machine slow each other down.
        training = dataclasses.replace(training, workers=1)
    executor = training.make_executor()
    print(f"{spec.name}: {len(runs)} runs, to {store}")
    report = train_runs(runs, store, executor, progress=training.progress)
    command = ["reproduce", given.figure, "--scale", given.scale]
    code = many_runs.print_report(report, command, given.store)
    if report.stopped_by is None and len(report.failures) < len(runs):
        print(f"\nfigure: {draw(given.figure, store)}")
    return code
