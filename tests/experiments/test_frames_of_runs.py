"""Runs of different kinds in one folder, as one data frame."""

from __future__ import annotations

import numpy as np
import pytest

from eligrad.experiments.store import load_chunks, load_runs
from eligrad.train import train

pytestmark = pytest.mark.usefixtures("compiled_quickly")


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
