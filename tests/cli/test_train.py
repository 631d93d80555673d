"""`eligrad train` from the outside."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from eligrad.agents import PRESETS, make_settings
from eligrad.analysis import load_chunks
from eligrad.cli import start
from eligrad.cli import train as cli_train
from eligrad.runs.folder import RunFolder
from eligrad.runs.plan import Plan
from eligrad.training import train
from tests.engines import tiny

ELIGRAD = [sys.executable, "-m", "eligrad"]


def test_every_agent_has_its_own_defaults():
    for name, preset in PRESETS.items():
        # Wherever the name stands.
        command = cli_train.parse(["--steps", "2e3", name, "Probe/Trace-v0", "--gamma", "0.5"])
        assert (command.agent, command.steps) == (name, 2000)
        wanted = vars(preset) | {"gamma": 0.5}
        wanted.pop("exploration_steps", None)
        assert {k: getattr(command.settings, k) for k in wanted} == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "an agent and an environment are needed"),
        (["qrcc", "Probe/Trace-v0"], "unknown agent 'qrcc'; did you mean 'qrc'"),
        (["qrc", "Probe/Trase-v0"], "did you mean 'Probe/Trace-v0'"),
        (["qrc", "Probe/Continuous-v0"], "continuous actions"),
        (["qrc", "Probe/Trace-v0", "--lam", "1.2"], "lam is 1.2"),
        (["qrc", "Probe/Trace-v0", "--seed", "-1"], "seeds are"),
        (
            ["qrc", "Probe/Trace-v0", "--learning-rate", "1"],
            "'--learning-rate'; here that is '--step-size'",
        ),
        (
            ["ppo", "Probe/Trace-v0", "--n-steps=9"],
            "unknown option '--n-steps'; here that is '--rollout'",
        ),
        (["qrc", "Probe/Trace-v0", "--sink", "wandb"], "here that is '--logger'"),
        (["qrc", "Probe/Trace-v0", "--seeds", "1e9"], "there are 1,000,000,000 seeds; up to"),
        (["qrc", "Probe/Trace-v0", "--lambda", "0.5"], "'--lambda'; here that is '--lam'"),
        (["dqn", "Probe/Trace-v0"], "unknown agent 'dqn'; accepted: expected-sarsa-lambda, gq2"),
        (["--resume", "nowhere"], "there is no run nowhere"),
        (["--config", "nowhere.toml"], "there is no file nowhere.toml"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli_train.main([*arguments, "--no-cache"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("eligrad train: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", ["1.5", "0", "many", "1e99"])
def test_steps_are_whole(steps, capsys):
    with pytest.raises(SystemExit) as stop:
        cli_train.parse(["qrc", "Probe/Trace-v0", "--steps", steps])
    assert stop.value.code == 2
    assert f"--steps is {steps}" in capsys.readouterr().err


def test_says_that_steps_are_rounded_to_whole_rollouts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(start, "prepare", lambda *_, **given: pytest.fail(str(given["steps"])))
    arguments = ["ppo", "Probe/Trace-v0", "--steps", "3000", "--out", str(tmp_path / "run")]
    with pytest.raises(pytest.fail.Exception, match="3000"):
        cli_train.main(arguments)
    told = capsys.readouterr().out
    assert "whole rollouts of 2,048 steps: --steps is rounded up to 4,096" in told


@pytest.mark.usefixtures("quickest_programs")
def test_evaluates_between_chunks(tmp_path):
    run = tmp_path / "run"
    command = ["qrc", "Probe/Reward-v0", "--steps", "40", "--chunk", "10", "--seeds", "1"]
    options = ["--eval-every", "20", "--no-progress", "--no-cache", "--out", str(run)]
    assert cli_train.main([*command, *options]) == 0
    evaluated = load_chunks(run).set_index("step")["evaluation_return"]
    assert evaluated.notna().to_dict() == {10: False, 20: True, 30: False, 40: True}


@pytest.mark.usefixtures("quickest_programs")
def test_a_run_from_a_file_and_again_from_its_folder(tmp_path, capsys):
    file, first, second = tmp_path / "run.toml", tmp_path / "first", tmp_path / "second"
    file.write_text(
        'agent = "qrc"\nenv = "Probe/Trace-v0"\nsteps = 40\nseeds = [3, 5]\n'
        "[settings]\nlam = [0.5, 0.9]\nstep_size = 1e-3\nexploration_fraction = 0.5\n"
    )
    assert cli_train.main(["--config", str(file), "--out", str(first), "--no-progress"]) == 0
    plan = RunFolder(first).config["plan"]
    assert (plan["steps"], plan["seeds"]) == (40, [3, 5])
    assert plan["settings"]["lam"] == [0.5, 0.9]
    assert plan["settings"]["exploration_steps"] == 20
    assert cli_train.main(["--config", str(first), "--out", str(second), "--no-progress"]) == 0
    assert RunFolder(second).config["plan"] == plan
    assert RunFolder(second).tables().episodes.equals(RunFolder(first).tables().episodes)
    capsys.readouterr()
    for wrong, message in (
        (["--lam", "0.1"], f"lam is 0.1, and --config is given; write it in {file}"),
        (["--out", str(first)], "exists already"),
    ):
        assert cli_train.main(["--config", str(file), *wrong]) == 2
        assert message in capsys.readouterr().err


BOTH = 'agent = "qrc"\nenv = "Probe/Trace-v0"\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("agent = qrc", "is no TOML file"),
        (BOTH + "step = 3", "'step'; did you mean 'steps'"),
        ('agent = "qrc"', "env in .* is None; a name is accepted"),
        ('agent = "qrk"\nenv = "Probe/Trace-v0"', "unknown agent 'qrk'; did you mean"),
        (BOTH + "settings = 3", "settings in .* is 3; a table is accepted"),
        (BOTH + 'steps = "1e6"', "steps is '1e6'; a whole number"),
        ('agent = "qrc"\nenv = "evil:Mine-v0"', "the code of 'evil' would be run"),
    ],
)
def test_files_that_begin_no_run(content, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("raise SystemExit('imported')")
    Path("run.toml").write_text(content)
    assert cli_train.main(["--config", "run.toml"]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert sorted(os.listdir()) == ["evil.py", "run.toml"]


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(
        'agent = "ppo"\nenv = "Probe/Trase-v0"\nstep = 7\nsteps = "1e6"\n'
        "[settings]\nlam = 1.5\nrollout = 7\nminibatch_size = 7\ngama = 0.9\nclip = -1\n"
    )
    assert cli_train.main(["--config", "run.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0].removeprefix("eligrad train: ") for line in lines] == [
        "unknown name in run.toml: 'step'",
        "unknown environment 'Probe/Trase-v0'",
        "steps is '1e6'",
        "unknown setting of ppo 'gama'",
        "lam is 1.5",
        "clip is -1",
    ]  # and nothing of rollout and minibatch_size, which fit each other


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A user of their own, with an empty cache."""
    without = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    return without | {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.mark.nightly
def test_ctrl_c_then_resume_equals_undisturbed(tmp_path, environment):
    """A real process, a real signal; and all that a run folder holds."""
    run, log = tmp_path / "run", tmp_path / "log"
    steps = 120_000
    command = [*ELIGRAD, "train", "qrc", "Probe/Trace-v0", "--steps", str(steps), "--seeds", "2",
               "--chunk", "1000", "--checkpoint-every", "2000", "--out", str(run)]  # fmt: skip
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        while process.poll() is None and not list(run.glob("checkpoint-*.npz")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=120)
    text = log.read_text()
    assert code == 130, text
    assert f"eligrad train --resume {run}" in text
    stopped_at = json.loads((run / "summary.json").read_text())["steps"]
    assert 2000 <= stopped_at < steps
    assert stopped_at % 1000 == 0

    # The rest is cut short: 5,000 steps more show as much as all.
    total = stopped_at + 5000
    done = subprocess.run(
        [*ELIGRAD, "train", "--resume", run, "--steps", str(total), "--no-progress"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "mean ± standard error" in done.stdout
    assert str(run / "curve.png") in done.stdout

    undisturbed = train(
        "qrc", "Probe/Trace-v0", steps=total, seeds=2, chunk=1000, exploration_steps=0.2 * steps
    )
    tables = RunFolder.open(run).tables()
    assert tables.episodes.equals(undisturbed.episodes)
    assert tiny.timeless(tables.chunks).equals(tiny.timeless(undisturbed.chunks))

    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    episodes = pd.read_parquet(run / "metrics/episodes")
    assert list(episodes) == ["run", "seed", "step", "return", "length"]
    assert len(episodes) == tables.episodes.num_rows
    config, summary = (
        json.loads((run / name).read_text()) for name in ("config.json", "summary.json")
    )
    assert config["plan"]["settings"]["exploration_steps"] == 0.2 * steps
    assert [session["from_step"] for session in config["sessions"]] == [0, stopped_at]
    assert config["sessions"][1]["versions"]["jax"]
    assert summary["finished"]
    assert summary["startup_seconds"] < summary["seconds"]
    assert list((run.parent / environment["XDG_CACHE_HOME"]).rglob("jit__advance_all*"))


def test_settings_cannot_change_on_resuming(tmp_path, capsys):
    plan = Plan(
        agent="q-lambda",
        settings=make_settings("q-lambda", {"exploration_steps": 2.0}),
        env="Probe/Reward-v0",
        max_episode_steps=None,
        env_params={},
        seeds=[0],
        steps=10,
        chunk=10,
        checkpoint_every=10,
    )
    run = tmp_path / "run"
    RunFolder.create(run).write_config({"plan": dataclasses.asdict(plan), "sessions": []})
    assert cli_train.parse(["--resume", str(run), "--steps", "1e3"]).steps == 1000
    for change in (["--lam", "0.3"], ["--seeds", "3"], ["--exploration-fraction", "0.9"]):
        assert cli_train.main(["--resume", str(run), *change]) == 2
        name = change[0][2:].replace("-", "_")
        assert f"{name} is {change[1]}, but" in capsys.readouterr().err
    assert cli_train.main(["qrc", "Probe/Reward-v0", "--resume", str(run)]) == 2
    assert "agent is qrc, but" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "alone"),
    [
        (["qrc", "CartPole-v1", "--seeds", "1"], True),
        (["gradient-ac", "gymnasium/Pendulum-v1", "--seeds", "1"], True),
        (["qrc", "CartPole-v1", "--seeds", "2"], False),
        (["qrc", "MinAtar/Breakout-v1", "--seeds", "1"], False),
        (["qrc", "gymnax/CartPole-v1", "--seeds", "1"], False),
        (["qrc", "my_package:MyEnv-v0", "--seeds", "1"], False),
        (["ppo", "CartPole-v1", "--seeds", "1"], False),
    ],
)
def test_one_streaming_agent_in_gymnasium_runs_in_the_calling_thread(
    arguments, alone, tmp_path, monkeypatch
):
    called = []
    for name in ("device_for_each_run", "one_thread", "_begin", "_report"):
        monkeypatch.setattr(start, name, lambda *_: "")
    monkeypatch.setattr(start, "calling_thread", lambda: called.append(True))
    assert cli_train.main([*arguments, "--no-cache", "--out", str(tmp_path / "run")]) == 0
    assert called == [True] * alone


def test_typed_steps_come_before_those_of_a_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(BOTH + "steps = 5e6\nseeds = [4]\n")
    assert cli_train.parse(["--config", str(file)]).steps == 5_000_000
    typed = cli_train.parse(["--config", str(file), "--steps", "1e6"])  # the default without a file
    assert (typed.steps, typed.seeds, typed.seed) == (1_000_000, 1, 4)
    for same in ("0.8", "0.7"):  # the default without a file, and another one
        file.write_text(BOTH + "[settings]\nlam = 0.95\n")
        with pytest.raises(ValueError, match=f"lam is {same}, and --config is given"):
            cli_train.parse(["--config", str(file), "--lam", same])
    assert cli_train.parse(["--config", str(file)]).seeds == 1
    with pytest.raises(ValueError, match="seeds is 3, and --config is given"):
        cli_train.parse(["--config", str(file), "--seeds", "3"])
    file.write_text(BOTH + "steps = 5e6\nseeds = []\n")
    with pytest.raises(ValueError, match=r"seeds are \[\]; different ones, at least 1,"):
        cli_train.parse(["--config", str(file)])


@pytest.mark.usefixtures("quickest_programs")
def test_a_run_from_a_file_has_the_typed_steps(tmp_path):
    file, run = tmp_path / "run.toml", tmp_path / "run"
    file.write_text(BOTH + "steps = 40\nseeds = 1\n")
    typed = ["--config", str(file), "--steps", "20", "--out", str(run), "--no-progress"]
    assert cli_train.main(typed) == 0
    assert RunFolder(run).config["plan"]["steps"] == 20
    shorter = ["--config", str(run), "--steps", "5", "--out", str(tmp_path / "b"), "--no-progress"]
    assert cli_train.main(shorter) == 0  # though its chunks were longer
    plan = RunFolder(tmp_path / "b").config["plan"]
    assert (plan["chunk"], plan["checkpoint_every"]) == (5, 5)


@pytest.mark.usefixtures("quickest_programs")
def test_resuming_a_finished_run_says_so_and_trains_nothing(tmp_path, capsys):
    run = tmp_path / "run"
    begin = ["qrc", "Probe/Trace-v0", "--steps", "20", "--seeds", "1", "--out", str(run)]
    assert cli_train.main([*begin, "--no-progress"]) == 0
    first = json.loads((run / "summary.json").read_text())
    resumed = ["--resume", str(run), "--no-progress"]
    capsys.readouterr()
    assert cli_train.main(resumed) == 0
    assert "is finished; a larger --steps continues it" in capsys.readouterr().out
    assert json.loads((run / "summary.json").read_text())["seconds"] == first["seconds"]
    assert cli_train.main([*resumed, "--steps", "10"]) == 2
    assert "steps is 10, but" in capsys.readouterr().err
    assert cli_train.main([*resumed, "--steps", "30"]) == 0
    again = json.loads((run / "summary.json").read_text())
    assert again["steps"] == 30
    # The time to compile is that of all sessions, as all other time is.
    assert first["startup_seconds"] < again["startup_seconds"] < again["seconds"]
    # That of a session which was killed after a later checkpoint.
    (run / "summary.json").write_text(json.dumps(first))
    assert cli_train.main([*resumed, "--steps", "20"]) == 2
    assert "steps is 20, but" in capsys.readouterr().err
    (run / "summary.json").write_text("{")  # training writes it anew
    assert cli_train.main(resumed) == 0
    assert json.loads((run / "summary.json").read_text())["finished"]


@pytest.mark.usefixtures("quickest_programs")
def test_resuming_a_finished_run_repairs_what_is_damaged(tmp_path, capsys):
    run = tmp_path / "run"
    begin = ["qrc", "Probe/Trace-v0", "--steps", "40", "--seeds", "1", "--out", str(run)]
    assert cli_train.main([*begin, "--chunk", "20", "--no-progress"]) == 0
    whole = load_chunks(run)[["step", "mean_value"]]
    last = max((run / "metrics" / "chunks").iterdir())
    last.write_bytes(last.read_bytes()[:-20] + bytes(20))
    capsys.readouterr()
    assert cli_train.main(["--resume", str(run), "--no-progress"]) == 0
    printed = capsys.readouterr()
    assert "is damaged" in printed.err
    assert "is finished; a larger" not in printed.out
    assert load_chunks(run)[["step", "mean_value"]].equals(whole)
