"""`eligrad watch`: live view of a running training in the terminal. It only reads files."""

from __future__ import annotations

import dataclasses
import datetime
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from eligrad._base.errors import DamagedFileError
from eligrad._base.text import printable
from eligrad.cli import messages
from eligrad.runs.plan import Plan, read_config
from eligrad.runs.returns import align, even_grid, final, mean_and_error

if TYPE_CHECKING:
    from eligrad.runs.folder import RunFolder
    from eligrad.runs.metrics import Tables

RECENT = 20
"""Chunks over which the speed is measured."""
WIDEST, ROWS = 72, 9
"""Columns and rows of the curve, where the terminal has room for them."""


@dataclasses.dataclass(frozen=True)
class Watch:
    """Live view of a running training: progress, learning curve, metrics, divergence.

    A run writes its metrics at checkpoints only, by default twenty times (--checkpoint-every of
    `eligrad train`). The view ends with the run, or by Ctrl-C, which does not affect the run.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    once: bool = False
    """Print the current state once and end; the default if the output is not a terminal."""
    every: float = 2.0
    """Seconds between two updates of the view."""


def main(arguments: list[str]) -> int:
    """Shows what the arguments ask for; returns the exit code."""
    command = tyro.cli(Watch, prog="eligrad watch", args=arguments)
    try:
        return messages.run("watch", lambda: _watch(command))
    except KeyboardInterrupt:
        return 0


def _watch(command: Watch) -> int:
    if not command.every > 0:
        raise ValueError(f"--every is {command.every}; a number above 0 is accepted")
    read_config(command.run)
    live = sys.stdout.isatty() and not command.once
    view, drawn, complaint = None, 0, ""
    while True:
        # Files are replaced meanwhile: the next update finds what this one missed.
        try:
            view = read(command.run)
        except (OSError, ValueError) as error:
            if view is None and not live:
                raise
            if view is None and complaint != str(error):
                complaint = str(error)
                print(f"eligrad watch: {printable(complaint)}; waiting", file=sys.stderr)
            if not command.run.is_dir():
                print(f"{printable(str(command.run))} was removed")
                return 0
        if view is not None:
            size = shutil.get_terminal_size()
            lines = describe(view, time.time(), max(20, size.columns - 1), size.lines - 2)
            if drawn:
                sys.stdout.write(f"\x1b[{drawn}F\x1b[J")
            print("\n".join(lines), flush=True)
            drawn = len(lines)
            if not live or view.ended:
                return 0
        time.sleep(command.every)


@dataclasses.dataclass(frozen=True)
class View:
    """The state of a run, read from its files."""

    plan: Plan
    tables: Tables
    step: int
    """The last step with metrics."""
    written: float | None
    """When they were written, in seconds since the epoch; None if there are none yet."""
    state: str
    """training, finished or stopped, as far as files show it."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state != "training"


def read(run: Path) -> View:
    """The present state of a run folder; OSError or ValueError if a file is just being replaced."""
    from eligrad.runs.folder import RunFolder

    folder = RunFolder(run)
    try:
        # As the file has it: the agent may be registered in the process that trains it only.
        plan = Plan(**folder.config["plan"])
    except TypeError as error:
        raise DamagedFileError(f"{run / 'config.json'} is not valid: {error}") from error
    # A run writes episodes before the chunk that they belong to. So all episodes up to the last
    # chunk that is there now can be read, however long it takes; later ones are for the next view.
    parts = folder.parts("chunks")
    tables = folder.tables(until=int(parts[-1].stem) if parts else 0)
    step = int(np.max(np.asarray(tables.chunks["step"]), initial=0))
    written = parts[-1].stat().st_mtime if parts else None
    return View(plan, tables, step, written, _state(folder, plan))


def _state(folder: RunFolder, plan: Plan) -> str:
    try:
        summary = folder.summary
    except FileNotFoundError:
        return "training"
    if summary["finished"] and summary["steps"] >= plan.steps:
        return "finished"
    # Resuming a run begins with writing its config.
    config, written = (folder.path / name for name in ("config.json", "summary.json"))
    return "training" if config.stat().st_mtime > written.stat().st_mtime else "stopped"


def describe(view: View, now: float, columns: int, rows: int) -> list[str]:
    """Returns the view as lines of at most `columns` characters; the curve fills the rest."""
    from eligrad.agents.registry import title_of

    plan, count = view.plan, len(view.plan.seeds)
    head = f"{title_of(plan.agent)} on {plan.env or 'a custom environment'}"
    head += f", {count} seeds" if count > 1 else f", seed {plan.seeds[0]}"
    above = [f"{head}: {view.state}", *_progress(view, now, columns), "", _heading(view)]
    below = ["", _metrics(view), _divergence(view)]
    above, below = (
        [part for line in lines for part in _wrapped(line, columns)] for lines in (above, below)
    )
    room = max(3, min(ROWS, rows - len(above) - len(below) - 2))
    return [*above, *_curve(view, min(columns, WIDEST), room), *below]


def _wrapped(line: str, columns: int) -> list[str]:
    return textwrap.wrap(printable(line), columns, subsequent_indent="  ") or [""]


def _progress(view: View, now: float, columns: int) -> list[str]:
    plan, chunks = view.plan, view.tables.chunks
    share = view.step / plan.steps
    width = max(10, min(40, columns - 44))
    full = int(share * width)
    bar = "█" * full + "░" * (width - full)
    lines = [f"{bar} {100 * share:3.0f} %  step {view.step:,} of {plan.steps:,}"]
    if view.written is None:
        first = f"metrics come with the first checkpoint, at step {plan.checkpoint_every:,}"
        return [*lines, first]
    first = np.asarray(chunks["run"]) == 0
    seconds, rates = (np.asarray(chunks[name])[first] for name in ("seconds", "steps_per_second"))
    # The first chunk is mostly compiling.
    recent = slice(max(1, len(rates) - RECENT) if len(rates) > 1 else 0, None)
    rate = float(np.average(rates[recent], weights=seconds[recent]))
    age = max(0.0, now - view.written)
    line = f"{rate:,.0f} steps/s, all seeds together; {_span(seconds.sum())} of training"
    clock = datetime.datetime.fromtimestamp(view.written).strftime("%H:%M:%S")
    last = f"last write: {clock}, {_span(age)} ago"
    if not view.ended:
        apart = plan.checkpoint_every * len(plan.seeds) / rate
        left = (plan.steps - view.step) * len(plan.seeds) / rate - age
        line += f", about {_span(max(0.0, left))} left"
        last += f" (every {plan.checkpoint_every:,} steps, about {_span(apart)} apart)"
        if age > 3 * apart + 60:
            last += "; has it stopped?"
    return [*lines, line, last]


def _heading(view: View) -> str:
    """What the curve shows, and where it is now."""
    if not len(view.tables.episodes):
        return "no episode has ended yet"
    several = len(view.plan.seeds) > 1
    ends = [final(step, returns, view.step) for step, returns in _episodes(view)]
    last, spread = _over_seeds(np.array(ends)[:, None])
    error = f" ± {spread[0]:.4g}" if several and np.isfinite(spread[0]) else ""
    now = f"{last[0]:.4g}{error}" if np.isfinite(last[0]) else "none"
    about = "● mean, ░ standard error over seeds" if several else "● mean"
    return f"episode return {now} in the last tenth ({about})"


def _episodes(view: View) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each seed the steps that ended its episodes, and their returns."""
    run, step, returns = (
        np.asarray(view.tables.episodes[name]) for name in ("run", "step", "return")
    )
    for place in range(len(view.plan.seeds)):
        mine = run == place
        yield step[mine], returns[mine]


def _curve(view: View, columns: int, rows: int) -> list[str]:
    """Mean return over the steps as dots, the standard error over seeds as a band."""
    if not len(view.tables.episodes):
        return []
    steps, margin = view.plan.steps, 10
    grid = even_grid(steps, columns - margin)
    each = [align(step, returns, grid, view.step) for step, returns in _episodes(view)]
    mean, error = _over_seeds(np.stack(each))
    low, high = mean - error, mean + error
    known = np.isfinite(low) & np.isfinite(high)
    bottom, top = (low[known].min(), high[known].max()) if known.any() else (0.0, 1.0)
    if not top > bottom:
        bottom, top = bottom - 1.0, top + 1.0
    canvas = np.full((rows, len(grid)), " ")

    def row(number: float) -> int:
        return round((top - number) / (top - bottom) * (rows - 1))

    for x in np.flatnonzero(known):
        canvas[row(high[x]) : row(low[x]) + 1, x] = "░"
        canvas[row(mean[x]), x] = "●"
    labels = {0: top, rows // 2: top - (top - bottom) * (rows // 2) / (rows - 1), rows - 1: bottom}
    ticks = [f"{labels[y]:>8.4g} ┤" if y in labels else f"{'':>8} │" for y in range(rows)]
    end = f"{steps:,} steps"
    return [
        *(tick + "".join(line) for tick, line in zip(ticks, canvas, strict=True)),
        f"{'':>8} └" + "─" * len(grid),
        f"{'':>{margin}}0{end:>{max(len(end), len(grid) - 1)}}"[:columns],
    ]


def _over_seeds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over those seeds that have a value; the error of one is 0."""
    pairs = [mean_and_error(column[np.isfinite(column)]) for column in values.T]
    mean, error = (np.array([float(pair[part]) for pair in pairs]) for part in (0, 1))
    return mean, np.where(np.isnan(error), 0.0, error)


def _metrics(view: View) -> str:
    """The newest chunk's numbers, averaged over seeds."""
    from eligrad.runs.metrics import CHUNKS

    chunks = view.tables.chunks
    newest = chunks.filter(np.asarray(chunks["step"]) == view.step)
    words = []
    for name in chunks.column_names:
        if name in CHUNKS.names:
            continue
        numbers = np.asarray(newest[name].drop_null(), np.float64)
        if numbers.size:
            words.append(f"{name.replace('_', ' ')} {_mean(numbers):.4g}")
    return ", ".join(words)


def _mean(numbers: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(numbers.mean())


def _divergence(view: View) -> str:
    chunks = view.tables.chunks
    diverged = chunks.filter(chunks["diverged_step"].is_valid())
    since: dict[int, tuple[int, int]] = {}
    for row in diverged.select(["run", "seed", "diverged_step"]).to_pylist():
        since.setdefault(row["run"], (row["seed"], row["diverged_step"]))
    if not since:
        return "no seed has diverged"
    which = ", ".join(f"seed {seed} at step {step:,}" for seed, step in since.values())
    return f"{len(since)} of {len(view.plan.seeds)} have diverged: {which}"


def _span(seconds: float) -> str:
    """A number of seconds in words."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
