"""The speed benchmark runs, also where the original is not installed."""

import functools
import sys

import pytest

from benchmarks import minatar_speed
from eligrad._base.files import read_json


def run(monkeypatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["minatar_speed", *options])
    minatar_speed.main()


@pytest.mark.parametrize("installed", [True, False])
def test_table(installed, monkeypatch, tmp_path):
    written = functools.partial(minatar_speed.record, file=tmp_path / "measured.json")
    monkeypatch.setattr(minatar_speed, "record", written)
    if not installed:
        monkeypatch.setattr(minatar_speed.importlib.util, "find_spec", lambda name: None)
    copies = "2" if installed else "1"
    run(monkeypatch, "--games", "Breakout", "--copies", copies, "--total", "2000", "--repeats", "1")
    (row,) = read_json(tmp_path / "measured.json")
    assert row["name"].startswith(f"Breakout, {copies} copies")
    assert row["value"] > 0
    assert row["unit"] == "steps/s"
    assert row["ratio"] > 0 if installed else row["ratio"] is None


def test_bad_options_are_named(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--copies", "0")
    assert "--copies and --repeats start at 1" in capsys.readouterr().err
