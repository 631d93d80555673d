"""Agents of a user's own work everywhere, after one registry call and without any other change."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from eligrad import analysis, api, cli
from eligrad.agents.registry import AGENTS as AGENTS_BY_NAME
from eligrad.agents.registry import build, get, register
from eligrad.analysis.report import write_report
from eligrad.engines import Online
from eligrad.envs import make
from eligrad.sweeps import run_sweep
from eligrad.training import resume, train
from tests.sweeps.small_sweeps import runs_trained

pytestmark = pytest.mark.usefixtures("quickest_compilation")

AGENTS = ["mean", "mean-policy"]
COLUMN = {"mean": "spread", "mean-policy": "confidence"}


def command(*words: object) -> int:
    before = signal.getsignal(signal.SIGINT)  # which commands that train set to the system's own
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in words])
    finally:
        signal.signal(signal.SIGINT, before)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("env", ["Probe/Action-v0", "CartPole-v1"])
@pytest.mark.parametrize("agent", AGENTS)
def test_the_command_line_trains_resumes_and_watches(agent, env, tmp_path, capsys):
    run = tmp_path / "run"
    size = ("--steps", 128, "--seeds", 2, "--no-progress", "--no-cache", "--processes", 1)
    assert command("train", agent, env, "--step-size", 0.3, "--out", run, *size) == 0
    whole = train(agent, env, steps=256, seeds=2, step_size=0.3)
    options = ("--steps", 256, "--no-progress", "--no-cache", "--processes", 1)
    assert command("train", "--resume", run, *options) == 0
    resumed = analysis.load_episodes(run).sort_values(["seed", "step"])
    straight = whole.episodes.to_pandas().sort_values(["seed", "step"])
    assert resumed["return"].tolist() == straight["return"].tolist()
    assert np.isfinite(analysis.load_chunks(run)[COLUMN[agent]]).all()
    capsys.readouterr()
    assert command("watch", run, "--once") == 0
    printed = capsys.readouterr().out
    assert get(agent).title in printed
    assert COLUMN[agent] in printed


@pytest.mark.parametrize("agent", AGENTS)
def test_they_learn(agent):
    returns = train(agent, "Probe/Action-v0", steps=640, seeds=2).episodes["return"].to_numpy()
    assert returns[-100:].mean() > 0.5  # of -1 and 1; random actions come to 0


def test_unknown_settings_and_bad_values_are_refused_by_name(capsys):
    assert command("train", "mean", "Probe/Action-v0", "--epsilon", 2) == 2
    assert "epsilon is 2.0; a number in [0, 1] is accepted" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"unknown setting of mean 'step_sise'; .*'step_size'"):
        train("mean", "Probe/Action-v0", steps=10, step_sise=1.0)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_facade_learns_saves_loads_and_evaluates(agent, tmp_path):
    learner = api.learner(agent)("Probe/Action-v0", seeds=2, step_size=[0.1, 0.4])
    learner.learn(64).save(tmp_path / "own.npz")
    loaded = api.load(tmp_path / "own.npz")
    assert type(loaded).preset == agent
    assert loaded.learn(64).episodes.equals(learner.learn(64).episodes)
    assert len(loaded.evaluate(3)) == 6
    observation = np.zeros(learner.session.env.observation_space.shape, np.float32)
    assert loaded.best().predict(observation)[0] in (0, 1)


def test_online_goes_on_after_a_save(tmp_path):
    agent = build("mean", get("mean").config, make("Probe/Action-v0"))
    online = Online(agent, seed=3)
    online.observe(np.zeros(2, np.float32))
    for step in range(20):
        online.observe(np.zeros(2, np.float32), reward=float(step % 3))
    online.save(tmp_path / "online.npz")
    again = Online.load(tmp_path / "online.npz", agent)
    for _ in range(5):
        one, other = (each.observe(np.zeros(2, np.float32), reward=1.0) for each in (online, again))
        assert (one, online.metrics) == (other, again.metrics)
    assert set(online.metrics) == {"td_error", "spread"}


def test_sweeps_and_the_report(tmp_path, monkeypatch):
    # As a user would: the file that registers the agents is the sweep's specification.
    spec = tmp_path / "own.py"
    spec.write_text((Path(__file__).parent / "own_agents.py").read_text(encoding="utf-8") + SWEEP)
    for agent in AGENTS:  # this process knows them already
        monkeypatch.delitem(AGENTS_BY_NAME, agent)
    report = run_sweep(spec, tmp_path / "store", workers=1)
    assert not report.failures
    assert runs_trained(tmp_path / "store") == 6  # each once: runs of one program together
    runs = analysis.load_runs(tmp_path / "store")
    assert sorted(runs["agent"].unique()) == sorted(AGENTS)
    assert runs["finished"].all()
    page = write_report(tmp_path / "store", tmp_path / "report.html").read_text()
    assert "Mean reward" in page
    assert "Mean policy" in page


SWEEP = """

from eligrad.sweeps import Spec, Sweep

def small(agent, **grid):
    return Sweep([agent], ["Probe/Action-v0"], steps=64, seeds=2, grid=grid)

sweep = Spec([small("mean", epsilon=[0.1, 0.5]), small("mean-policy")])
"""


def test_play_makes_a_video(tmp_path):
    pytest.importorskip("PIL")
    train("mean", "MinAtar/Breakout-v1", steps=50, out=tmp_path / "run")
    arguments = ("--out", tmp_path / "play.gif", "--max-steps", 5)
    assert command("play", tmp_path / "run", *arguments) == 0
    assert (tmp_path / "play.gif").stat().st_size > 1000


def test_resume_from_python(tmp_path):
    whole = train("mean", "Probe/Action-v0", steps=64)
    train("mean", "Probe/Action-v0", steps=32, out=tmp_path / "run")
    again = resume(tmp_path / "run", steps=64)
    ours, theirs = (jax.tree.leaves(each.state.agent) for each in (whole, again))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_module_of_ones_own_brings_its_agent(tmp_path):
    text = (Path(__file__).parent / "own_agents.py").read_text(encoding="utf-8")
    (tmp_path / "my_agents.py").write_text(text)
    words = ["mean", "Probe/Action-v0", "--import", "my_agents", "--steps", "20", "--seeds", "1"]
    subprocess.run(
        [sys.executable, "-m", "eligrad", "train", *words, "--out", "run", "--no-progress"],
        cwd=tmp_path, check=True, capture_output=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert (tmp_path / "run" / "summary.json").exists()


def test_a_setting_that_is_a_list_is_refused():
    """A list of settings gives each run its own."""
    config = dataclasses.replace(get("mean-policy").config, rollout=(8, 8))
    with pytest.raises(ValueError, match=r"the setting rollout of 'lists' is \(8, 8\); a number"):
        register("lists", title="L", config=config, build=build)
    with pytest.raises(ValueError, match=r"the setting rollout of 'lists' is \(8, 8\); a number"):
        register("lists", title="L", config=get("mean-policy").config, build=build, vectors=config)
    assert "lists" not in AGENTS_BY_NAME
