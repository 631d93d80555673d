"""A sweep with real agents: each run is what it would have been alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eligrad.analysis.load import load_chunks, load_episodes, load_runs
from eligrad.sweeps.driver import run_sweep
from eligrad.training import resume, train
from tests.sweeps.small_sweeps import ENV, FRAGILE, Inline, small

pytestmark = [
    pytest.mark.usefixtures("quickest_compilation"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory, quickest_compilation):
    """Four runs of one program: two values of λ, two seeds."""
    store = tmp_path_factory.mktemp("sweep") / "store"
    executor = Inline(workers=1)
    report = run_sweep(small(), store, executor=executor)
    assert [len(task.job.runs) for task in executor.tasks] == [4]
    assert (report.failures, report.unfinished, report.stopped_by) == ({}, 0, None)
    return store


def test_the_tables_have_the_promised_columns(store):
    leading = ["run", "agent", "title", "env", "seed", "config_hash"]
    runs, episodes, chunks = load_runs(store), load_episodes(store), load_chunks(store)
    assert set(leading) < set(runs.columns)
    assert {"lam", "step_size", "rule", "optimizer"} < set(runs.columns)
    assert list(episodes.columns) == [*leading, "step", "return", "length"]
    assert episodes["step"].dtype == np.int64
    assert list(chunks.columns[:7]) == [*leading, "step"]
    assert sorted(zip(runs["lam"], runs["seed"], strict=True)) == [
        (0.0, 0), (0.0, 1), (0.9, 0), (0.9, 1),
    ]  # fmt: skip
    (folder,) = (store / "runs").iterdir()
    assert list(runs["run"]) == [f"runs/{folder.name}#{index}" for index in range(4)]
    assert (runs["title"] == "QRC(λ)").all()
    assert (runs[["step", "steps"]] == 400).all(axis=None)
    assert runs["finished"].all()
    assert runs["diverged_step"].isna().all()
    assert runs["config_hash"].nunique() == 2
    empty = load_runs(store / "failures")
    assert len(empty) == 0
    assert set(leading) < set(empty.columns)


def test_config_says_what_and_where(store):
    (folder,) = (store / "runs").iterdir()
    config = json.loads((folder / "config.json").read_text())
    (session,) = config["sessions"]
    assert {"versions", "machine", "device", "git_commit", "started"} <= set(session)
    assert {"eligrad", "jax", "numpy", "python"} <= set(session["versions"])
    assert config["plan"]["seeds"] == [0, 1, 0, 1]


def test_a_run_is_what_it_would_have_been_alone_and_can_go_on(store):
    runs = load_runs(store).set_index(["lam", "seed"])
    row = runs.loc[(0.9, 1)]
    alone = train("qrc", ENV, steps=700, seeds=[1], lam=0.9, exploration_steps=80.0)
    episodes = load_episodes(store)
    mine = episodes[episodes["run"] == row.run]
    before = np.asarray(alone.episodes["step"]) <= 400
    for name in ("step", "return", "length"):
        np.testing.assert_array_equal(mine[name], np.asarray(alone.episodes[name])[before])
    folder, _, index = row.run.partition("#")
    longer = resume(store / folder, steps=700)
    ours = longer.episodes.filter(np.asarray(longer.episodes["run"]) == int(index))
    assert ours.drop_columns("run").equals(alone.episodes.drop_columns("run"))
    assert longer.summary["seeds"][int(index)] == alone.summary["seeds"][0]


@pytest.mark.nightly
def test_one_bad_run_costs_the_others_nothing(tmp_path):
    """In this world seed 1 comes to a reward that is no number, and seed 2 does not."""
    executor = Inline(workers=1)
    spec = small(FRAGILE, seeds=[1, 2], grid={"lam": [0.5]})
    report = run_sweep(spec, tmp_path / "store", executor=executor)
    assert report.unfinished == 0
    ((name, trace),) = report.failures.items()
    assert name.endswith("-s1")
    assert "Traceback" in trace
    assert "EnvironmentFault" in trace
    assert "gave a reward (nan)" in trace
    # Once together; then each alone.
    assert [len(task.job.runs) for task in executor.tasks] == [2, 1, 1]
    (failure,) = (tmp_path / "store" / "failures").iterdir()
    assert json.loads(failure.read_text())["traceback"] == trace
    alone = train("qrc", FRAGILE, steps=400, seeds=[2], lam=0.5)
    episodes = load_episodes(tmp_path / "store")
    assert set(episodes["seed"]) == {2}
    np.testing.assert_array_equal(episodes["return"], alone.episodes["return"])
