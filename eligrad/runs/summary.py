"""The summary of a run folder: scores of each seed, over seeds, divergence, time and speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eligrad._base.text import rounded
from eligrad.runs.metrics import EPISODES, Tables
from eligrad.runs.returns import area, final, mean, mean_and_error


def summarise(tables: Tables, seeds: Sequence[int], steps: int) -> dict[str, Any]:
    """Returns the scores of each run, and over all runs, as JSON values.

    - `return_last`: mean return of the episodes that ended in the last tenth of the steps;
    - `return_all`: mean return of all episodes;
    - `return_area`: area under the learning curve per step, each return weighted by its length;
    - `seconds`: the chunks' wall-clock time; `steps_per_second`: their median, all runs together;
    - `startup_seconds`: the part of `seconds` that the speed leaves out, mostly compiling.
    """
    episodes = {name: tables.episodes[name].to_numpy() for name in EPISODES.names}
    per_seed = [_one_run(episodes, tables, run, seed, steps) for run, seed in enumerate(seeds)]
    # The chunks' times are those of all runs together, and so the same in every run's rows.
    chunks = tables.chunks.filter(np.asarray(tables.chunks["run"]) == 0)
    seconds, rates = (chunks[name].to_numpy() for name in ("seconds", "steps_per_second"))
    training = len(seeds) * np.diff(chunks["step"].to_numpy(), prepend=0) / rates
    return {
        "steps": steps,
        "seeds": per_seed,
        "over_seeds": {
            name: _mean_and_error([row[name] for row in per_seed])
            for name in ("return_last", "return_all", "return_area")
        },
        "diverged": sum(row["diverged_step"] is not None for row in per_seed),
        "seconds": float(np.sum(seconds)),
        "steps_per_second": float(np.median(rates)) if rates.size else None,
        # Where metrics were lost a chunk seems longer than it was.
        "startup_seconds": float(np.sum(np.clip(seconds - training, 0, seconds))),
    }


def best_run(tables: Tables, seeds: Sequence[int], steps: int) -> int:
    """Returns the index of the run whose last episodes had the highest mean return."""
    rows = summarise(tables, seeds, steps)["seeds"]
    last = [-np.inf if row["return_last"] is None else row["return_last"] for row in rows]
    return int(np.argmax(last))


def _one_run(
    episodes: dict[str, np.ndarray], tables: Tables, run: int, seed: int, steps: int
) -> dict[str, Any]:
    mine = episodes["run"] == run
    at, returns, lengths = (episodes[name][mine] for name in ("step", "return", "length"))
    chunks = tables.chunks.filter(np.asarray(tables.chunks["run"]) == run)
    diverged = chunks["diverged_step"].drop_null()
    return {
        "seed": seed,
        "episodes": len(returns),
        "return_last": _known(final(at, returns, steps)),
        "return_all": _known(mean(returns)),
        "return_area": _known(area(returns, lengths)),
        "diverged_step": diverged[0].as_py() if len(diverged) else None,
    }


def _known(number: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(number) else number


def _mean_and_error(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and standard error over those seeds that have a value."""
    known = np.array([value for value in values if value is not None])
    mean, error = (_known(float(number)) for number in mean_and_error(known))
    return {"mean": mean, "standard_error": error}


def as_text(summary: dict[str, Any]) -> str:
    """The summary as a table for the terminal."""
    lines = [f"{'seed':>12}{'episodes':>12}{'last 10 %':>22}{'all':>22}{'area':>22}  outcome"]
    lines.append("-" * 98)
    for row in summary["seeds"]:
        numbers = "".join(
            f"{rounded(row[name]):>22}" for name in ("return_last", "return_all", "return_area")
        )
        since = row["diverged_step"]
        outcome = "finite" if since is None else f"diverged at step {since:,}"
        lines.append(f"{row['seed']:>12}{row['episodes']:>12,}{numbers}  {outcome}")
    over = "".join(
        f"{rounded(value['mean']) + ' ± ' + rounded(value['standard_error'], digits=3):>22}"
        for value in summary["over_seeds"].values()
    )
    lines += ["-" * 98, f"{'mean ± standard error':<24}{over}"]
    return "\n".join(lines)
