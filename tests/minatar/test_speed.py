"""The speed benchmark runs, also where the original is not installed."""

import sys

import pytest

from benchmarks import minatar_speed


def run(monkeypatch, capsys, *options: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["minatar_speed", *options])
    minatar_speed.main()
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("installed", [True, False])
def test_table(installed, monkeypatch, capsys):
    if not installed:
        monkeypatch.setattr(minatar_speed.importlib.util, "find_spec", lambda name: None)
    copies = "2" if installed else "1"
    options = ["--games", "Breakout", "--copies", copies, "--total", "2000", "--repeats", "1"]
    _, _, row = run(monkeypatch, capsys, *options)
    game, count, steps_per_second, *_, ratio = row.split()
    assert (game, count) == ("Breakout", copies)
    assert float(steps_per_second.replace(",", "")) > 0
    assert float(ratio.rstrip("x")) > 0 if installed else ratio == "-"


def test_bad_options_are_named(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, "--copies", "0")
    assert "--copies and --repeats start at 1" in capsys.readouterr().err
