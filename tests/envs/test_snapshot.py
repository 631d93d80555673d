"""A restored environment continues bit for bit, or says that it cannot."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from eligrad.envs import make
from eligrad.envs import spaces as ours
from eligrad.envs.gymnasium import GymnasiumEnvironment, snapshot
from tests.envs.test_gymnasium import assert_equal_transitions
from tests.envs.tiny import Counter, Opaque, limited

BEFORE, AFTER, COPIES = 37, 80, 2


def draw_actions(env, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if isinstance(env.action_space, ours.Discrete):
        return rng.integers(0, env.action_space.n, (count, COPIES))
    low, high = env.action_space.low, env.action_space.high
    shape = (count, COPIES, *env.action_space.shape)
    return rng.uniform(low, high, shape).astype(env.action_space.dtype)


def assert_continues(env, workers: str = "loop") -> None:
    """Also through ends of episodes, which draw from the environment's own random numbers."""
    actions = draw_actions(env, BEFORE + AFTER)
    with env.open(COPIES, workers) as copies:
        copies.reset([1, 2])
        for action in actions[:BEFORE]:
            copies.step(action)
        saved = copies.snapshot()
        assert saved is not None
        straight = [copies.step(action) for action in actions[BEFORE:]]
        copies.restore(saved)
        rewound = [copies.step(action) for action in actions[BEFORE:]]
    with env.open(COPIES) as fresh:
        fresh.restore(saved)
        resumed = [fresh.step(action) for action in actions[BEFORE:]]
    assert any((step.terminated | step.truncated).any() for step in straight)
    assert_equal_transitions(straight, rewound)
    assert_equal_transitions(straight, resumed)


@pytest.mark.parametrize(
    "env_id",
    [
        "HalfCheetah-v5",
        "Ant-v5",
        "Walker2d-v5",
        "Hopper-v5",
        "Ant-v4",
        "Humanoid-v5",
        "CartPole-v1",
    ],
)
def test_continues_bit_for_bit(env_id):
    assert_continues(make(env_id, max_episode_steps=50))


def test_the_real_minatar_continues():
    assert_continues(make("gymnasium/MinAtar/Asterix-v1"))


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_workers_continue(workers):
    assert_continues(make("HalfCheetah-v5", max_episode_steps=50), workers)


def test_wrappers_continue():
    assert_continues(GymnasiumEnvironment(limited, length=9))


def test_positions_and_velocities_alone_would_not_do():
    # Why the whole of MjData is kept: the velocity reward of Ant is read from lagging quantities.
    env = gymnasium.make(gymnasium.spec("Ant-v5")).unwrapped
    other = gymnasium.make(gymnasium.spec("Ant-v5")).unwrapped
    env.reset(seed=0)
    other.reset(seed=0)
    action = np.full(8, 0.3, np.float32)
    for _ in range(20):
        env.step(action)
    other.set_state(env.data.qpos, env.data.qvel)
    assert env.step(action)[1] != other.step(action)[1]


def test_what_cannot_be_told_has_no_snapshot():
    with GymnasiumEnvironment(Opaque).open(1) as copies:
        copies.reset([0])
        assert copies.snapshot() is None
        assert copies.obstacle == "Opaque.handle is a builtins.generator"


def test_snapshots_of_others_are_refused(monkeypatch):
    with GymnasiumEnvironment(Counter).open(1) as copies:
        copies.reset([0])
        saved = copies.snapshot()
        assert saved is not None
        with pytest.raises(ValueError, match="1 snapshots for 2 copies"):
            GymnasiumEnvironment(Counter).open(2).restore(saved)
        with pytest.raises(
            ValueError, match=r"taken from .*Counter.*this environment is .*CartPole"
        ):
            make("CartPole-v1").open(1).restore(saved)
        monkeypatch.setattr(snapshot, "_version", lambda package: "0.0")
        with pytest.raises(ValueError, match="Another simulator"):
            copies.restore(saved)
