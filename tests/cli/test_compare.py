"""`eligrad compare` on two folders of runs."""

from __future__ import annotations

import pandas as pd
import pytest

from eligrad.cli import compare as cli_compare
from eligrad.training import train
from tests.analysis.tables import runs_of


@pytest.mark.usefixtures("quick_compilation")
def test_says_what_can_be_claimed(tmp_path, capsys):
    for name, step_size in (("a", 1e-4), ("b", 1e-3)):
        out = tmp_path / name
        train("qrc", "Probe/Trace-v0", steps=60, seeds=3, step_size=step_size, out=out)
    assert cli_compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    told = capsys.readouterr().out
    assert "Probe/Trace-v0" in told
    assert "3" in told


def test_says_what_is_wrong(tmp_path, capsys):
    assert cli_compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a" in capsys.readouterr().err


def test_a_sweep_has_more_than_one_configuration(tmp_path, capsys, monkeypatch):
    runs = runs_of("qrc", {"A": [1.0, 2.0]}, **{"lam": 0.5})
    several = pd.concat([runs, runs_of("qrc", {"A": [1.0, 2.0]}, **{"lam": 0.9})])
    monkeypatch.setattr(cli_compare, "load_runs", lambda path: several)
    assert cli_compare.main([str(tmp_path), str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "has 2 configurations on A; a folder with the runs of one is accepted" in told
    assert "runs[" not in told
