"""The folder of a run, which pandas, polars and DuckDB read as it is.

- `config.json`: the plan of the run, and where, when and with which versions it was trained;
- `metrics/episodes/*.parquet`, `metrics/chunks/*.parquet`: the tables, one part for each
  checkpoint, named by its step (`pandas.read_parquet("RUN/metrics/episodes")` reads them all);
- `checkpoint-*.npz`: the last two;
- `summary.json`, `curve.png`: what came out.

Every file is complete from the moment it is there. A part of the metrics is written before the
checkpoint it belongs to; parts that have no checkpoint are thrown away on resuming. While a process
trains, it holds a lock on the folder, so that no other one writes to it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import PyTree

from eligrad._base.checks import MOST_STEPS
from eligrad._base.files import checksum, locked, replacing, write_json
from eligrad._damaged import DamagedFileError, DamagedFileWarning
from eligrad._files import RUN_FORMAT, inside, read_config, read_json, sealed
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.metrics import Tables, concatenate
from eligrad.runs.tables import SCHEMAS, read_part

KEPT = 2
"""Checkpoints kept: should the newest be damaged, there is one before it."""


class RunInUseError(OSError):
    """Another process is training the run."""


class RunFolder:
    """Where a run is written to and read from."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._new = new
        self._sums: dict[str, str] = {}

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new folder, made when first written to; one with something in it is refused."""
        folder = cls(path, new=True)
        folder._refuse_what_is_there()
        return folder

    def _refuse_what_is_there(self) -> None:
        path = self.path
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(
                f"{path} exists already; choose another folder for this run, or resume that one"
            )

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A folder that a run was written to."""
        if not (path / "config.json").is_file():
            raise FileNotFoundError(f"{path} is no run: it has no config.json")
        for name in ("metrics", *(f"metrics/{each}" for each in SCHEMAS)):
            if (path / name).is_symlink():
                raise DamagedFileError(
                    f"{path / name} is a link to {(path / name).readlink()}; files there would be "
                    "written and removed: only a folder is accepted"
                )
        return cls(path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within this context no other process trains in the folder; one that does is named."""
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path) as alone:
            if not alone:
                raise RunInUseError(
                    f"{self.path} is being trained already, by another process or session; "
                    "wait until that has ended"
                )
            if self._new:  # it was, when this run was prepared
                self._refuse_what_is_there()
                self._new = False
            yield

    @property
    def config(self) -> dict[str, Any]:
        """What `config.json` says."""
        return read_config(self.path)

    def write_config(self, config: dict[str, Any]) -> None:
        """Replaces `config.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "config.json", sealed(config | {"format": RUN_FORMAT}))

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` says."""
        return read_json(self.path / "summary.json")

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Replaces `summary.json`."""
        write_json(self.path / "summary.json", sealed(summary))

    @property
    def curve(self) -> Path:
        """The picture of the learning curve."""
        return self.path / "curve.png"

    def checkpoints(self) -> list[Path]:
        """From the oldest to the newest."""
        return sorted(self.path.glob("checkpoint-*.npz"))

    def checkpoint_at(self, step: int) -> Path:
        """The checkpoint of that step."""
        return self.path / f"checkpoint-{step:012}.npz"

    def write_tables(self, step: int, tables: Tables) -> dict[str, str]:
        """Writes a part of the metrics, which ends at that step; returns checksums by file."""
        sums = {}
        for name, table in tables._asdict().items():
            part = self._parts(name) / f"{step:012}.parquet"
            part.parent.mkdir(parents=True, exist_ok=True)
            with replacing(part) as partial:
                pq.write_table(table, partial)
                sums[part.relative_to(self.path).as_posix()] = checksum(partial)
        return sums

    def save(self, step: int, state: PyTree, tables: Tables, config: dict[str, Any]) -> None:
        """Writes the tables since the last save, then the state; then drops older states."""
        self._sums |= self.write_tables(step, tables)
        header = {"step": step, "config": config, "metrics": self._sums}
        checkpoint.save(self.checkpoint_at(step), state, header)
        for old in self.checkpoints()[:-KEPT]:
            old.unlink()

    def restore(self, like: PyTree) -> tuple[int, PyTree]:
        """Step and state of the newest checkpoint that is sound; with none, step 0 and `like`.

        A damaged one is put aside, with a warning, and the one before it is taken; so is one that
        has damaged metrics before it. Where none is sound, all stay as they are. Metrics from after
        the step are removed: they are about to be written again.
        """
        for leftover in self.path.rglob(".*.partial"):
            leftover.unlink()
        step, state, self._sums = 0, like, {}
        damaged: list[tuple[Path, DamagedCheckpointError]] = []
        for newest in reversed(self.checkpoints()):
            try:
                step, state, self._sums = self._load(newest, like)
            except DamagedCheckpointError as error:
                damaged.append((newest, error))
                continue
            for file, error in damaged:
                file.rename(file.with_suffix(".damaged"))
                warnings.warn(f"{error}; going on from {newest}", DamagedFileWarning, stacklevel=2)
            break
        else:
            if damaged:
                told = dict.fromkeys(str(error) for _, error in damaged)
                raise DamagedCheckpointError("; ".join(told))
        for name in SCHEMAS:
            for part in self._parts(name).glob("*.parquet"):
                if part.stem.isdecimal() and int(part.stem) > step:
                    part.unlink()
        return step, state

    def _load(self, file: Path, like: PyTree) -> tuple[int, PyTree, dict[str, str]]:
        """Step, state and checksums of the metrics in a checkpoint that is sound, as they are."""
        state, header = checkpoint.load(file, like)
        if not {"step", "metrics"} <= header.keys():
            raise CheckpointError(f"{file} is a checkpoint of something else")
        self._check_metrics(header["metrics"])
        return header["step"], state, header["metrics"]

    def newest(self, like: PyTree) -> tuple[Path, int, PyTree]:
        """The newest sound checkpoint, its step and state; nothing in the folder changes."""
        trouble: Exception = FileNotFoundError(f"{self.path} has no checkpoint yet")
        for file in reversed(self.checkpoints()):
            try:
                step, state, _ = self._load(file, like)
                return file, step, state
            # Damaged, or replaced by a newer one at this very moment.
            except (DamagedCheckpointError, FileNotFoundError) as error:
                trouble = error
        raise trouble

    def tables(self, until: int = MOST_STEPS) -> Tables:
        """All metrics, or those up to the checkpoint of a step."""
        return Tables(*(self._table(name, until) for name in Tables._fields))

    def checksums(self) -> dict[str, str]:
        """Those of the metrics, by file, as the newest sound checkpoint knows them."""
        for newest in reversed(self.checkpoints()):
            # Damaged, or replaced by a newer one at this very moment.
            with contextlib.suppress(CheckpointError, FileNotFoundError):
                return checkpoint.read_header(newest).get("metrics", {})
        return {}

    def _check_metrics(self, sums: dict[str, str]) -> None:
        """Refuses metrics that are not as they were written."""
        for name, written in sums.items():
            part = inside(self.path, name)
            if not part.is_file():
                raise DamagedCheckpointError(f"{part} is gone")
            if checksum(part) != written:
                raise DamagedCheckpointError(f"{part} is damaged: its checksum differs")

    def _table(self, name: str, until: int) -> pa.Table:
        parts = sorted(self._parts(name).glob("*.parquet"))
        found = [part for part in parts if not part.stem.isdecimal() or int(part.stem) <= until]
        seeds = self.config["plan"].get("seeds", []) if found else []
        return concatenate(
            [SCHEMAS[name].empty_table(), *(read_part(part, name, seeds) for part in found)]
        )

    def _parts(self, name: str) -> Path:
        return self.path / "metrics" / name
