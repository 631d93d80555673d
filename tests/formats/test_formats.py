"""Files that earlier versions wrote still load, resume and report.

`N.tar.xz` holds files of format N as that version wrote them: run folders stopped halfway in three
engines, a saved agent, a saved `Online`, and a sweep store with finished runs and a half-done job.
`expected.json` in it is what that version made of them when it went on. `3.tar.xz` holds saves of
`Online` only: two of agents of the user's own, from before files held the configuration, and one of
an agent given by name.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eligrad
from eligrad.agents import QLambda, QLambdaConfig, default_network
from eligrad.analysis import load_runs
from eligrad.analysis.report import write_report
from eligrad.engines import Online
from eligrad.envs import Box
from eligrad.runs.records import scan
from eligrad.sweeps import Sweep, run_sweep
from eligrad.training import resume
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quickest_compilation")

FOLDER = Path(__file__).parent


def unpacked(archive: str, folder: Path) -> Path:
    with tarfile.open(FOLDER / archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


@pytest.fixture
def old(tmp_path):
    return unpacked("2.tar.xz", tmp_path)


@pytest.fixture
def expected(old):
    return json.loads((old / "expected.json").read_text())


def same(episodes: pd.DataFrame, wanted: dict) -> None:
    assert episodes["length"].tolist() == wanted["lengths"]
    np.testing.assert_allclose(episodes["return"], wanted["returns"], rtol=1e-3)


@pytest.mark.parametrize(
    "name", ["run-qrc", "run-stream-q-gymnasium", "run-gradient-ppo-gymnasium"]
)
def test_run_folders_resume(old, expected, name):
    same(resume(old / name).episodes.to_pandas(), expected[name])


def test_saved_agents_go_on(old, expected):
    agent = eligrad.load(old / "saved-qc.npz")
    assert type(agent) is eligrad.QC
    same(agent.learn(128).episodes, expected["saved-qc.npz"])


def test_online_goes_on(old, expected):
    agent = Online.load(old / "online-qrc.npz", QLambda(QLambdaConfig(), default_network((3,), 2)))
    action = agent.observe(np.full(3, 0.5, np.float32), reward=1.0)
    assert action == expected["online-qrc.npz"]["action"]
    assert agent.td_error == pytest.approx(expected["online-qrc.npz"]["td_error"], rel=1e-5)


@pytest.mark.parametrize("name", ["qrc", "gradient-ac", "stream-q"])
def test_online_of_format_3_goes_on(tmp_path, name):
    """Saved between the end of an episode and the beginning of the next."""
    file = unpacked("3.tar.xz", tmp_path) / f"online-{name}.npz"
    expected, size = json.loads((tmp_path / "expected.json").read_text())[file.name], 4
    if name == "stream-q":  # by name: the file knows the rest
        agent, size = Online.load(file), 3
        assert agent.agent.config.lam == 0.5
    else:
        own = tiny.actor_critic(Box(-2.0, 2.0, (2,)))
        if name == "qrc":
            own = tiny.agent(regularize="parameters")
        agent = Online.load(file, own)
        with pytest.raises(ValueError, match="as an earlier version wrote it"):
            Online.load(file)
    assert agent.between_episodes
    agent.observe(np.full(size, 0.5, np.float32))
    action = agent.observe(np.full(size, -0.5, np.float32), reward=1.0)
    np.testing.assert_allclose(action, expected["action"], rtol=1e-5)
    assert agent.td_error == pytest.approx(expected["td_error"], rel=1e-5)


def test_configurations_keep_their_hashes(old, expected):
    found = {r.run: r.configuration.hash for r in scan(old) if not r.run.startswith("store")}
    assert found == expected["config_hashes"]


def test_stores_go_on(old, expected):
    small = {"rollout": 64, "minibatch_size": 32, "epochs": 1}
    sweep = Sweep(["ppo"], ["Probe/Trace-v0"], 256, [0, 1], fixed=small, grid={"lam": [0.8, 0.95]})
    there = {path.name for path in (old / "store" / "runs").iterdir()}
    left_at = (old / "store/jobs/78a3c4fe026d81f6/program").glob("checkpoint-*").__next__().name
    assert left_at == "checkpoint-000000000128.npz"
    report = run_sweep(sweep, old / "store", workers=1)
    assert not report.failures
    assert not report.notes
    runs = load_runs(old / "store").sort_values(["lam", "seed"])
    assert runs["config_hash"].tolist() == expected["store"]["hashes"]
    assert runs["seed"].tolist() == expected["store"]["seeds"]
    np.testing.assert_allclose(runs["return_all"], expected["store"]["return_all"], rtol=1e-3)
    assert there < {path.name for path in (old / "store" / "runs").iterdir()}


def test_runs_are_reported(old):
    page = write_report(old, old / "report.html").read_text()
    for title in ("QRC(λ)", "StreamQ", "Gradient PPO", "PPO"):
        assert title in page
