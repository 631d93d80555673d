"""Loggers send the metrics to TensorBoard and W&B while training goes on.

Each seed is a separate run there. A logger writes its files into the run folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from eligrad._base.optional import import_optional
from eligrad.runs.configuration import Configuration
from eligrad.runs.metrics import Tables

EXTRA = "loggers"
"""The extra of eligrad that brings both packages."""


@runtime_checkable
class Logger(Protocol):
    """Sends metrics to another program."""

    def write(self, tables: Tables, step: int) -> None:
        """Sends the rows of the chunk that ended with this step."""
        ...

    def close(self) -> None:
        """Sends what is still in memory, and ends."""
        ...


class Subject(NamedTuple):
    """What a logger gets about a run before its first rows."""

    folder: Path
    title: str
    config: dict[str, Any]
    """What `config.json` says."""
    step: int
    """Where this session begins; whatever was sent of later steps is about to be sent again."""

    @property
    def names(self) -> list[str]:
        """One for each run: its seed, and its place where several have one seed."""
        seeds = self.config["plan"]["seeds"]
        if len(set(seeds)) == len(seeds):
            return [f"seed-{seed}" for seed in seeds]
        return [f"run-{place}-seed-{seed}" for place, seed in enumerate(seeds)]


def scalars(tables: Tables) -> dict[int, dict[str, float]]:
    """For each run of one chunk: its diagnostics, and the means of the episodes it ended.

    Where no episode ended, or a diagnostic is null, there is no entry.
    """
    found: dict[int, dict[str, float]] = {}
    episodes = {name: tables.episodes[name].to_numpy() for name in ("run", "return", "length")}
    for row in tables.chunks.to_pylist():
        found[row["run"]] = numbers = {
            f"chunk/{name}": float(value)
            for name, value in row.items()
            if name not in ("run", "seed", "step") and value is not None
        }
        mine = episodes["run"] == row["run"]
        if mine.any():
            numbers["episode/count"] = float(mine.sum())
            for name in ("return", "length"):
                numbers[f"episode/{name}"] = float(np.mean(episodes[name][mine]))
    return found


class TensorBoard:
    """Event files in `RUN/tensorboard/`; needs TensorBoard, not TensorFlow."""

    def __init__(self, subject: Subject) -> None:
        def of_package(module: str) -> Any:
            return import_optional(
                f"tensorboard.{module}", extra=EXTRA, purpose="the logger 'tensorboard'"
            )

        writers = of_package("summary.writer.event_file_writer")
        events = of_package("compat.proto.event_pb2")
        self._event = events.Event
        self._summary = of_package("compat.proto.summary_pb2").Summary
        base = subject.folder / "tensorboard"
        self._writers = [writers.EventFileWriter(str(base / name)) for name in subject.names]
        if subject.step:
            # TensorBoard forgets what an earlier session wrote from the given step on.
            restart = events.Event(
                step=subject.step + 1,
                session_log=events.SessionLog(status=events.SessionLog.START),
            )
            for writer in self._writers:
                writer.add_event(restart)

    def write(self, tables: Tables, step: int) -> None:
        """Adds one event for each run."""
        for run, row in scalars(tables).items():
            values = [self._summary.Value(tag=tag, simple_value=row[tag]) for tag in row]
            event = self._event(step=step, summary=self._summary(value=values))
            self._writers[run].add_event(event)

    def close(self) -> None:
        """Writes what is still in memory."""
        for writer in self._writers:
            writer.close()


class WandB:
    """W&B runs in one group; WANDB_MODE=offline keeps all in `RUN/wandb`."""

    def __init__(self, subject: Subject) -> None:
        wandb = import_optional("wandb", extra=EXTRA, purpose="the logger 'wandb'")
        plan, started = subject.config["plan"], subject.config["sessions"][0]["started"]
        self._runs = []
        for place, name in enumerate(subject.names):
            # The same in every session of a run, so that W&B continues its run.
            identity = f"{subject.folder.resolve()} {started} {name}"
            run = wandb.init(
                dir=str(subject.folder),
                project="eligrad",
                group=subject.folder.name,
                name=f"{subject.title}, {name}",
                id=hashlib.sha256(identity.encode()).hexdigest()[:16],
                resume="allow",
                config=_of_run(plan, place),
                # Several runs report at the same time.
                reinit="create_new",
                settings=wandb.Settings(console="off"),
            )
            # W&B counts calls of `log` and wants them to rise; a resumed run may go back.
            run.define_metric("*", step_metric="step")
            self._runs.append(run)

    def write(self, tables: Tables, step: int) -> None:
        """Logs one row for each run."""
        for run, row in scalars(tables).items():
            self._runs[run].log(row | {"step": step})

    def close(self) -> None:
        """Sends the rest; W&B keeps the process until all is sent or on disk."""
        for run in self._runs:
            run.finish()


def _of_run(plan: dict[str, Any], place: int) -> dict[str, Any]:
    """The plan of one run alone."""
    settings = Configuration.of_plan(plan, place).settings
    others = {name: value for name, value in plan.items() if name != "seeds"}
    return others | {"seed": plan["seeds"][place], "settings": settings}


LOGGERS: dict[str, Callable[[Subject], Logger]] = {"tensorboard": TensorBoard, "wandb": WandB}
"""The loggers, by the name of the package that each of them needs."""


def check_loggers(names: Sequence[str], folder: Path | None) -> None:
    """Refuses names that are unknown and loggers that cannot work here, before any work starts."""
    if isinstance(names, str):
        raise ValueError(f"loggers is {names!r}; a list of names is accepted")
    for name in names:
        if name not in LOGGERS:
            known = " and ".join(map(repr, LOGGERS))
            raise ValueError(f"loggers has {name!r}; {known} are accepted")
        if folder is None:
            raise ValueError(f"loggers are {list(names)}, but without `out` they have no folder")
        import_optional(name, extra=EXTRA, purpose=f"the logger {name!r}")


class Loggers:
    """Several loggers as one. One that fails is left out, with a warning."""

    def __init__(self) -> None:
        self._working: dict[str, Logger] = {}

    def open(self, names: Sequence[str], subject: Subject) -> None:
        """Begins to send to the loggers of these names."""
        for name in dict.fromkeys(names):
            with self._left_out_if_it_fails(name):
                self._working[name] = LOGGERS[name](subject)

    def write(self, tables: Tables, step: int) -> None:
        """Sends the rows of the chunk that ended with this step to all loggers that still work."""
        for name, logger in list(self._working.items()):
            with self._left_out_if_it_fails(name):
                logger.write(tables, step)

    def close(self) -> None:
        """Closes all loggers that still work."""
        for name in list(self._working):
            with self._left_out_if_it_fails(name):
                self._working.pop(name).close()

    @contextlib.contextmanager
    def _left_out_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._working.pop(name, None)
            warnings.warn(
                f"the logger {name!r} failed ({type(error).__name__}: {error}); training goes on "
                "without it, and the run folder has every row",
                stacklevel=4,
            )
