"""Run folders read as they are, quickly: no JAX, no pandas, one small record for each run."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eligrad._base.errors import DamagedFileWarning
from eligrad._base.files import read_json
from eligrad.runs.config import read_config
from eligrad.runs.configuration import Configuration

RUNS, JOBS, FAILURES = "runs", "jobs", "failures"
"""Folders of a store: of finished runs, of what is being trained, of what went wrong."""
STAGE_ONE, STAGE_TWO = "stage-1", "stage-2"
"""Folders of the two-stage protocol: of the runs that configurations are chosen by, and of those
that are reported."""

_NUMBER = int | float | None
_PLAN = {
    "agent": str | None, "settings": dict, "env": str | None, "max_episode_steps": int | None,
    "env_params": dict, "seeds": list, "steps": int,
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
"""What comes of reading files that make no sense."""


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
    """What `summary.json` says of this run; None before it is written."""
    sessions: list[dict[str, Any]]
    """When, where and with which versions it was trained."""


def scan(path: str | Path) -> list[Record]:
    """All runs of a store, or of any folder of run folders, or of one run folder.

    Programs that are being trained (`jobs/`) are left out. A folder that cannot be read is named in
    a warning, and left out too.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    records: list[Record] = []
    for folder in _run_folders(path, set()):
        try:
            records.extend(read_folder(folder, path))
        except DAMAGE as error:
            warnings.warn(
                f"{folder} is damaged and left out: {error!r}", DamagedFileWarning, stacklevel=2
            )
    return records


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
    config = read_config(folder)
    plan = config["plan"]
    _expect(plan, _PLAN)
    _expect(dict(enumerate(plan["seeds"])), dict.fromkeys(range(len(plan["seeds"])), int))
    try:
        summary = read_json(folder / "summary.json")
        _expect(summary, _SUMMARY)
    except FileNotFoundError:
        summary = None
    step = _step_reached(folder) if summary is None else summary["steps"]
    count = len(plan["seeds"])
    where = folder.relative_to(base).as_posix()
    return [
        Record(
            run=where if count == 1 else f"{where}#{index}",
            folder=folder,
            index=index,
            configuration=Configuration.of_plan(plan, index),
            seed=seed,
            step=step,
            finished=summary is not None and summary["finished"],
            summary=None if summary is None else summary_of_run(summary, index),
            sessions=config.get("sessions", []),
        )
        for index, seed in enumerate(plan["seeds"])
    ]


def summary_of_run(summary: dict[str, Any], index: int) -> dict[str, Any]:
    """What the summary of a folder says of one of its runs."""
    shared = {name: summary[name] for name in ("seconds", "steps_per_second")}
    own = summary["seeds"][index]
    _expect(own, {name: kinds for name, kinds in _OUTCOME.items() if name in own})
    return shared | own


def _expect(content: dict[Any, Any], kinds: dict[Any, Any]) -> None:
    """Refuses values that are no such things: whoever reads runs counts on them."""
    for name, kind in kinds.items():
        value = content[name]
        # Tables hold 64 bits.
        if not isinstance(value, kind) or (isinstance(value, int) and abs(value) >= 2**63):
            raise ValueError(f"{name} is {value!r:.80}")


def _step_reached(folder: Path) -> int:
    """That of the newest checkpoint."""
    names = (path.stem.rpartition("-")[2] for path in folder.glob("checkpoint-*.npz"))
    return max((int(name) for name in names), default=0)
