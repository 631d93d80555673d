"""`eligrad runs`: list, show, compare and remove the runs of a folder. Does not import JAX."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

from eligrad._base.files import locked
from eligrad._base.text import in_columns, printable, rounded
from eligrad.cli import messages
from eligrad.runs.plan import read_config
from eligrad.runs.records import Record, read_folder, scan


def main(arguments: list[str]) -> int:
    """Does what the first argument says; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="eligrad runs", description="List, show, compare and remove runs."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    ls = commands.add_parser("ls", help="list the runs of a store or of any folder of runs")
    ls.add_argument("store", type=Path, nargs="?", default=Path("runs"), help="default: runs")
    show = commands.add_parser("show", help="show one run: settings, scores, where it was trained")
    show.add_argument("run", type=Path, help="a run folder, or one run of it: FOLDER#2")
    diff = commands.add_parser("diff", help="show in what two runs differ")
    diff.add_argument("first", type=Path, help="a run folder, or one run of it: FOLDER#2")
    diff.add_argument("second", type=Path, help="another run folder")
    rm = commands.add_parser("rm", help="remove run folders; a sweep trains them again")
    rm.add_argument("runs", type=Path, nargs="+", help="run folders; of a link, only the link")
    rm.add_argument("--yes", action="store_true", help="do not ask first")
    given = parser.parse_args(arguments)
    return messages.run("runs", lambda: _COMMANDS[given.command](given))


def _ls(given: argparse.Namespace) -> int:
    records = scan(given.store)
    rows = [("run", "agent", "env", "seed", "step", "state", "last 10 %", "area")]
    rows += [tuple(map(printable, _line(record))) for record in records]
    print("\n".join(in_columns(rows)))
    finished = sum(record.finished for record in records)
    failed = len(list((given.store / "failures").glob("*.json")))
    under_way = len(list((given.store / "jobs").glob("*/job.json")))
    print(f"\n{len(records)} runs, {finished} finished", end="")
    print(
        f"; {under_way} jobs running or not started, {failed} failed" if under_way + failed else ""
    )
    return 0


def _line(record: Record) -> tuple[str, ...]:
    summary = record.summary or {}
    diverged = summary.get("diverged_step")
    state = "finished" if record.finished else "unfinished"
    return (
        record.run,
        record.configuration.agent or "by hand",
        record.configuration.env or "by hand",
        str(record.seed),
        f"{record.step:,}",
        state if diverged is None else f"diverged at {diverged:,}",
        rounded(summary.get("return_last")),
        rounded(summary.get("return_area")),
    )


def _show(given: argparse.Namespace) -> int:
    contents = [_content(record) for record in _of_folder(given.run)]
    shown = contents[0] if len(contents) == 1 else contents
    # With \u escapes: what would move a terminal's cursor is in the text, not in the terminal.
    print(json.dumps(shown, indent=2))
    return 0


def _content(record: Record) -> dict[str, Any]:
    return {
        "hash": record.config_hash,
        **dataclasses.asdict(record.configuration),
        "seed": record.seed,
        "step": record.step,
        "finished": record.finished,
        "summary": record.summary,
        "sessions": record.sessions,
    }


def _diff(given: argparse.Namespace) -> int:
    first, second = (_flat(_content(_of_folder(each)[0])) for each in (given.first, given.second))
    for name in dict.fromkeys([*first, *second]):
        here, there = (each.get(name, "(none)") for each in (first, second))
        if here != there:
            print(printable(f"{name}: {here} | {there}"))
    return 0


def _flat(content: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(content, list):
        content = {str(index): item for index, item in enumerate(content)}
    if not isinstance(content, dict):
        return {prefix: content}
    flat: dict[str, Any] = {}
    for name, item in content.items():
        flat |= _flat(item, f"{prefix}.{name}" if prefix else name)
    return flat


def _rm(given: argparse.Namespace) -> int:
    for run in given.runs:
        read_config(run)
    if not given.yes:
        names = printable(", ".join(str(run) for run in given.runs))
        try:
            answer = input(f"remove {names}? [y/N] ")
        except EOFError:  # nobody there to answer
            answer = ""
            print("no answer; --yes removes without asking")
        if answer.strip().lower() not in ("y", "yes"):
            print("nothing removed")
            return 1
    for run in given.runs:
        _remove(run.absolute())
        print(f"removed {printable(str(run))}")
    return 0


def _remove(run: Path) -> None:
    """Removes a run folder that no process trains; of a link to one, only the link."""
    with locked(run) as alone:
        if not alone:
            raise OSError(f"{run} is being trained by another process; stop it first")
    if run.is_symlink():
        run.unlink()
        return
    # Renamed first: readers see all of it or nothing, whatever happens while it is removed.
    leaving = run.rename(run.with_name(f".{run.name}.{os.getpid()}.removed"))
    shutil.rmtree(leaving)


def _of_folder(path: Path) -> list[Record]:
    """The runs of a folder; for FOLDER#2, as `ls` names it, the third of them."""
    name, mark, index = path.name.rpartition("#")
    if mark and index.isdecimal() and not path.exists():
        records = _of_folder(path.with_name(name))
        if int(index) < len(records):
            return [records[int(index)]]
    return read_folder(path, path)


_COMMANDS = {"ls": _ls, "show": _show, "diff": _diff, "rm": _rm}
