"""`eligrad two-stage`: sweeps, chooses one configuration, and trains it with new seeds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from eligrad.cli import many_runs
from eligrad.cli.many_runs import Training
from eligrad.runs.records import RUNS, STAGE_ONE, STAGE_TWO


@dataclasses.dataclass(frozen=True)
class TwoStage:
    """Sweep, choose one configuration for all environments, and train that one on fresh seeds."""

    spec: Annotated[Path, tyro.conf.Positional]
    """A .toml or .py file with stage_two.seeds."""
    store: Path | None = None
    """Folder of both stages; by default runs/, then the name of the spec."""
    training: tyro.conf.OmitArgPrefixes[Training] = dataclasses.field(default_factory=Training)


def main(arguments: list[str]) -> int:
    """Trains both stages that the arguments ask for; returns the exit code."""
    given = tyro.cli(TwoStage, prog="eligrad two-stage", args=arguments)
    return many_runs.run("two-stage", given.training, lambda: _train(given))


def _train(given: TwoStage) -> int:
    from eligrad.sweeps import two_stage
    from eligrad.sweeps.resolve import named_runs

    spec = many_runs.read_spec(given.spec)
    two_stage.TwoStage.of(spec, named_runs(spec))  # mistakes in it are reported without JAX
    plan = two_stage.TwoStage.of(spec, many_runs.resolve(spec))
    from eligrad.sweeps.driver import Report, train_runs

    store = given.store or Path("runs") / given.spec.stem
    if (store / RUNS).is_dir():
        raise FileExistsError(f"{store} is the store of a sweep; --store takes another folder")
    command = ["two-stage", str(given.spec)]

    def train(runs: list[two_stage.Run], stage: str) -> Report:
        executor, progress = given.training.make_executor(), given.training.progress
        print(f"{stage.replace('-', ' ')}: {len(runs)} runs, to {store / stage}")
        return train_runs(runs, store / stage, executor, setup=plan.spec.setup, progress=progress)

    first = train(list(plan.runs), STAGE_ONE)
    code = many_runs.print_report(first, command, given.store, table=False)
    # Runs of stage 1 that failed count as the worst: stage 2 is trained nevertheless.
    if first.stopped_by is not None:
        return code
    candidates, choices = plan.choose(store)
    two_stage.write_choice(plan, store, candidates, choices)
    print(two_stage.choice_as_text(plan, candidates, choices))
    print()
    second = train(plan.second_stage(choices), STAGE_TWO)
    return many_runs.print_report(second, command, given.store) or code
