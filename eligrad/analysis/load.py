"""Loads runs as data frames: one row for each run, each episode, or each chunk of steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad.agents.registry import title_of
from eligrad.analysis.frames import COLUMNS, SETTINGS
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.configuration import ENV_PARAMS, Configuration
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import concatenate, read_parts
from eligrad.runs.records import STAGE_ONE, Record, scan_reported

_WHOLE = ("max_episode_steps", "diverged_step")
_OUTCOME = ("return_last", "return_all", "return_area", "seconds", "steps_per_second")


def load_runs(path: str | Path) -> pd.DataFrame:
    """Returns a data frame with one row for each run.

    Args:
        path: A sweep's store, a folder of run folders, or one run folder. Runs that cannot be read
            are named in a warning and left out. Of a store of `eligrad two-stage` the runs of stage
            2 are returned, on fresh seeds; `STORE/stage-1` has those that chose the configurations.

    Columns, NaN where a run does not have one:

    - `run`: the run's folder, relative to `path`; with `#1` for the second run in a folder;
    - `agent`, `title`: the agent's name, as in `"qrc"`, and as figures show it;
    - `env`, `seed`, `steps`, `max_episode_steps`: as they were given; `step`: the step reached;
    - `finished`: whether the run has reached its steps;
    - `config_hash`: equal for runs that differ in the seed alone;
    - `return_last`, `return_all`, `return_area`: mean return of the episodes in the last tenth of
      the steps, of all episodes, and the area under the learning curve per step;
    - `diverged_step`: the first step that showed divergence;
    - `seconds`: of the run folder, all its runs together; `steps_per_second`: of this run alone,
      without the time of compiling;
    - one for each setting of the agents, under its own name: `lam`, `step_size`, … A setting that
      has the name of a column above begins with `settings.`;
    - `exploration_fraction`: `exploration_steps` as a share of `steps`;
    - `env_params.NAME`: a parameter of the environment that was changed;
    - `stage`: 1, only if `path` is within the `stage-1` of a store.
    """
    runs = run_frame(scan_reported(path))
    # Scores by which a configuration was chosen are too high, whatever folder is given.
    return runs.assign(stage=1) if STAGE_ONE in Path(path).resolve().parts else runs


def run_frame(records: Sequence[Record]) -> pd.DataFrame:
    """The data frame of these runs that `load_runs` gives."""
    rows = [_row(record) for record in records]
    fixed = [name for name in COLUMNS if name not in ("stage", "label")]
    frame = pd.DataFrame(rows, columns=None if rows else fixed)
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
        **setting_values(configuration),
    }


def setting_values(configuration: Configuration) -> dict[str, Any]:
    """The settings and changed parameters of a configuration, by the column that holds each."""
    values = {
        SETTINGS + name if name in COLUMNS else name: value
        for name, value in configuration.settings.items()
    }
    explored = values.get("exploration_steps")
    if isinstance(explored, (int, float)):
        # 0.30000000000000004 was 0.3.
        values["exploration_fraction"] = round(explored / configuration.steps, 12)
    changed = configuration.env_params.items()
    return values | {ENV_PARAMS + name: value for name, value in changed}


def _about(record: Record) -> dict[str, Any]:
    configuration = record.configuration
    return {
        "agent": configuration.agent or "",
        "title": title_of(configuration.agent),
        "env": configuration.env or "",
        "seed": record.seed,
        "config_hash": record.config_hash,
    }


def load_episodes(path: str | Path) -> pd.DataFrame:
    """Returns a data frame with one row for each episode of the runs that `load_runs` finds.

    Columns: run, agent, title, env, seed, config_hash, step (the one that ended the episode),
    return, length. A run whose file is damaged is named in a warning and left out.
    """
    return metric_frame(scan_reported(path), "episodes")[0]


def load_chunks(path: str | Path) -> pd.DataFrame:
    """Returns a data frame with one row for each chunk of steps: errors, exploration, speed."""
    return metric_frame(scan_reported(path), "chunks")[0]


def metric_frame(records: Sequence[Record], name: str) -> tuple[pd.DataFrame, list[Record]]:
    """The rows of these runs in the table `name`, and those runs that could be read."""
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
        return about, kept
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
    return pd.concat([pd.DataFrame(columns), values], axis=1), kept


def _table(folder: Path, name: str, seeds: list[int]) -> pa.Table | None:
    wrong = what_is_wrong(folder, f"metrics/{name}/")
    if wrong is None:
        try:
            return read_parts(RunFolder(folder).parts(name), name, seeds)
        except (DamagedFileError, OSError) as error:
            wrong = str(error)
    warnings.warn(f"{wrong}; the run is left out", DamagedFileWarning, stacklevel=4)
    return None
