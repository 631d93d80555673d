"""Runs as data frames: one row for each run, each episode, or each chunk of steps."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from eligrad._damaged import DamagedFileError, DamagedFileWarning
from eligrad.agents import TITLES
from eligrad.analysis.frames import ENV_PARAMS, SETTINGS
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.metrics import concatenate
from eligrad.runs.records import Record, scan
from eligrad.runs.tables import SCHEMAS, read_part

_WHOLE = ("max_episode_steps", "diverged_step")
_OUTCOME = ("return_last", "return_all", "return_area", "seconds", "steps_per_second")


def load_runs(path: str | Path) -> pd.DataFrame:
    """One row for each run of a store, of a folder of run folders, or of one run folder.

    Columns: run, agent, title, env, seed, steps (planned), step (reached), finished, config_hash,
    max_episode_steps, diverged_step, return_last, return_all, return_area, seconds,
    steps_per_second, settings.NAME for each setting of the agents, and env_params.NAME for each
    parameter of an environment that was changed. What a run has not is missing (NaN).
    """
    rows = [_row(record) for record in scan(path)]
    leading = ["run", "agent", "title", "env", "seed", "steps", "step", "finished", "config_hash"]
    frame = pd.DataFrame(rows, columns=None if rows else [*leading, *_WHOLE, *_OUTCOME])
    return frame.astype(dict.fromkeys(_WHOLE, "Int64") | dict.fromkeys(_OUTCOME, "float64"))


def _row(record: Record) -> dict[str, Any]:
    configuration, outcome = record.configuration, record.summary or {}
    return {
        "run": record.run,
        **_about(record),
        "steps": configuration.steps,
        "step": record.step,
        "finished": record.finished,
        "max_episode_steps": configuration.max_episode_steps,
        "diverged_step": outcome.get("diverged_step"),
        **{name: outcome.get(name) for name in _OUTCOME},
        **{SETTINGS + name: value for name, value in configuration.settings.items()},
        **{ENV_PARAMS + name: value for name, value in configuration.env_params.items()},
    }


def _about(record: Record) -> dict[str, Any]:
    configuration = record.configuration
    return {
        "agent": configuration.agent or "",
        "title": TITLES.get(configuration.agent or "", "an agent"),
        "env": configuration.env or "",
        "seed": record.seed,
        "config_hash": configuration.hash,
    }


def load_episodes(path: str | Path) -> pd.DataFrame:
    """One row for each episode of the same runs: the step that ended it, its return and length.

    Columns: run, agent, title, env, seed, config_hash, step, return, length. A run whose file is
    damaged is named in a warning and left out.
    """
    return _load(path, "episodes")


def load_chunks(path: str | Path) -> pd.DataFrame:
    """One row for each chunk of steps of the same runs: errors, exploration, speed."""
    return _load(path, "chunks")


def _load(path: str | Path, name: str) -> pd.DataFrame:
    records = [record for record in scan(path) if (record.folder / "metrics" / name).is_dir()]
    seeds: dict[Path, list[int]] = {}
    for record in records:
        seeds.setdefault(record.folder, []).append(record.seed)
    tables = {folder: _table(folder, name, each) for folder, each in seeds.items()}
    kept, rows = [], []
    for record in records:
        table = tables[record.folder]
        if table is not None:
            kept.append(record)
            rows.append(table.filter(np.asarray(table["run"]) == record.index))
    about = pd.DataFrame([{"run": record.run, **_about(record)} for record in kept])
    if not rows:
        return about
    joined = concatenate(rows)
    # Categories: a name is stored once, not once for each of millions of episodes.
    repeats = [len(each) for each in rows]
    columns = {}
    for column in about:
        if column == "seed":
            columns[column] = np.repeat(about[column].to_numpy(), repeats)
        else:
            codes, names = pd.factorize(about[column])
            columns[column] = pd.Categorical.from_codes(np.repeat(codes, repeats), names)
    values = joined.drop_columns(["run", "seed"]).to_pandas()
    return pd.concat([pd.DataFrame(columns), values], axis=1)


def _table(folder: Path, name: str, seeds: list[int]) -> pa.Table | None:
    wrong = what_is_wrong(folder, f"metrics/{name}/")
    if wrong is None:
        try:
            parts = sorted((folder / "metrics" / name).glob("*.parquet"))
            tables = [read_part(part, name, seeds) for part in parts]
            return concatenate([SCHEMAS[name].empty_table(), *tables])
        except (DamagedFileError, OSError) as error:
            wrong = str(error)
    warnings.warn(f"{wrong}; the run is left out", DamagedFileWarning, stacklevel=4)
    return None
