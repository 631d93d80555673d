"""A program of many runs taken apart: each run a folder that stands alone and could go on."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eligrad._base.files import write_json
from eligrad.agents.registry import of_runs
from eligrad.runs.checksums import write_checksums
from eligrad.runs.config import plan_in_file
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables
from eligrad.runs.records import JOBS, RUNS
from eligrad.runs.summary import summarise
from eligrad.sweeps.dissect import Leaves, newest
from eligrad.sweeps.store import Claim


def finished_runs(claim: Claim) -> None:
    """Fills the outbox with a complete folder for each run of a finished program."""
    _empty(claim.outbox)
    about = RunFolder(claim.program).summary
    shared = {name: about[name] for name in ("title", "finished", "startup_seconds")}
    for run, one in zip(claim.job.runs, _pieces(claim.program), strict=True):
        folder = RunFolder(claim.outbox / RUNS / run.name)
        one.write(folder)
        summary = summarise(one.tables, [run.seed], one.step) | shared
        folder.write_summary(summary)
        write_checksums(folder.path)


def single_jobs(claim: Claim) -> None:
    """Fills the outbox with a job for each run, which goes on from the program's last checkpoint.

    One run that fails thus costs the others nothing.
    """
    _empty(claim.outbox)
    pieces = []
    if (claim.program / "config.json").exists():
        # What is damaged is of no use to anyone: the runs begin anew.
        with contextlib.suppress(ValueError):
            pieces = list(_pieces(claim.program))
    for index, job in enumerate(claim.job.alone()):
        folder = claim.outbox / JOBS / job.id
        folder.mkdir(parents=True)
        write_json(folder / "job.json", job.to_json())
        if pieces:
            pieces[index].write(RunFolder(folder / "program"))


def _empty(outbox: Path) -> None:
    shutil.rmtree(outbox, ignore_errors=True)
    outbox.mkdir()


@dataclasses.dataclass(frozen=True)
class _Piece:
    """All that a program holds of one of its runs."""

    config: dict[str, Any]
    step: int
    tables: Tables
    leaves: Leaves | None
    """None before the first checkpoint."""

    def write(self, folder: RunFolder) -> None:
        """Writes config, metrics and checkpoint to a new folder."""
        folder.write_config(self.config)
        if self.leaves is not None:
            sums = folder.write_tables(self.step, self.tables)
            config = {"plan": self.config["plan"]}
            header = {"step": self.step, "config": config, "metrics": sums}
            self.leaves.write(folder.checkpoint_at(self.step), header)


def _pieces(program: Path) -> Iterator[_Piece]:
    source = RunFolder.open(program)
    config = source.config
    plan = plan_in_file(config["plan"], program / "config.json")
    count = len(plan.seeds)
    leaves = newest(source.checkpoints())
    step = 0 if leaves is None else leaves.header["step"]
    tables = source.tables()
    for index in range(count):
        own = dataclasses.replace(plan.part([index]), settings=of_runs(plan.settings, index))
        together = {"runs": count, "index": index}
        yield _Piece(
            config=config | {"plan": own.to_json(), "program": together},
            step=step,
            tables=Tables(*(_rows(table, index, step) for table in tables)),
            leaves=None if leaves is None else leaves.run(index, count),
        )


def _rows(table: pa.Table, index: int, step: int) -> pa.Table:
    """The rows of one run up to a step; it is the first of its folder."""
    mine = (table["run"].to_numpy() == index) & (table["step"].to_numpy() <= step)
    own = table.filter(mine)
    place = own.column_names.index("run")
    return own.set_column(place, own.schema.field(place), pa.array(np.zeros(len(own), np.int32)))
