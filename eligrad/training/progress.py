"""The progress bar: steps, steps per second, time left, mean return, metrics of the agent."""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from tqdm import tqdm

from eligrad.runs.metrics import Tables

RECENT = 20
"""Episodes for each run that the mean return shown is taken over."""


class _Bar(tqdm):
    """A bar whose times do not follow the time of day, which may be set meanwhile."""

    def __init__(self, **options: Any) -> None:
        self.began = time.perf_counter()
        super().__init__(**options)

    @property
    def format_dict(self) -> dict[str, Any]:
        """What the bar shows; without a rate, tqdm takes the mean of the time elapsed."""
        elapsed = time.perf_counter() - self.began
        return {**super().format_dict, "elapsed": elapsed, "rate": None}


class Progress:
    """A bar over the steps of a run; nothing at all with `show=False`."""

    def __init__(self, title: str, runs: int, steps: int, start_step: int, show: bool) -> None:
        self._title = title if runs == 1 else f"{title} × {runs}"
        self._returns: collections.deque[float] = collections.deque(maxlen=RECENT * runs)
        self._bar = _Bar(
            desc=f"{self._title}: compiling",
            total=steps,
            initial=start_step,
            unit="step",
            unit_scale=True,
            dynamic_ncols=True,
            disable=not show,
            # A log file keeps every line that a terminal would overwrite.
            mininterval=0.2 if sys.stderr.isatty() else 10.0,
        )
        self._compiled = False

    def advance(self, steps: int, tables: Tables, metrics: Mapping[str, float]) -> None:
        """Shows that a chunk of this many steps is done."""
        if not self._compiled:
            self._compiled = True
            # Compiling counts neither in the speed nor in the time left.
            self._bar.began, self._bar.initial = time.perf_counter(), self._bar.n + steps
            self._bar.set_description(self._title, refresh=False)
        self._returns.extend(tables.episodes["return"].to_numpy())
        mean = f"{np.mean(self._returns):.4g}" if self._returns else "–"
        shown = (f"{name.replace('_', ' ')} {value:.3g}" for name, value in metrics.items())
        self._bar.set_postfix_str(", ".join([f"return {mean}", *shown]), refresh=False)
        self._bar.update(steps)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
