"""`eligrad compare` on two folders of runs."""

from __future__ import annotations

from eligrad import cli_compare
from eligrad.train import train


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
