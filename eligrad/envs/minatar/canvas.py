"""Pictures of boards, drawn entry by entry.

An observation is made by comparing each of its entries with a few flat indices, in one loop that
XLA vectorises. Stacking one board per channel instead costs more than all the rest of a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Int

SIZE = 10
"""Boards are SIZE × SIZE."""


class Canvas:
    """The entries of an observation: their rows, columns and channels."""

    def __init__(self, channels: int) -> None:
        shape = (SIZE, SIZE, channels)
        self.channels = channels
        self.entry = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        self.row, self.column, self.channel = np.indices(shape, dtype=np.int32, sparse=True)

    def index(self, channel: Any, row: Any, column: Any) -> Any:
        """The flat index of an entry; it is off the canvas where the row is."""
        return (row * SIZE + column) * self.channels + channel

    def pixel(
        self, channel: int, row: Int[Array, ""] | int, column: Int[Array, ""] | int
    ) -> Bool[Array, "10 10 channels"]:
        """A picture of one thing; empty where its row is off the board."""
        return self.index(channel, row, column) == self.entry
