"""Runs in simulators outside JAX, stopped and resumed, are the runs that were never stopped."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from eligrad.engines import HostRuns
from eligrad.engines.simulators import Simulators
from eligrad.envs import make
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment, snapshot
from eligrad.runs import checkpoint
from eligrad.runs.plan import grown
from eligrad.training import prepare, resume, saved, train
from tests.engines import tiny
from tests.envs.tiny import Counter
from tests.runs.test_checkpoint import assert_equal

pytestmark = pytest.mark.usefixtures("quickest_compilation")

SEEDS = np.array([3, 4])


def runs(env_seeds: Any) -> HostRuns:
    env = make("CartPole-v1", max_episode_steps=30)
    assert isinstance(env, GymnasiumEnvironment)
    return HostRuns(tiny.agent(), env, SEEDS, np.asarray(env_seeds))


@pytest.fixture(scope="module")
def straight():
    """A run that never stopped: its state, and the records of its second half."""
    engine = runs([5, 6])
    engine.advance(45)
    second_half = engine.advance(45)
    state = engine.state
    engine.close()
    assert second_half.ended.any(axis=1).all()
    return state, second_half


def test_engines_go_on_as_if_never_stopped(tmp_path, straight):
    first = runs([5, 6])
    first.advance(45)
    checkpoint.save(tmp_path / "c.npz", first.state, {})
    first.close()
    second = runs([7, 8])  # other episodes, until they are restored
    second.advance(3)
    second.state, _ = checkpoint.load(tmp_path / "c.npz", like=second.state)
    records = second.advance(45)
    state = second.state
    second.close()
    for ours, theirs in zip(*map(jax.tree.leaves, (records, straight[1])), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_equal(state, straight[0])


OPTIONS: dict[str, Any] = {"seeds": [3, 4], "chunk": 10, "checkpoint_every": 20}


def test_training_goes_on_as_if_never_stopped(tmp_path):
    """Also from the middle of an episode, and from the checkpoint before a lost one."""
    agent, env = tiny.agent(), make("CartPole-v1", max_episode_steps=30)
    never_stopped = train(agent, env, steps=60, out=tmp_path / "never", **OPTIONS)
    train(agent, env, steps=31, out=tmp_path / "parts", **OPTIONS)
    for _ in range(2):
        resumed = resume(tmp_path / "parts", steps=60, agent=agent, env=env)
        assert_equal(resumed.state, never_stopped.state)
        assert resumed.episodes.equals(never_stopped.episodes)
        (tmp_path / "parts/checkpoint-000000000060.npz").unlink()


class Opaque(CartPoleEnv):
    """Has a part that nobody can copy."""

    def __init__(self):
        super().__init__()
        self.handle = (number for number in range(3))


def test_what_cannot_be_told_goes_on_in_a_new_episode_and_says_so(tmp_path):
    agent, env = tiny.agent(), GymnasiumEnvironment(Opaque, max_episode_steps=7)
    train(agent, env, steps=20, out=tmp_path / "run", **OPTIONS)
    with pytest.warns(UserWarning, match=r"Opaque.handle is a builtins.generator.*new episodes"):
        result = resume(tmp_path / "run", steps=30, agent=agent, env=env)
    # No pole falls in seven steps: all episodes are cut, the one under way at step 20 as well.
    steps = result.episodes.to_pandas().query("seed == 3")["step"]
    assert list(steps) == [7, 14, 27]


def test_a_saved_agent_goes_on_in_a_new_episode_too(tmp_path):
    env = GymnasiumEnvironment(Opaque, max_episode_steps=7)
    session = prepare(tiny.agent(), env, steps=20, **OPTIONS)
    session.run()
    saved.save(session, tmp_path / "agent.npz")
    with pytest.warns(UserWarning, match=r"Opaque.handle is a builtins.generator.*new episodes"):
        loaded = saved.load(tmp_path / "agent.npz", agent=tiny.agent(), env=env)
    loaded.plan = grown(loaded.plan, 30)
    steps = loaded.run().episodes.to_pandas().query("seed == 3")["step"]
    assert list(steps) == [7, 14, 27]


def test_another_simulator_is_refused(tmp_path, monkeypatch):
    agent, env = tiny.agent(), make("CartPole-v1")
    train(agent, env, steps=20, out=tmp_path / "run", **OPTIONS)
    before = (tmp_path / "run/config.json").read_bytes()
    monkeypatch.setattr(snapshot, "version_of", lambda package: "0.0")
    with pytest.raises(ValueError, match=r"'gymnasium': '0.0'.*Another simulator"):
        resume(tmp_path / "run", steps=40, agent=agent, env=env)
    assert (tmp_path / "run/config.json").read_bytes() == before


def test_packed_simulators_are_of_their_length():
    simulators = Simulators(GymnasiumEnvironment(Counter).open(2))
    simulators.reset([0, 1])
    packed = simulators.packed
    simulators.step(np.zeros(2, int))
    assert simulators.packed != packed
    simulators.restore(packed)
    assert simulators.packed == packed
    for damaged in (packed[:-1], packed + b"0", packed[:3], packed[:8], packed[:16], b"\xff" * 40):
        with pytest.raises(ValueError, match="damaged"):
            simulators.restore(damaged)
    others = Simulators(GymnasiumEnvironment(Counter).open(1))
    with pytest.raises(ValueError, match="2 snapshots for 1 copies"):
        others.restore(packed)
