"""What is written down of a run: a table of episodes and a table of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eligrad.train.stream import StepRecord

DIVERGED = 1e6
"""A run has diverged at its first TD error beyond this, or that is no number. Rewards are scaled to
unit variance, so errors of a sound run are of order 1. Parameters that are no numbers show here in
the same step: every action value is one no longer."""

EPISODES = pa.schema(
    [("seed", pa.int64()), ("step", pa.int64()), ("return", pa.float32()), ("length", pa.int32())]
)
"""`step` is the one that ended the episode."""

CHUNKS = pa.schema(
    [
        ("seed", pa.int64()),
        ("step", pa.int64()),
        ("mean_abs_td_error", pa.float32()),
        ("max_abs_td_error", pa.float32()),
        ("epsilon", pa.float32()),
        ("seconds", pa.float64()),
        ("steps_per_second", pa.float64()),
        ("diverged_step", pa.int64()),
    ]
)
"""`step` is the chunk's last; `seconds` is its wall-clock time, `steps_per_second` counts the steps
of all runs together; `diverged_step` is the chunk's first step of divergence, or null."""


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
        return cls(*(pa.concat_tables(each).combine_chunks() for each in (episodes, chunks)))


def tables_of_chunk(
    record: StepRecord, seeds: Sequence[int], begun_at: int, epsilon: float, seconds: float
) -> Tables:
    """The rows of one chunk: records of shape [runs, steps] that follow step `begun_at`."""
    seed = np.asarray(seeds, np.int64)
    ended, returns, lengths, td_error = (np.asarray(field) for field in record)
    runs, steps = ended.shape
    which, at = np.nonzero(ended)
    episodes = [seed[which], begun_at + 1 + at, returns[which, at], lengths[which, at]]

    size = np.abs(td_error.astype(np.float64))
    wild = ~(size <= DIVERGED)
    first = begun_at + 1 + np.argmax(wild, axis=1)
    with np.errstate(over="ignore"):
        means, largest = size.mean(axis=1).astype(np.float32), size.max(axis=1).astype(np.float32)
    chunks = [
        seed,
        np.full(runs, begun_at + steps),
        means,
        largest,
        np.full(runs, epsilon),
        np.full(runs, seconds),
        np.full(runs, runs * steps / seconds),
        pa.array(first, pa.int64(), mask=~wild.any(axis=1)),
    ]
    return Tables(_table(episodes, EPISODES), _table(chunks, CHUNKS))


def _table(columns: Sequence[np.ndarray | pa.Array], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
