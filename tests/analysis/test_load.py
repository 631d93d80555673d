"""Runs of different kinds in one folder, as one data frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eligrad.agents import PRESETS, from_equinox
from eligrad.analysis.load import load_chunks, load_runs, setting_values
from eligrad.envs import make
from eligrad.nets import streaming_mlp
from eligrad.runs.configuration import Configuration
from eligrad.runs.folder import RunFolder
from eligrad.sweeps import worker
from eligrad.training import resume, train
from tests.sweeps.small_sweeps import quick_training

__all__ = ["quick_training"]
pytestmark = pytest.mark.usefixtures("quickest_compilation")


@pytest.mark.nightly
def test_each_kind_has_columns_of_its_own(tmp_path):
    train("qrc", "Probe/Trace-v0", steps=64, out=tmp_path / "stream")
    train("ppo", "Probe/Trace-v0", steps=64, rollout=32, minibatch_size=16, out=tmp_path / "ppo")
    assert set(load_runs(tmp_path)["agent"]) == {"qrc", "ppo"}
    chunks = load_chunks(tmp_path)
    of_ppo = np.asarray(chunks["agent"] == "ppo")
    assert 0 < of_ppo.sum() < len(chunks)
    np.testing.assert_array_equal(chunks["entropy"].notna(), of_ppo)
    np.testing.assert_array_equal(chunks["mean_abs_td_error"].notna(), ~of_ppo)
    assert chunks["steps_per_second"].notna().all()


def test_settings_are_columns_by_their_own_names():
    """A setting with the name of another column does not overwrite it."""
    settings = {"lam": 0.8, "seed": 7, "exploration_steps": 300.0}
    found = setting_values(Configuration("mine", settings, "A", 1000, env_params={"left": 2.0}))
    assert found == {
        "lam": 0.8, "settings.seed": 7, "exploration_steps": 300.0, "exploration_fraction": 0.3,
        "env_params.left": 2.0,
    }  # fmt: skip


@pytest.mark.usefixtures("quick_training")
def test_every_column_is_documented(tmp_path):
    about = {"max_episode_steps": None, "env_params": {}, "out": tmp_path / "run"}
    worker.train("qrc", "A", steps=400, seeds=[0], exploration_steps=80.0, **about)
    documented = str(load_runs.__doc__)
    for name in set(load_runs(tmp_path).columns) - {*vars(PRESETS["qrc"])}:
        assert f"`{name}`" in documented, name


@pytest.mark.usefixtures("quick_training")
def test_each_run_has_its_own_speed(tmp_path):
    """However many share a program: that of all of them over their number."""
    for name, seeds in (("one", [0]), ("three", [1, 2, 3])):
        about = {"max_episode_steps": None, "env_params": {}, "out": tmp_path / name}
        worker.train("qrc", "A", steps=400, seeds=seeds, **about)
    runs = load_runs(tmp_path)
    for name, count in (("one", 1), ("three", 3)):
        own = runs["steps_per_second"][runs["run"].str.startswith(name)]
        together = RunFolder(tmp_path / name).summary["steps_per_second"]
        assert own.tolist() == [together / count] * count


@pytest.mark.usefixtures("quick_training")
def test_problems_are_told_apart_by_columns(tmp_path):
    for name, limit, params in (("a", 70, {}), ("b", None, {"left": 2.0})):
        about = {"max_episode_steps": limit, "env_params": params, "out": tmp_path / name}
        worker.train("qrc", "A", steps=400, seeds=[0], **about)
    runs = load_runs(tmp_path)
    assert runs["max_episode_steps"].tolist() == [70, pd.NA]
    np.testing.assert_array_equal(runs["env_params.left"], [np.nan, 2.0])
    assert runs["config_hash"].nunique() == 2


def test_a_run_that_is_trained_further_is_unfinished_until_it_ends(tmp_path):
    train("qrc", "Probe/Trace-v0", steps=40, seeds=2, chunk=10, out=tmp_path / "run")
    assert load_runs(tmp_path)["finished"].all()

    def stops(session):
        raise KeyError("no longer")

    with pytest.raises(KeyError):
        resume(tmp_path / "run", steps=80, callbacks=[stops])
    assert not load_runs(tmp_path)["finished"].any()
    resume(tmp_path / "run", steps=80)
    assert load_runs(tmp_path)["finished"].all()


def test_networks_of_ones_own_are_configurations_of_their_own(tmp_path):
    env = make("Probe/Trace-v0")
    size = *env.observation_space.shape, env.action_space.n
    for units in (4, 8):
        network = from_equinox(
            lambda key, sparsity, units=units: streaming_mlp(
                *size, hidden=(units,), sparsity=sparsity, key=key
            )
        )
        options = {"steps": 20, "seeds": 2, "network": network, "out": tmp_path / str(units)}
        train("qrc", "Probe/Trace-v0", **options)
    runs = load_runs(tmp_path)
    assert runs.groupby("config_hash").size().to_list() == [2, 2]
    assert runs.groupby("config_hash")["run"].agg(lambda x: len({r[0] for r in x})).max() == 1


def test_the_speed_is_that_of_each_run(tmp_path):
    """Not that of the runs that share its program."""
    result = train("qrc", "Probe/Reward-v0", steps=20, seeds=4, out=tmp_path / "run")
    runs = load_runs(tmp_path)
    assert len(runs) == 4
    np.testing.assert_allclose(runs["steps_per_second"], result.summary["steps_per_second"] / 4)
