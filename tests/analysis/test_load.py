"""Runs of different kinds in one folder, as one data frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eligrad.analysis.load import load_chunks, load_runs
from eligrad.sweeps import worker
from eligrad.training import train
from tests.sweeps.small_sweeps import quick_training

__all__ = ["quick_training"]
pytestmark = pytest.mark.usefixtures("quick_compilation")


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


@pytest.mark.usefixtures("quick_training")
def test_problems_are_told_apart_by_columns(tmp_path):
    for name, limit, params in (("a", 70, {}), ("b", None, {"left": 2.0})):
        about = {"max_episode_steps": limit, "env_params": params, "out": tmp_path / name}
        worker.train("qrc", "A", steps=400, seeds=[0], **about)
    runs = load_runs(tmp_path)
    assert runs["max_episode_steps"].tolist() == [70, pd.NA]
    np.testing.assert_array_equal(runs["env_params.left"], [np.nan, 2.0])
    assert runs["config_hash"].nunique() == 2
