"""`eligrad evaluate`: returns of a trained run, with intervals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eligrad
from eligrad.analysis import statistics
from eligrad.cli import evaluate as cli_evaluate
from eligrad.training import train

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def test_prints_what_the_facade_evaluates(tmp_path, capsys):
    run = tmp_path / "run"
    train("qrc", "Probe/OffPolicy-v0", steps=60, seeds=3, out=run)
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    assert cli_evaluate.main([str(run), "--episodes", "5", "--sampled"]) == 0
    printed = capsys.readouterr().out
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before
    returns = eligrad.load(run).evaluate(5, deterministic=False)
    expected = returns.groupby("seed")["return"].mean()
    numbers = re.findall(r"seed (\d): *|seed (\d) +([-\d.e]+)", printed)
    for _, seed, value in numbers:
        assert float(value) == pytest.approx(expected[int(seed)], rel=1e-3)
    assert len(numbers) == 3
    mean = statistics.mean({"": np.asarray(expected)})
    assert f"all seeds{mean.value:>12.4g} [{mean.low:.4g}, {mean.high:.4g}], 3 seeds" in printed


def test_runs_of_other_settings_are_not_averaged(tmp_path, capsys):
    train("qrc", "Probe/Reward-v0", steps=20, seeds=2, lam=[0.1, 0.9], out=tmp_path / "run")
    assert cli_evaluate.main([str(tmp_path / "run"), "--episodes", "2"]) == 0
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("2 episodes, lam 0.1")
    assert second.endswith("2 episodes, lam 0.9")


@pytest.mark.filterwarnings("default::eligrad.training.evaluation.CutOffWarning")
def test_says_how_many_episodes_ended(tmp_path, capsys):
    """With a limit below the length of most episodes, and with one that none reaches."""
    run = tmp_path / "run"
    train("qrc", "gymnax/CartPole-v1", steps=60, out=run)
    arguments = [str(run), "--sampled", "--seed", "1"]
    lengths = eligrad.load(run).evaluate(8, deterministic=False, seed=1)["return"].sort_values()
    limit = int(lengths.iloc[3])
    ended = (lengths <= limit).sum()
    assert ended < 8
    assert cli_evaluate.main([*arguments, "--episodes", "8", "--max-steps", str(limit)]) == 0
    printed = capsys.readouterr()
    message = f"{ended} of 8 episodes ended; the others were cut off after {limit} steps"
    assert printed.err.startswith(f"eligrad evaluate: {message}")
    assert "--max-steps" in printed.err
    assert cli_evaluate.main([*arguments, "--episodes", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith(", 1 episode\n")
    assert printed.err == ""


def test_says_what_is_wrong(tmp_path, capsys):
    assert cli_evaluate.main([str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err
    run = tmp_path / "run"
    train("qrc", "Probe/Trace-v0", steps=10, out=run)
    assert cli_evaluate.main([str(run), "--episodes", "0"]) == 2
    assert "episodes is 0" in capsys.readouterr().err
