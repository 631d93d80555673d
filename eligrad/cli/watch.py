"""`eligrad watch`: a view in the terminal of a run that another process trains. It only reads."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from eligrad.agents import TITLES
from eligrad.runs.config import Plan, plan_in_file
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import CHUNKS, Tables
from eligrad.runs.returns import align, even_grid, final, mean_and_error

RECENT = 20
"""Chunks that the speed is taken over."""
WIDEST, ROWS = 72, 9
"""Columns and rows of the curve, where the terminal has room for them."""


@dataclasses.dataclass(frozen=True)
class Watch:
    """Live view of a running training: progress, learning curve, metrics, divergence.

    Metrics are written at checkpoints only, a twentieth of the steps apart, unless the run was
    begun with another --checkpoint-every. Ends with the run, or by Ctrl-C, which the run does not
    notice.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    once: bool = False
    """Print the present state once; so it is, too, where the output is no terminal."""
    every: float = 2.0
    """Seconds between two looks."""


def main(arguments: list[str]) -> int:
    """Shows what the arguments ask for; returns the exit code."""
    command = tyro.cli(Watch, prog="eligrad watch", args=arguments)
    try:
        if not command.every > 0:
            raise ValueError(f"--every is {command.every}; a number above 0 is accepted")
        if not (command.run / "config.json").is_file():
            raise FileNotFoundError(f"{command.run} is no run: it has no config.json")
        return _watch(command)
    except (ValueError, OSError) as error:
        print(f"eligrad watch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _watch(command: Watch) -> int:
    live = sys.stdout.isatty() and not command.once
    view, drawn = None, 0
    while True:
        # Files come, go and are replaced meanwhile: the next look finds what this one missed.
        try:
            view = read(command.run)
        except (OSError, ValueError, KeyError):
            if view is None and not live:
                raise
            if not command.run.is_dir():
                print(f"{command.run} is gone")
                return 0
        if view is not None:
            size = shutil.get_terminal_size()
            lines = describe(view, time.time(), size.columns - 1, size.lines - 2)
            if drawn:
                sys.stdout.write(f"\x1b[{drawn}F\x1b[J")
            print("\n".join(lines), flush=True)
            drawn = len(lines)
            if not live or view.ended:
                return 0
        time.sleep(command.every)


@dataclasses.dataclass(frozen=True)
class View:
    """What the files of a run say at one moment."""

    plan: Plan
    tables: Tables
    step: int
    """The last step that metrics were written of."""
    written: float | None
    """When, in seconds since the epoch; None before the first time."""
    state: str
    """training, finished or stopped, as far as files can tell."""

    @property
    def ended(self) -> bool:
        """Whether nothing more is to come."""
        return self.state != "training"


def read(run: Path) -> View:
    """The present state of a run folder; OSError or ValueError where a file is just replaced."""
    folder = RunFolder(run)
    plan = plan_in_file(folder.config["plan"], run / "config.json")
    tables = folder.tables()
    step = int(np.max(np.asarray(tables.chunks["step"]), initial=0))
    parts = list((run / "metrics" / "chunks").glob("*.parquet"))
    written = max((part.stat().st_mtime for part in parts), default=None)
    return View(plan, tables, step, written, _state(run, plan))


def _state(run: Path, plan: Plan) -> str:
    summary = run / "summary.json"
    try:
        content = json.loads(summary.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "training"
    if content["finished"] and content["steps"] >= plan.steps:
        return "finished"
    # Who goes on with a run begins by writing its config.
    resumed = (run / "config.json").stat().st_mtime > summary.stat().st_mtime
    return "training" if resumed else "stopped"


def describe(view: View, now: float, columns: int, rows: int) -> list[str]:
    """The view in lines of text, no wider and, as far as the curve may shrink, no longer."""
    plan, count = view.plan, len(view.plan.seeds)
    agent = TITLES[plan.agent] if plan.agent else "an agent"
    head = f"{agent} on {plan.env or 'an environment made by hand'}"
    head += f", {count} seeds" if count > 1 else f", seed {plan.seeds[0]}"
    lines = [f"{head}: {view.state}", *_progress(view, now, columns), ""]
    below = ["", *_diagnostics(view, columns), _divergence(view)]
    room = max(3, min(ROWS, rows - len(lines) - len(below) - 4))
    lines += [*_curve(view, min(columns, WIDEST), room), *below]
    return [line[:columns] for line in lines]


def _progress(view: View, now: float, columns: int) -> list[str]:
    plan, chunks = view.plan, view.tables.chunks
    share = view.step / plan.steps
    width = max(10, min(40, columns - 44))
    full = int(share * width)
    bar = "█" * full + "░" * (width - full)
    lines = [f"{bar} {100 * share:3.0f} %  step {view.step:,} of {plan.steps:,}"]
    if view.written is None:
        begun = f"metrics come with the first checkpoint, at step {plan.checkpoint_every:,}"
        return [*lines, begun]
    first = np.asarray(chunks["run"]) == 0
    seconds, rates = (np.asarray(chunks[name])[first] for name in ("seconds", "steps_per_second"))
    # The first chunk is compiling for the most part.
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


def _curve(view: View, columns: int, rows: int) -> list[str]:
    """Mean return over the steps as dots, the standard error over seeds as a band."""
    episodes = {name: np.asarray(view.tables.episodes[name]) for name in ("run", "step", "return")}
    count, steps = len(view.plan.seeds), view.plan.steps
    if not len(episodes["run"]):
        return ["no episode has ended yet"]
    margin = 10
    grid = even_grid(steps, columns - margin)
    ends, returns = [], []
    for run in range(count):
        mine = episodes["run"] == run
        at, got = episodes["step"][mine], episodes["return"][mine]
        returns.append(align(at, got, grid, view.step))
        ends.append(final(at, got, view.step))
    mean, error = _over_seeds(np.stack(returns))
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
    last, spread = _over_seeds(np.array(ends)[:, None])
    over = f" ± {spread[0]:.4g}" if count > 1 and np.isfinite(spread[0]) else ""
    about = "mean (●) ± standard error (░) over seeds" if count > 1 else "mean (●)"
    now = f"{last[0]:.4g}{over} in the last tenth" if np.isfinite(last[0]) else "none lately"
    end = f"{steps:,} steps"
    return [
        f"return of an episode, {about}: {now}",
        *(tick + "".join(line) for tick, line in zip(ticks, canvas, strict=True)),
        f"{'':>8} └" + "─" * len(grid),
        f"{'':>{margin}}0{end:>{max(len(end), len(grid) - 1)}}",
    ]


def _over_seeds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over those seeds that have a value; the error of one is 0."""
    pairs = [mean_and_error(column[np.isfinite(column)]) for column in values.T]
    mean, error = (np.array([float(pair[part]) for pair in pairs]) for part in (0, 1))
    return mean, np.where(np.isnan(error), 0.0, error)


def _diagnostics(view: View, columns: int) -> list[str]:
    """The newest chunk's numbers, averaged over seeds, in as many lines as they need."""
    chunks = view.tables.chunks
    newest = chunks.filter(np.asarray(chunks["step"]) == view.step)
    words = []
    for name in chunks.column_names:
        if name in CHUNKS.names:
            continue
        numbers = np.asarray(newest[name].drop_null(), np.float64)
        if numbers.size:
            words.append(f"{name.replace('_', ' ')} {_mean(numbers):.4g}")
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 2 + len(word) <= columns:
            lines[-1] += f", {word}"
        else:
            lines.append(word)
    return lines


def _mean(numbers: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(numbers.mean())


def _divergence(view: View) -> str:
    chunks: Any = view.tables.chunks.select(["run", "seed", "diverged_step"]).to_pylist()
    since: dict[int, tuple[int, int]] = {}
    for row in chunks:
        if row["diverged_step"] is not None:
            since.setdefault(row["run"], (row["seed"], row["diverged_step"]))
    if not since:
        return "no seed has diverged"
    which = ", ".join(f"seed {seed} at step {step:,}" for seed, step in since.values())
    return f"{len(since)} of {len(view.plan.seeds)} have diverged: {which}"


def _span(seconds: float) -> str:
    """A length of time for people."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
