"""Tables out of files that may come from anyone: looked at before they are believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eligrad._damaged import DamagedFileError
from eligrad.runs.metrics import CHUNKS, EPISODES

SCHEMAS = {"episodes": EPISODES, "chunks": CHUNKS}
"""Of every run's two tables."""
LARGEST_RATIO = 1000
"""How many times its file a table may be in memory; those of runs are far below."""


def read_part(path: Path, name: str, seeds: Sequence[int]) -> pa.Table:
    """A part of the table `name` of runs with these seeds.

    Raises `DamagedFileError` for a file that holds no such table, or claims absurdly much.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check_size(file.metadata, path)
            table = file.read()
        return _checked(table, name, seeds)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def to_bytes(table: pa.Table) -> bytes:
    """A table as bytes, for `from_bytes`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes, name: str, seeds: Sequence[int], path: Path) -> pa.Table:
    """The table `name` out of bytes that a file held; `DamagedFileError` names that file."""
    try:
        return _checked(pa.ipc.open_stream(data).read_all(), name, seeds)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: its {name}: {error}") from error


def _check_size(about: pq.FileMetaData, path: Path) -> None:
    """Before anything is read: a file of a few bytes can claim any number of equal rows."""
    claimed = about.num_rows * about.num_columns * 8
    if claimed > LARGEST_RATIO * path.stat().st_size:
        raise ValueError(f"it claims {about.num_rows:,} rows, too many for a file of its size")


def _checked(table: pa.Table, name: str, seeds: Sequence[int]) -> pa.Table:
    # Arrow believes what a file says of its own lengths.
    table.validate(full=True)
    if "run" not in table.column_names:
        table = _with_run(table, seeds)
    wanted = SCHEMAS[name]
    for field in wanted:
        if field.name not in table.column_names or table.schema.field(field.name) != field:
            raise ValueError(f"it has no column {field.name} of type {field.type}")
    for field in table.schema:
        if field.name not in wanted.names and field.type != pa.float32():
            raise ValueError(f"it has a column {field.name} of type {field.type}")
    return table


def _with_run(table: pa.Table, seeds: Sequence[int]) -> pa.Table:
    """Tables of format 1 tell runs by their seeds, of which no two were the same then."""
    places = {seed: place for place, seed in enumerate(seeds)}
    try:
        runs = [places[seed] for seed in table["seed"].to_pylist()]
    except KeyError as error:
        raise ValueError(f"it has seed {error}, which is none of the run's") from error
    return table.add_column(0, EPISODES.field("run"), pa.array(np.asarray(runs, np.int32)))
