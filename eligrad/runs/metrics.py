"""What is written down of a run: a table of episodes and a table of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

DIVERGED = 1e6
"""A run has diverged at its first TD error beyond this, or that is no number. Rewards are scaled to
unit variance, so errors of a sound run are of order 1. Parameters that are no numbers show here in
the same step: every action value is one no longer."""


@runtime_checkable
class EpisodeRecord(Protocol):
    """What every engine records of each step, [runs, steps]."""

    @property
    def ended(self) -> Any:
        """Whether the step ended an episode."""
        ...

    @property
    def episode_return(self) -> Any:
        """The sum of the episode's raw rewards so far."""
        ...

    @property
    def episode_length(self) -> Any:
        """Its steps so far."""
        ...


EPISODES = pa.schema(
    [
        ("run", pa.int32()),
        ("seed", pa.int64()),
        ("step", pa.int64()),
        ("return", pa.float32()),
        ("length", pa.int32()),
    ]
)
"""`run` is the place of the run among those trained together; `step` ended the episode."""

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
"""`step` is the chunk's last; `seconds` is its wall-clock time, `steps_per_second` counts the steps
of all runs together; `diverged_step` is the chunk's first step of divergence, or null. A column for
each diagnostic of the engine follows."""


class Measured(NamedTuple):
    """What an engine says of a chunk beside its episodes."""

    diagnostics: dict[str, np.ndarray]
    """Numbers by name, one for each run."""
    diverged: np.ndarray
    """Whether each step of each run showed divergence, [runs, steps]."""
    headline: str
    """For the progress bar."""


class Tables(NamedTuple):
    """Both tables, for some stretch of steps."""

    episodes: pa.Table
    chunks: pa.Table

    @classmethod
    def join(cls, stretches: Iterable[Tables]) -> Tables:
        """Stretches that follow each other as one; of none, tables without rows."""
        episodes, chunks = [EPISODES.empty_table()], [CHUNKS.empty_table()]
        for stretch in stretches:
            episodes.append(stretch.episodes)
            chunks.append(stretch.chunks)
        return cls(concatenate(episodes), concatenate(chunks))


def concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables; a column that one of them lacks is null there."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def tables_of_chunk(
    record: EpisodeRecord, measured: Measured, seeds: Sequence[int], begun_at: int, seconds: float
) -> Tables:
    """The rows of one chunk: records of shape [runs, steps] that follow step `begun_at`."""
    seed = np.asarray(seeds, np.int64)
    ended = np.asarray(record.ended)
    returns, lengths = np.asarray(record.episode_return), np.asarray(record.episode_length)
    runs, steps = ended.shape
    which, at = np.nonzero(ended)
    episodes = [which, seed[which], begun_at + 1 + at, returns[which, at], lengths[which, at]]
    first = begun_at + 1 + np.argmax(measured.diverged, axis=1)
    chunks = [
        np.arange(runs),
        seed,
        np.full(runs, begun_at + steps),
        np.full(runs, seconds),
        np.full(runs, runs * steps / seconds),
        pa.array(first, pa.int64(), mask=~measured.diverged.any(axis=1)),
    ]
    table = _table(chunks, CHUNKS)
    for name, values in measured.diagnostics.items():
        table = table.append_column(name, pa.array(np.asarray(values, np.float32)))
    return Tables(_table(episodes, EPISODES), table)


def _table(columns: Sequence[np.ndarray | pa.Array], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
