"""Writes the page: HTML, style, scripts and data in one file."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import json
import string
from pathlib import Path
from typing import Any

from eligrad._base.files import check_target, replacing
from eligrad._base.text import printable
from eligrad.analysis.frames import Table, require
from eligrad.analysis.load import metric_frame, run_frame
from eligrad.analysis.report.data import Configs, report_data
from eligrad.runs.records import scan_reported

SCRIPTS = ("chart.js", "curves.js", "tables.js", "page.js")


def write_report(store: str | Path, out: str | Path, title: str | None = None) -> Path:
    """Writes the report of all runs in a folder to one HTML file, and returns its path.

    A run that cannot be read is named in a warning and left out.
    """
    store, out = Path(store).expanduser(), Path(out).expanduser()
    check_target(out)
    # Read once: a run that is being trained changes.
    records = scan_reported(store)
    if not records:
        raise ValueError(f"{store} holds no runs; a folder that eligrad trained into is accepted")
    if not any(record.step for record in records):
        raise ValueError(f"{store} holds no metrics yet: no run in it has reached a checkpoint")
    episodes, records = metric_frame(records, "episodes")
    if not records:
        raise ValueError(f"{store} holds no run whose metrics can be read")
    configs = {
        record.run: {
            "configuration": dataclasses.asdict(record.configuration),
            "sessions": record.sessions,
        }
        for record in records
    }
    heading = title or printable(store.resolve().name)
    page = build_report(run_frame(records), episodes, configs, heading)
    with replacing(out) as partial:
        partial.write_text(page, encoding="utf-8")
    return out


def build_report(runs: Table, episodes: Table, configs: Configs, title: str = "Runs") -> str:
    """The report as HTML that needs no other file.

    Args:
        runs: A data frame as `load_runs` gives it.
        episodes: A data frame as `load_episodes` gives it.
        configs: For each run its "configuration" and its "sessions".
        title: The heading of the page.
    """
    require(runs, ["run", "agent", "title", "env", "seed", "steps", "config_hash"], "runs")
    style, script = _file("page.css"), "\n".join(_file(name) for name in SCRIPTS)
    return string.Template(_file("page.html")).substitute(
        title=html.escape(title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_embedded(report_data(runs, episodes, configs)),
    )


def _embedded(content: Any) -> str:
    """JSON in which nothing can end the element it stands in, or begin a comment."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")


def _hash(text: str) -> str:
    """What the page's security policy knows its own scripts and styles by: no others run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (importlib.resources.files("eligrad.analysis.report") / name).read_text(encoding="utf-8")
