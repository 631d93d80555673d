"""The folder of a run, which pandas, polars and DuckDB read as it is.

- `config.json`: the plan of the run, and where, when and with which versions it was trained;
- `metrics/episodes/*.parquet`, `metrics/chunks/*.parquet`: the tables, one part for each
  checkpoint, named by its step (`pandas.read_parquet("RUN/metrics/episodes")` reads them all);
- `checkpoint-*.npz`: the last two;
- `summary.json`, `curve.png`: the results.

Files are written atomically. A part of the metrics is written before the
checkpoint it belongs to; parts that have no checkpoint are removed on resuming. While a process
trains, it holds a lock on the folder, so that no other one writes to it.
"""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from eligrad._base.checks import MOST_STEPS
from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import (
    LOCK,
    checksum,
    damage,
    locked,
    make_folder,
    replacing,
    sealed,
    sync_folder,
    write_json,
)
from eligrad.runs import checkpoint
from eligrad.runs.checkpoint import CheckpointError, DamagedCheckpointError
from eligrad.runs.metrics import LARGEST_PART, SCHEMAS, Tables, read_parts
from eligrad.runs.plan import RUN_FORMAT, read_config
from eligrad.runs.records import read_summary

KEPT = 2
"""Checkpoints kept: if the newest is damaged, the one before it is used."""
_PART = re.compile(rf"metrics/({'|'.join(SCHEMAS)})/[0-9]{{12}}\.parquet")


class RunInUseError(OSError):
    """Another process is training the run."""


class Restored(NamedTuple):
    """A checkpoint that was read."""

    file: Path
    step: int
    state: Any
    checksums: dict[str, str]
    """Checksums of the metrics up to its step, by file."""
    lost: dict[str, str]
    """Which of these files are damaged, and how."""
    newer: dict[Path, str]
    """Newer checkpoints that were not used, and why."""


class RunFolder:
    """Reads and writes the files of a run."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self.path = path
        self._new = new
        self._sums: dict[str, str] = {}
        self._identity: tuple[int, int] | None = None
        self.lost: list[str] = []
        """Damaged files of the metrics that `restore` put aside."""

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """Returns a new folder, made at the first write; it must not exist, or be empty."""
        folder = cls(path, new=True)
        folder._refuse_content()
        return folder

    def _refuse_content(self) -> None:
        path = self.path
        if path.exists() and (not path.is_dir() or any(map(_is_content, path.iterdir()))):
            raise FileExistsError(
                f"{path} exists already; choose another folder for this run, or resume that one"
            )

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an existing run."""
        if not path.exists():
            raise FileNotFoundError(f"there is no run {path}")
        if not (path / "config.json").is_file():
            empty = path.is_dir() and not any(map(_is_content, path.iterdir()))
            hint = "; nothing was trained in it yet: start it again" if empty else ""
            raise FileNotFoundError(f"{path} is not a run folder: it has no config.json{hint}")
        for name in ("metrics", *(f"metrics/{each}" for each in SCHEMAS)):
            if (path / name).is_symlink():
                raise DamagedFileError(
                    f"{path / name} is a link to {(path / name).readlink()}; files there would be "
                    "written and removed: only a folder is accepted"
                )
        return cls(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder; `RunInUseError` if another process trains in it."""
        make_folder(self.path)
        with locked(self.path) as alone:
            if not alone:
                raise RunInUseError(
                    f"{self.path} is being trained already, by another process or session; "
                    "wait until that has ended"
                )
            if self._new:  # it was new when the run was prepared
                self._refuse_content()
                self._new = False
            self._identity = self._present_identity()
            try:
                yield
            finally:
                self._identity = None

    def _present_identity(self) -> tuple[int, int]:
        about = self.path.stat()
        return about.st_dev, about.st_ino

    def _check_still_there(self) -> None:
        """Raises an error if the locked folder, or a file in it, was removed or replaced."""
        if self._identity is None:
            return
        needed = [self.path / name for name in ("config.json", *self._sums)]
        with contextlib.suppress(FileNotFoundError):
            if self._present_identity() == self._identity and all(f.is_file() for f in needed):
                return
        raise FileNotFoundError(
            f"{self.path} was removed, or files in it were, during training; the run there is not "
            "complete"
        )

    @property
    def config(self) -> dict[str, Any]:
        """The content of `config.json`."""
        return read_config(self.path)

    def write_config(self, config: dict[str, Any]) -> None:
        """Replaces `config.json`."""
        make_folder(self.path)
        write_json(self.path / "config.json", sealed(config | {"format": RUN_FORMAT}))

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`, checked."""
        return read_summary(self.path)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Replaces `summary.json`."""
        self._check_still_there()
        write_json(self.path / "summary.json", sealed(summary))

    @property
    def curve(self) -> Path:
        """The file with the plot of the learning curve."""
        return self.path / "curve.png"

    def checkpoints(self) -> list[Path]:
        """All checkpoints that the run wrote, from the oldest to the newest."""
        return checkpoint.in_folder(self.path)

    def checkpoint_at(self, step: int) -> Path:
        """The checkpoint of that step."""
        return self.path / f"checkpoint-{step:012}.npz"

    def write_tables(self, step: int, tables: Tables) -> dict[str, str]:
        """Writes the metrics up to a step since the last ones; returns checksums by file."""
        sums = {}
        for name, table in tables._asdict().items():
            part = self.path / "metrics" / name / f"{step:012}.parquet"
            make_folder(part.parent)
            with replacing(part) as partial:
                pq.write_table(table, partial)
                sums[part.relative_to(self.path).as_posix()] = checksum(partial)
        return sums

    def save(self, step: int, state: Any, tables: Tables, config: dict[str, Any]) -> None:
        """Writes the metrics since the last save, then the checkpoint; then removes old ones."""
        self._check_still_there()
        self._sums |= self.write_tables(step, tables)
        header = {"step": step, "config": config, "metrics": self._sums}
        checkpoint.save(self.checkpoint_at(step), state, header)
        self._check_still_there()
        for old in self.checkpoints()[:-KEPT]:
            old.unlink()

    def restore(self, like: Any) -> tuple[int, Any]:
        """Returns step and state of the checkpoint to resume from; step 0 and `like` without one.

        Newer checkpoints and damaged metrics are renamed to `*.damaged`, with a warning for each;
        `lost` lists the latter. If all checkpoints are damaged, nothing is renamed. Metrics of
        later steps are removed, since training writes them again.
        """
        for leftover in self.path.rglob(".*.partial"):
            leftover.unlink()
        step, state, self._sums, self.lost = 0, like, {}, []
        if self.checkpoints():
            found = self.newest(like)
            step, state, self._sums = found.step, found.state, found.checksums
            for file, wrong in found.newer.items():
                file.replace(file.with_suffix(".damaged"))
                _warn(f"{wrong}; continuing from {found.file}")
            for name, wrong in found.lost.items():
                _warn(f"{wrong}; continuing without the {self._rows_in(name)}")
                del self._sums[name]
                with contextlib.suppress(FileNotFoundError):
                    (self.path / name).replace((self.path / name).with_suffix(".damaged"))
            self.lost = list(found.lost)
            sync_folder(self.path)
        for name in SCHEMAS:
            for file in self._files(name):
                if self._is_part(file) and _step(file) > step:
                    file.unlink()
        return step, state

    def newest(self, like: Any) -> Restored:
        """Reads the newest intact checkpoint of those with the fewest damaged metrics.

        If metrics are damaged that were written after an older checkpoint, that one is used:
        training repeats the steps and writes the metrics again. Nothing in the folder changes.
        """
        wrong, lost = dict[Path, str](), dict[Path, dict[str, str]]()
        wrong_part = functools.cache(
            lambda name, digest: damage(self.path / name, digest, LARGEST_PART)
        )
        for file in reversed(self.checkpoints()):
            with _noting(wrong, file):
                sums = _metrics_in(checkpoint.read_header(file), file)
                found = ((name, wrong_part(name, digest)) for name, digest in sums.items())
                lost[file] = {name: why for name, why in found if why is not None}
        for file in sorted(lost, key=lambda file: len(lost[file])):
            with _noting(wrong, file):
                state, header = checkpoint.load(file, like)
                newer = {each: "; ".join(lost[each].values()) for each in lost} | wrong
                return Restored(
                    file, header["step"], state, header["metrics"], lost[file],
                    {each: why for each, why in newer.items() if each > file},
                )  # fmt: skip
        if wrong:
            raise DamagedCheckpointError("; ".join(dict.fromkeys(wrong.values())))
        raise FileNotFoundError(f"{self.path} has no checkpoint yet")

    def _rows_in(self, name: str) -> str:
        """Says which rows a file of the metrics has."""
        part = self.path / name
        others = (
            _step(Path(each)) for each in self._sums if Path(each).parent == Path(name).parent
        )
        before = max((step for step in others if step < _step(part)), default=0)
        return f"{part.parent.name} of steps {before + 1:,} to {_step(part):,}"

    def tables(self, until: int = MOST_STEPS, without: Collection[str] = ()) -> Tables:
        """Reads all metrics, or those up to the checkpoint of a step, `without` these files."""
        left_out = {self.path / name for name in without}
        parts = {
            name: [part for part in self.parts(name, until) if part not in left_out]
            for name in Tables._fields
        }
        seeds = self.config["plan"].get("seeds", []) if any(parts.values()) else []
        return Tables(*(read_parts(files, name, seeds) for name, files in parts.items()))

    def parts(self, name: str, until: int = MOST_STEPS) -> list[Path]:
        """Files of a table that the run wrote, in order; a warning names other files."""
        found = []
        for file in self._files(name):
            if not self._is_part(file):
                _warn(f"{file} was not written by the run and is ignored")
            elif _step(file) <= until:
                found.append(file)
        return found

    def _files(self, name: str) -> list[Path]:
        return sorted((self.path / "metrics" / name).glob("*.parquet"))

    def _is_part(self, file: Path) -> bool:
        return _PART.fullmatch(file.relative_to(self.path).as_posix()) is not None

    def last_header(self) -> dict[str, Any]:
        """The header of the newest intact checkpoint; empty if there is none."""
        for newest in reversed(self.checkpoints()):
            # Damaged, or replaced by a newer one at this very moment.
            with contextlib.suppress(CheckpointError, FileNotFoundError):
                return checkpoint.read_header(newest)
        return {}


def _is_content(path: Path) -> bool:
    """Whether a file is more than a lock, or what a process killed during a write leaves."""
    return path.name != LOCK and not re.fullmatch(r"\..*\.partial", path.name)


def _step(part: Path) -> int:
    """The last step in a file of the metrics."""
    return int(part.stem)


def _metrics_in(header: dict[str, Any], file: Path) -> dict[str, str]:
    """Checksums in a checkpoint's header, by file."""
    if not {"step", "metrics"} <= header.keys():
        raise CheckpointError(f"{file} is a checkpoint of something else")
    for name in header["metrics"]:
        if not _PART.fullmatch(name):
            raise DamagedCheckpointError(
                f"{file} is damaged: it names {name}, which is outside of the run's metrics"
            )
    return header["metrics"]


@contextlib.contextmanager
def _noting(wrong: dict[Path, str], file: Path) -> Iterator[None]:
    """Notes that a checkpoint is damaged, or was removed by training at this moment."""
    try:
        yield
    except (DamagedCheckpointError, FileNotFoundError) as error:
        wrong[file] = str(error)


def _warn(message: str) -> None:
    warnings.warn(message, DamagedFileWarning, stacklevel=3)
