"""Reads run folders without JAX, pandas or Parquet: one small record for each run.

All content of files is checked first, so that one bad run does not stop a list or report of others.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import read_json
from eligrad._base.text import printable
from eligrad.runs.checkpoint import newest_step
from eligrad.runs.configuration import Configuration, Run, fingerprint
from eligrad.runs.plan import read_config

RUNS, JOBS, FAILURES = "runs", "jobs", "failures"
"""Folders of a store: of finished runs, of what is being trained, of what went wrong."""
STAGE_ONE, STAGE_TWO, CHOICE = "stage-1", "stage-2", "choice.json"
"""Of the two-stage protocol: the folder of the runs that configurations are chosen by, that of the
runs that are reported, and the file beside both that says what was chosen."""

_NUMBER = int | float | None
_PLAN = {
    "agent": str | None, "settings": dict, "env": str | None, "max_episode_steps": int | None,
    "env_params": dict, "seeds": list, "steps": int,
}  # fmt: skip
_SESSION = {
    "started": str, "versions": dict, "machine": str | None, "device": str | None,
    "git_commit": str | None,
}  # fmt: skip
_SUMMARY = {
    "steps": int, "finished": bool, "seeds": list, "seconds": _NUMBER, "steps_per_second": _NUMBER,
}  # fmt: skip
_OUTCOME = {
    "return_last": _NUMBER, "return_all": _NUMBER, "return_area": _NUMBER,
    "diverged_step": int | None,
}  # fmt: skip
DAMAGE = (
    OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError,
    RecursionError,
)  # fmt: skip
"""Errors of reading files that are not valid."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One run: a configuration and a seed, and how far it came."""

    run: str
    """The folder, relative to the one asked for; with `#2` where it is the third run in it."""
    folder: Path
    index: int
    """Which of the folder's runs."""
    configuration: Configuration
    seed: int
    step: int
    finished: bool
    summary: dict[str, Any] | None
    """The scores of this run in `summary.json`; None before it is written."""
    sessions: list[dict[str, Any]]
    """When, where and with which versions it was trained."""

    @property
    def config_hash(self) -> str:
        """The hash of the configuration; where its agent or environment is a custom one, also of
        the folder, since nothing else tells two of those apart."""
        configuration = self.configuration
        if None in (configuration.agent, configuration.env):
            return fingerprint([configuration.hash, str(self.folder)])
        return configuration.hash


def scan(path: str | Path) -> list[Record]:
    """All runs of a store, or of any folder of run folders, or of one run folder.

    Programs that are being trained (`jobs/`) are left out. A folder that cannot be read is named in
    a warning, and left out too.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    records: list[Record] = []
    for folder in _run_folders(path, set()):
        try:
            records.extend(read_folder(folder, path))
        except DAMAGE as error:
            warnings.warn(
                printable(f"the run {folder} cannot be read and is left out: {error}"),
                DamagedFileWarning,
                stacklevel=2,
            )
    return records


def scan_reported(path: str | Path) -> list[Record]:
    """As `scan`, without runs that only served to choose a configuration.

    Those of stage 1 are left out where the same store has runs of stage 2: their scores are partly
    luck. STORE/stage-1 by itself gives them. Of stage 2 those of the last choice are kept: an
    earlier one, of another spec, may have chosen another configuration.
    """
    records = scan(path)
    stores = {_store_of(record, STAGE_TWO, path) for record in records}
    second: dict[Path | None, list[str] | None] = {s: _chosen(s) for s in stores if s is not None}

    def is_reported(record: Record) -> bool:
        chosen = second.get(_store_of(record, STAGE_TWO, path))
        mine = chosen is None or Run(record.configuration, record.seed).name in chosen
        return mine and _store_of(record, STAGE_ONE, path) not in second

    return [record for record in records if is_reported(record)]


def _chosen(store: Path) -> list[str] | None:
    """The names of the runs of stage 2, if the choice says so."""
    try:
        return list(map(str, read_json(store / CHOICE)["runs"]))
    except DAMAGE:
        return None


def _store_of(record: Record, stage: str, base: str | Path) -> Path | None:
    """The two-stage store that has the run in this stage, or None."""
    parts = Path(record.run).parts
    if stage not in parts:
        return None
    store = Path(base, *parts[: parts.index(stage)])
    return store if (store / CHOICE).is_file() else None


def _run_folders(path: Path, seen: set[str]) -> Iterator[Path]:
    # Links may lead to another disk, and in a circle.
    if (real := os.path.realpath(path)) in seen:
        return
    seen.add(real)
    if (path / "config.json").is_file():
        yield path
        return
    with os.scandir(path) as entries:
        below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=True))
    for name in below:
        if not name.startswith(".") and name not in (JOBS, FAILURES) and ".damaged" not in name:
            yield from _run_folders(path / name, seen)


def read_folder(folder: Path, base: Path) -> list[Record]:
    """The runs of one run folder; `base` is what their names are relative to."""
    where = folder.relative_to(base).as_posix()
    _expect_text("the name of the folder", where)
    config = read_config(folder)
    plan, sessions = config["plan"], config.get("sessions", [])
    try:
        _check_plan(plan)
        _check_sessions(sessions)
    except DAMAGE as error:
        raise DamagedFileError(f"{folder / 'config.json'} is not valid: {error}") from error
    count = len(plan["seeds"])
    try:
        summary = read_summary(folder)
        if len(summary["seeds"]) != count:
            raise DamagedFileError(f"{folder / 'summary.json'} is not of {count} seeds")
    except FileNotFoundError:
        summary = None
    step = newest_step(folder) if summary is None else summary["steps"]
    return [
        Record(
            run=where if count == 1 else f"{where}#{index}",
            folder=folder,
            index=index,
            configuration=Configuration.of_plan(plan, index),
            seed=seed,
            step=step,
            # A summary may be older than the plan: that of a run which is being trained further.
            finished=bool(summary and summary["finished"] and summary["steps"] >= plan["steps"]),
            summary=None if summary is None else summary_of_run(summary, index),
            sessions=sessions,
        )
        for index, seed in enumerate(plan["seeds"])
    ]


def read_summary(folder: Path) -> dict[str, Any]:
    """Returns the content of `summary.json`; raises `DamagedFileError` if it is not valid."""
    path = folder / "summary.json"
    summary = read_json(path)
    try:
        _expect_plain("summary.json", summary)
        _expect(summary, _SUMMARY)
        for each in summary["seeds"]:
            _expect(each, {name: kinds for name, kinds in _OUTCOME.items() if name in each})
    except DAMAGE as error:
        raise DamagedFileError(f"{path} is not valid: {error}") from error
    return summary


def summary_of_run(summary: dict[str, Any], index: int) -> dict[str, Any]:
    """Returns scores, time and speed of one run from the summary of its folder."""
    rate, seeds = summary["steps_per_second"], summary["seeds"]
    # The runs of a folder take their steps together.
    own = rate if rate is None else rate / len(seeds)
    return {"seconds": summary["seconds"], "steps_per_second": own} | seeds[index]


def _check_plan(plan: dict[str, Any]) -> None:
    _expect_plain("plan", plan)
    _expect(plan, _PLAN)
    seeds = dict(enumerate(plan["seeds"]))
    _expect(seeds, dict.fromkeys(seeds, int))
    info = dict(enumerate(plan.get("info", [])))
    _expect({"info": plan.get("info", [])} | info, {"info": list} | dict.fromkeys(info, str))
    if not seeds or plan["steps"] < 1:
        raise ValueError(f"seeds are {plan['seeds']!r:.80} and steps {plan['steps']}")
    for name, value in plan["settings"].items():
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str | _NUMBER) for each in entries):
            raise ValueError(f"the setting {name} is {value!r:.80}")


def _check_sessions(sessions: Any) -> None:
    _expect_plain("sessions", sessions)
    _expect({"sessions": sessions}, {"sessions": list})
    for session in sessions:
        _expect(session, {name: kinds for name, kinds in _SESSION.items() if name in session})


def _expect(content: Mapping[Any, Any], kinds: Mapping[Any, Any]) -> None:
    """Raises ValueError for values of other types, which readers of runs rely on."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{content!r:.80} is not an object with names and values")
    for name, kind in kinds.items():
        value = content[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} is {value!r:.80}")


def _expect_plain(name: str, value: Any) -> None:
    """Raises ValueError for values that tables and pages cannot show."""
    if isinstance(value, str):
        _expect_text(name, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is {value}")
    elif isinstance(value, int) and abs(value) >= 2**63:  # tables hold 64 bits
        raise ValueError(f"{name} is {value!r:.80}")
    elif isinstance(value, dict):
        for key, each in value.items():
            _expect_text("a name", key)
            _expect_plain(key, each)
    elif isinstance(value, list):
        for each in value:
            _expect_plain(name, each)


def _expect_text(name: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is {text!r:.80}, which is not text") from error
