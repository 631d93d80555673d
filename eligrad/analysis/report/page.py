"""The page: shell, style, scripts and data in one file."""

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

from eligrad._base.files import replacing
from eligrad.analysis.frames import Table, require
from eligrad.analysis.load import load_episodes, load_runs
from eligrad.analysis.report.data import Configs, report_data
from eligrad.runs.records import scan

SCRIPTS = ("chart.js", "curves.js", "tables.js", "page.js")


def write_report(store: str | Path, out: str | Path, title: str | None = None) -> Path:
    """Writes the report of all runs in a folder to one HTML file, and returns its path."""
    store, out = Path(store), Path(out)
    if not out.resolve().parent.is_dir():
        raise FileNotFoundError(f"out is {out}; there is no folder {out.resolve().parent}")
    runs = load_runs(store)
    if runs.empty:
        raise ValueError(f"{store} holds no runs; a folder that eligrad trained into is accepted")
    configs = {
        record.run: {
            "configuration": dataclasses.asdict(record.configuration),
            "sessions": record.sessions,
        }
        for record in scan(store)
    }
    episodes = load_episodes(store)
    if "step" not in episodes:
        raise ValueError(f"{store} holds no metrics yet: no run in it has reached a checkpoint")
    page = build_report(runs, episodes, configs, title or store.resolve().name)
    with replacing(out) as partial:
        partial.write_text(page, encoding="utf-8")
    return out


def build_report(runs: Table, episodes: Table, configs: Configs, title: str = "Runs") -> str:
    """The report as HTML that needs nothing but itself.

    `runs` and `episodes` are tables as `load_runs` and `load_episodes` give them; `configs` has for
    each run its "configuration" and its "sessions".
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
