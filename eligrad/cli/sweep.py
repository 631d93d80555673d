"""`eligrad sweep`, `eligrad two-stage` and `eligrad reproduce`: many runs by one command."""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from eligrad.cli.modules import look_here
from eligrad.runs.records import STAGE_ONE, STAGE_TWO


@dataclasses.dataclass(frozen=True)
class Place:
    """Where runs are trained."""

    executor: Literal["local", "ray", "slurm"] = "local"
    """Processes of this machine, a Ray cluster, or SLURM (by submitit)."""
    workers: int | None = None
    """Jobs at once: by default one for each core if memory allows, or one on a GPU."""
    ray_address: str | None = None
    """Address of a Ray cluster, or auto; without it a local one is started."""
    slurm_partition: str | None = None
    """SLURM partition."""
    slurm_account: str | None = None
    """SLURM account."""
    slurm_timeout_min: int = 24 * 60
    """Minutes of a batch job; one that is not done by then continues in another."""
    slurm_mem_gb: float = 4.0
    """Memory of a batch job."""
    slurm_gpus: int = 0
    """GPUs of a batch job."""
    progress: bool = True
    """Whether to draw a progress bar."""
    debug: bool = False
    """Whether to show where in the program an error occurred."""

    def make(self, store: Path) -> Any:
        """The executor."""
        from eligrad.sweeps.executors import make_executor

        options: dict[str, Any] = {}
        if self.executor == "ray":
            options = {"address": self.ray_address}
        if self.executor == "slurm":
            options = {
                "folder": store / "slurm",
                "timeout_min": self.slurm_timeout_min,
                "mem_gb": self.slurm_mem_gb,
                "gpus": self.slurm_gpus,
                "partition": self.slurm_partition,
                "account": self.slurm_account,
            }
        return make_executor(self.executor, self.workers, **options)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Train every run of a spec; the same command again skips, resumes and retries."""

    spec: Annotated[Path, tyro.conf.Positional]
    """A .toml or .py file."""
    store: Path | None = None
    """Folder of the runs; by default runs/, then the name of the spec."""
    place: tyro.conf.OmitArgPrefixes[Place] = Place()

    def run(self) -> int:
        """Trains; returns the exit code."""
        from eligrad.sweeps.driver import train_runs
        from eligrad.sweeps.resolve import resolve

        spec = _read_spec(self.spec)
        store = self.store or Path("runs") / self.spec.stem
        runs = resolve(spec)
        print(f"{len(runs)} runs, to {store}")
        place = self.place.make(store)
        report = train_runs(runs, store, place, setup=spec.setup, progress=self.place.progress)
        return _tell(report, ["sweep", str(self.spec)], self.store)


@dataclasses.dataclass(frozen=True)
class TwoStage:
    """Sweep, choose one configuration for all environments, and train that one on fresh seeds."""

    spec: Annotated[Path, tyro.conf.Positional]
    """A .toml or .py file with stage_two.seeds."""
    store: Path | None = None
    """Folder of both stages; by default runs/, then the name of the spec."""
    place: tyro.conf.OmitArgPrefixes[Place] = Place()

    def run(self) -> int:
        """Both stages; returns the exit code."""
        from eligrad.sweeps import two_stage

        plan = two_stage.TwoStage.of(_read_spec(self.spec))
        store = self.store or Path("runs") / self.spec.stem
        words = ["two-stage", str(self.spec)]
        print(f"stage 1: {len(plan.runs)} runs, to {store / STAGE_ONE}")
        code = self._stage(plan, STAGE_ONE, plan.runs, store, words)
        if code:
            return code
        candidates, choices = plan.choose(store)
        two_stage.write_choice(plan, store, candidates, choices)
        print(two_stage.choice_as_text(plan, candidates, choices))
        fresh = plan.second_stage(choices)
        print(f"\nstage 2: {len(fresh)} runs, to {store / STAGE_TWO}")
        return self._stage(plan, STAGE_TWO, fresh, store, words)

    def _stage(self, plan: Any, stage: str, runs: Any, store: Path, words: list[str]) -> int:
        from eligrad.sweeps import two_stage

        place, progress = self.place.make(store), self.place.progress
        report = two_stage.run_stage(runs, store, stage, place, plan.spec, progress)
        last = stage == STAGE_TWO
        code = _tell(report, words, self.store, outcome=last)
        # Runs of stage 1 that failed count as the worst: they do not keep stage 2 from running.
        return 0 if code == 1 and not last else code


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
    place: tyro.conf.OmitArgPrefixes[Place] = Place()

    def run(self) -> int:
        """Trains; returns the exit code."""
        from eligrad.sweeps.driver import train_runs
        from eligrad.sweeps.paper import draw, figure_spec, is_about_speed
        from eligrad.sweeps.resolve import resolve

        spec = figure_spec(self.figure, self.scale)
        store = self.store or Path("runs") / f"{self.figure}-{self.scale}"
        runs = resolve(spec)
        print(f"{spec.name}: {len(runs)} runs, to {store}")
        where = self.place
        if is_about_speed(self.figure) and where.workers is None:
            # Programs that share a machine would slow each other down.
            where = dataclasses.replace(where, workers=1)
        report = train_runs(runs, store, where.make(store), progress=where.progress)
        words = ["reproduce", self.figure, "--scale", self.scale]
        code = _tell(report, words, self.store)
        if report.stopped_by is None and len(report.failures) < len(runs):
            print(f"\nfigure: {draw(self.figure, store)}")
        return code


_COMMANDS: dict[str, type[Sweep | TwoStage | Reproduce]] = {
    "sweep": Sweep,
    "two-stage": TwoStage,
    "reproduce": Reproduce,
}


def main(command: str, arguments: list[str]) -> int:
    """Does what the arguments say; returns the exit code."""
    given = tyro.cli(_COMMANDS[command], prog=f"eligrad {command}", args=arguments)
    # Training runs in other processes: this one must not take an accelerator.
    import jax

    jax.config.update("jax_platforms", "cpu")
    try:
        return given.run()
    except (ValueError, TypeError, ImportError, OSError) as error:
        if given.place.debug:
            raise
        print(f"eligrad {command}: {error}", file=sys.stderr)
        return 2


def _read_spec(path: Path) -> Any:
    """The spec of a file; modules that it names may be in the current folder."""
    from eligrad.envs.names import module_of
    from eligrad.sweeps.spec import read_spec

    if path.suffix == ".py":
        look_here()
    spec = read_spec(path)
    modules = {module_of(env) for part in spec.parts for env in part.envs} - {None}
    if any(importlib.util.find_spec(str(each).partition(".")[0]) is None for each in modules):
        look_here()
    return spec


def _tell(report: Any, words: list[str], store: Path | None, outcome: bool = True) -> int:
    """Prints the outcome; returns the exit code: 1 where runs failed, 130 after Ctrl-C."""
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    if outcome:
        from eligrad.sweeps.table import as_text

        print(as_text(report))
    for name, trace in report.failures.items():
        print(f"\n{name} failed:\n{trace.rstrip()}", file=sys.stderr)
    if report.failures:
        count = len(report.failures)
        print(f"\n{count} of {len(report.runs)} runs failed; see above", file=sys.stderr)
    if report.stopped_by is not None:
        extra = [] if store is None else ["--store", str(store)]
        again = shlex.join(["eligrad", *words, *extra])
        print(f"\nstopped; {report.unfinished} runs are left. To continue:\n  {again}")
        return 128 + report.stopped_by
    return 1 if report.failures else 0
