"""`eligrad compare` on two folders of runs, and on two configurations of one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eligrad._base.errors import UnknownName
from eligrad.cli import compare as cli_compare
from eligrad.training import train
from tests.analysis.tables import runs_of


@pytest.mark.usefixtures("quickest_compilation")
def test_says_what_can_be_claimed(tmp_path, capsys):
    for name, step_size in (("a", 1e-4), ("b", 1e-3)):
        out = tmp_path / name
        train("qrc", "Probe/Trace-v0", steps=60, seeds=3, step_size=step_size, out=out)
    assert cli_compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    told = capsys.readouterr().out
    assert "QRC(λ), step size 1e-4 against QRC(λ), step size 1e-3" in told
    assert "Probe/Trace-v0, 60 steps, 3 and 3 seeds" in told
    choice = ["--a", "step_size=1e-4", "agent=qrc", "--b", "step_size=0.001"]
    assert cli_compare.main([str(tmp_path), *choice]) == 0
    assert capsys.readouterr().out == told
    assert cli_compare.main([str(tmp_path), "--b", "step_size=1e-3"]) == 2
    told = capsys.readouterr().err
    assert "2 configurations are found" in told
    assert "Choose it by --a NAME=VALUE, with step_size: 1e-4, 1e-3" in told


def test_says_what_is_wrong(tmp_path, capsys):
    assert cli_compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert f"there is no folder {tmp_path / 'a'}" in capsys.readouterr().err
    assert cli_compare.main([str(tmp_path)]) == 2
    assert "a second one is accepted, or --a and --b" in capsys.readouterr().err


@pytest.fixture
def sweep() -> pd.DataFrame:
    parts = [
        runs_of("qrc", {"A": [1.0, 2.0], "B": [3.0, 4.0]}, lam=lam, cut="none", **params)
        for lam in (0.8, 0.95)
        for params in ({}, {"env_params.gravity": 5.0})
    ]
    return pd.concat([*parts, runs_of("qc", {"A": [1.0]}, lam=0.8)], ignore_index=True)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["agent=qc"], {"agent": "qc"}),
        (
            ["agent=qrc", "lam=.95", "env_params.gravity=5"],
            {"lam": 0.95, "env_params.gravity": 5.0},
        ),
        (["lam=8e-1", "env_params.gravity=default", "cut=NONE"], {"lam": 0.8, "agent": "qrc"}),
        (
            ["config_hash=A-qrc-[('cut', 'none'), ('env_params.gravity', 5.0), ('lam', 0.8"],
            {"env": "A"},
        ),
    ],
)
def test_runs_are_chosen_by_columns(sweep, conditions, expected):
    chosen = cli_compare.choose(sweep, conditions, "--a")
    assert (chosen.groupby("env")["config_hash"].nunique() == 1).all()
    for name, value in expected.items():
        assert set(chosen[name]) == {value}


def test_choices_that_make_no_sense(sweep):
    def choose(*conditions):
        return cli_compare.choose(sweep, conditions, "--b")

    with pytest.raises(UnknownName, match="unknown name in --b: 'lamb'; did you mean 'lam'"):
        choose("lamb=0.8")
    with pytest.raises(ValueError, match=r"--b is 'lam'; NAME=VALUE is accepted"):
        choose("lam")
    with pytest.raises(ValueError, match=r"--b: no run has lam=0\.9; there is 0\.8, 0\.95"):
        choose("lam=0.9")
    with pytest.raises(ValueError, match=r"2 conf.*with lam: 0\.8, 0\.95$"):
        choose("env=B", "env_params.gravity=default")
    told = r"5 conf.*agent: qc, qrc; lam: 0\.8, 0\.95; cut: none, default; .*gravity: 5, default"
    with pytest.raises(ValueError, match=told):
        choose("env=A")
    sweep["lam"] = np.linspace(0, 1, len(sweep))
    with pytest.raises(ValueError, match=r", …"):
        cli_compare.choose(sweep, ["lam=2"], "--b")
