"""Numbers in the `info` of a Gymnasium environment, as metrics."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest

import eligrad
from eligrad.analysis import load_chunks
from eligrad.cli import train as cli_train
from eligrad.runs.records import scan
from eligrad.sweeps import Spec, Sweep, run_sweep
from eligrad.training import resume, train
from eligrad.training.loggers import scalars
from tests.sweeps.small_sweeps import Inline

pytestmark = pytest.mark.usefixtures("quick_compilation")
NAME = f"{__name__}:Aging-v0"


class Aging(gymnasium.Env):
    """Its info has its age, a word, and in the first 20 steps another number."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    age = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"age": -1000.0}

    def step(self, action):
        self.age += 1
        ended = self.age % 7 == 0
        early = {} if self.age > 20 else {"early": np.float64(self.age)}
        info = {"age": self.age, "word": "old", **early}
        return np.zeros(2, np.float32), 1.0, ended, False, info


if "Aging-v0" not in gymnasium.registry:
    gymnasium.register("Aging-v0", Aging)


@pytest.mark.parametrize("processes", [1, 2])
def test_means_over_chunks_of_all_engines_also_after_resuming(tmp_path, processes):
    options = {"seeds": 2, "chunk": 10, "checkpoint_every": 10, "processes": processes}
    train("qrc", NAME, steps=20, out=tmp_path / "run", info=["age", "early"], **options)
    chunks = resume(tmp_path / "run", steps=40, processes=processes).chunks
    assert chunks["step"].to_pylist() == [10, 10, 20, 20, 30, 30, 40, 40]
    assert chunks["info_age"].to_pylist() == [5.5, 5.5, 15.5, 15.5, 25.5, 25.5, 35.5, 35.5]
    # No step had it in the last chunks.
    np.testing.assert_equal(chunks["info_early"].to_numpy(), [5.5] * 2 + [15.5] * 2 + [np.nan] * 4)


def test_of_rollouts_the_mean_over_the_copies_of_a_run():
    options = {"rollout": 32, "num_envs": 2, "minibatch_size": 16}
    learner = eligrad.PPO(Aging, seeds=2, info=["age"], **options).learn(64)
    tables = learner.session.tables()
    assert tables.chunks["info_age"].to_pylist() == [8.5, 8.5, 24.5, 24.5]
    # What TensorBoard and W&B get.
    assert scalars(tables)[0]["chunk/info_age"] == 24.5


def test_without_the_option_there_is_no_column():
    chunks = train("qrc", Aging, steps=10, chunk=10).chunks
    assert not [name for name in chunks.column_names if name.startswith("info")]


@pytest.mark.parametrize(
    ("env", "info", "message"),
    [
        (Aging, ["agee"], "info is 'agee'; one of age, early is accepted; did you mean 'age'"),
        (Aging, ["word"], "info is 'word'; one of age, early is accepted"),
        (Aging, "age", "info is 'age'; a list of names is accepted"),
        ("CartPole-v1", ["x"], r"info is \['x'\], but the info of 'CartPole-v1' has no numbers"),
        ("Probe/Trace-v0", ["x"], "'Probe/Trace-v0' is a JAX environment, whose steps have no inf"),
    ],
)
def test_what_an_environment_does_not_have(env, info, message):
    with pytest.raises((ValueError, TypeError), match=message):
        eligrad.QRC(env, info=info)


def test_from_the_command_line(tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["qrc", NAME, "--seeds", "1", "--steps", "20", "--chunk", "10", "--no-progress"]
    assert cli_train.main([*arguments, "--info", "age", "--out", str(run)]) == 0
    assert load_chunks(run)["info_age"].tolist() == [5.5, 15.5]
    assert cli_train.main([*arguments, "--info", "agee", "--out", str(tmp_path / "other")]) == 2
    assert "did you mean 'age'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_in_a_sweep(tmp_path):
    sweep = Sweep(["qrc"], [NAME], 20, seeds=2, grid={"lam": [0.1, 0.9]}, info=["age"])
    store = tmp_path / "store"
    assert not run_sweep(sweep, store, executor=Inline()).failures
    chunks = load_chunks(store)
    assert len(chunks) == 4
    assert set(chunks["info_age"]) == {10.5}
    assert [record.configuration.info for record in scan(store)] == [["age"]] * 4
    for info, message in (("agee", "did you mean 'age'"), ("word", "one of age, early")):
        with pytest.raises(ValueError, match=message):
            run_sweep(Spec([dataclasses.replace(sweep, info=[info])]), store, executor=Inline())
