"""The metrics of a run: a table of episodes and a table of chunks, made, written and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eligrad._base.errors import DamagedFileError
from eligrad._base.files import regular_size

EPISODES = pa.schema(
    [
        ("run", pa.int32()),
        ("seed", pa.int64()),
        ("step", pa.int64()),
        ("return", pa.float32()),
        ("length", pa.int32()),
    ]
)
"""`run` is the index of the run among those trained together; `step` is the episode's last."""

CHUNKS = pa.schema(
    [
        ("run", pa.int32()),
        ("seed", pa.int64()),
        ("step", pa.int64()),
        ("seconds", pa.float64()),
        ("steps_per_second", pa.float64()),
        ("diverged_step", pa.int64()),
    ]
)
"""`step` is the chunk's last; `seconds` is its wall-clock time; `steps_per_second` counts the steps
of all runs together, in the time without compiling; `diverged_step` is the chunk's first step of
divergence, or null. A column for each metric of the agent follows."""

SCHEMAS = {"episodes": EPISODES, "chunks": CHUNKS}
_METRIC = pa.field("metric", pa.float32())

LARGEST_PART = 2**30
"""Bytes that one file of metrics may have."""
LARGEST_RATIO, SMALL = 200, 2**24
"""In memory a table may take the bytes of its files times the first number, plus the second. The
largest ratio measured was 155, of 1000 runs whose episodes were all equal; it is below 10 where
returns differ."""


class Tables(NamedTuple):
    """Both tables, for some range of steps."""

    episodes: pa.Table
    chunks: pa.Table

    @classmethod
    def join(cls, stretches: Iterable[Tables]) -> Tables:
        """Concatenates tables of consecutive steps; without any, tables without rows."""
        empty = cls(EPISODES.empty_table(), CHUNKS.empty_table())
        return cls(*map(concatenate, zip(empty, *stretches, strict=True)))


def concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns the rows of all tables; a column that a table lacks is null there."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def tables_of_chunk(
    record: Any,
    columns: Mapping[str, np.ndarray],
    diverged: np.ndarray,
    seeds: Sequence[int],
    start_step: int,
    seconds: float,
    startup: float = 0.0,
) -> Tables:
    """The rows of one chunk.

    Args:
        record: `ended`, `episode_return` and `episode_length` of each step, [runs, steps].
        columns: the agent's metrics, one number for each run.
        diverged: whether each step showed divergence; [runs, rollouts] for those at their ends.
        seeds: one for each run.
        start_step: the step before the chunk's first.
        seconds: what the chunk took.
        startup: how much of that was spent on compiling; the speed excludes it.
    """
    seed = np.asarray(seeds, np.int64)
    ended = np.asarray(record.ended)
    returns, lengths = np.asarray(record.episode_return), np.asarray(record.episode_length)
    runs, steps = ended.shape
    which, at = np.nonzero(ended)
    episodes = [which, seed[which], start_step + 1 + at, returns[which, at], lengths[which, at]]
    first = start_step + (1 + np.argmax(diverged, axis=1)) * (steps // diverged.shape[1])
    chunks = [
        np.arange(runs),
        seed,
        np.full(runs, start_step + steps),
        np.full(runs, seconds),
        np.full(runs, runs * steps / max(seconds - startup, 1e-9)),
        pa.array(first, pa.int64(), mask=~diverged.any(axis=1)),
    ]
    table = _table(chunks, CHUNKS)
    for name, values in columns.items():
        table = _with_metric(table, name, values, "the agent reports")
    return Tables(_table(episodes, EPISODES), table)


def with_metrics(tables: Tables, metrics: Mapping[str, Any]) -> Tables:
    """The tables of one chunk with more metrics, each a number for all runs or one for each."""
    chunks = tables.chunks
    for name, value in metrics.items():
        numbers = np.asarray(value)
        sound = numbers.dtype.kind in "biuf" and numbers.shape in ((), (chunks.num_rows,))
        if not isinstance(name, str) or not sound:
            raise ValueError(
                f"a callback returned the metric {name!r} with {value!r}; a number is accepted, or "
                f"one for each of the {chunks.num_rows} runs"
            )
        column = np.broadcast_to(numbers, chunks.num_rows)
        chunks = _with_metric(chunks, name, column, "a callback returned")
    return tables._replace(chunks=chunks)


def _with_metric(chunks: pa.Table, name: str, values: np.ndarray, who: str) -> pa.Table:
    if name in chunks.column_names:
        raise ValueError(
            f"{who} the metric {name!r}, which the run has already; another name is accepted"
        )
    return chunks.append_column(name, pa.array(np.asarray(values, np.float32)))


def _table(columns: Sequence[np.ndarray | pa.Array], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def to_bytes(table: pa.Table) -> bytes:
    """Returns a table as bytes, for `from_bytes`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes, name: str, seeds: Sequence[int], path: Path) -> pa.Table:
    """Returns the table that `to_bytes` made these bytes of.

    The bytes may come from anyone: decoding takes no more memory than they do.

    Args:
        data: the bytes.
        name: which table, "episodes" or "chunks".
        seeds: those of the runs.
        path: the file that the bytes were in; `DamagedFileError` names it.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(data):
            _check_message(message)
        reader = pa.ipc.open_stream(data)
        _check_columns(reader.schema, name)
        table = reader.read_all()
        if table.nbytes > len(data):
            raise ValueError(f"it claims {table.nbytes:,} bytes of {len(data):,}")
        return _complete(table, seeds)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: its {name}: {error}") from error


def read_parts(parts: Sequence[Path], name: str, seeds: Sequence[int]) -> pa.Table:
    """Reads the table `name` of runs with these seeds from its Parquet files.

    The files may come from anyone: sizes, columns and codecs are checked before decoding. Raises
    `DamagedFileError` for a file that does not pass.
    """
    tables = [SCHEMAS[name].empty_table()]
    accepted, claimed = SMALL, 0
    for part in parts:
        try:
            accepted += LARGEST_RATIO * regular_size(part, LARGEST_PART)
            with pq.ParquetFile(part) as file:
                _check_columns(file.schema_arrow, name)
                _check_codecs(file.metadata)
                rows = file.metadata.num_rows
                claimed += rows * sum(field.type.byte_width for field in file.schema_arrow)
                if claimed > accepted:
                    raise ValueError(f"it claims {rows:,} rows, too many for its size")
                tables.append(_complete(file.read(), seeds))
        except (FileNotFoundError, DamagedFileError):
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise DamagedFileError(f"{part} is damaged: {error}") from error
    return concatenate(tables)


def _check_columns(schema: pa.Schema, name: str) -> None:
    """Refuses a table with other columns than `name` has; format 1 had no `run`."""
    wanted = {field.name: field for field in SCHEMAS[name]}
    for column in wanted.keys() - schema.names - {"run"}:
        raise ValueError(f"it has no column {column}")
    if len(set(schema.names)) < len(schema.names):
        raise ValueError("it has two columns of one name")
    for field in schema:
        if field.type != wanted.get(field.name, _METRIC).type:
            raise ValueError(f"it has a column {field.name} of type {field.type}")


def _check_codecs(about: pq.FileMetaData) -> None:
    """Refuses codecs that decode a kilobyte to gigabytes; Snappy decodes it to about 21."""
    for group in range(about.num_row_groups):
        for column in range(about.num_columns):
            codec = about.row_group(group).column(column).compression
            if codec not in ("SNAPPY", "UNCOMPRESSED"):
                raise ValueError(f"it is compressed by {codec}; SNAPPY is accepted")


def _check_message(message: Any) -> None:
    """Refuses a message of Arrow's format that `to_bytes` does not write, such as a compressed one.

    In its flatbuffer, field 2 of `Message` is the header, field 3 of a record batch's header is the
    compression, and field 4 of `Message` is where earlier versions of Arrow wrote it.
    """
    raw = message.metadata.to_pybytes()

    def number(at: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(raw[at : at + size], "little", signed=signed)

    def field(table: int, which: int) -> int:
        """The position of a field; 0 if it is absent."""
        offsets = table - number(table, 4, signed=True)
        offset = number(offsets + 4 + 2 * which, 2) if 4 + 2 * which < number(offsets, 2) else 0
        return table + offset if offset else 0

    root = number(0, 4)
    header = field(root, 2)
    if message.type not in ("schema", "record batch") or not header:
        raise ValueError(f"it has a message of type {message.type}")
    compressed = message.type == "record batch" and field(header + number(header, 4), 3)
    if compressed or field(root, 4):
        raise ValueError("it is compressed; tables in a saved agent never are")


def _complete(table: pa.Table, seeds: Sequence[int]) -> pa.Table:
    """Validates a table, and adds the column `run` if it has none."""
    # When it reads, Arrow does not check the lengths that a file states.
    table.validate(full=True)
    if "run" in table.column_names:
        return table
    # Tables of format 1 identify runs by their seeds, which were all different.
    places = {seed: place for place, seed in enumerate(seeds)}
    try:
        runs = [places[seed] for seed in table["seed"].to_pylist()]
    except KeyError as error:
        raise ValueError(f"it has seed {error}, which no run has") from error
    return table.add_column(0, EPISODES.field("run"), pa.array(np.asarray(runs, np.int32)))
