"""A restored environment continues bit for bit, or says that it cannot."""

from __future__ import annotations

import collections
import enum
import random

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from eligrad.envs import make
from eligrad.envs import spaces as ours
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment, snapshot
from tests.envs.test_encoding import read, written
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


def assert_continues(env) -> None:
    """Also through ends of episodes, which draw from the environment's own random numbers."""
    actions = draw_actions(env, BEFORE + AFTER)
    with env.open(COPIES) as copies:
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
        "HalfCheetah-v4",
        "Ant-v5",
        "Ant-v4",
        "Walker2d-v5",
        "Hopper-v4",
        "Humanoid-v5",
        "Reacher-v5",
        "Swimmer-v5",
        "Pusher-v5",
        "InvertedPendulum-v5",
        "CartPole-v1",
    ],
)
def test_continues_bit_for_bit(env_id):
    assert_continues(make(env_id, max_episode_steps=50))


def test_the_real_minatar_continues():
    assert_continues(make("gymnasium/MinAtar/Asterix-v1"))


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


class Mood(enum.Enum):
    CALM = 1
    ANGRY = 2


class Memory:
    def __init__(self, shape):
        self.seen = np.zeros(shape)
        self.last = self.seen[-1]  # written through the one, read through the other


def make_clock():
    ticks = 0

    def tick():
        nonlocal ticks
        ticks += 1
        return ticks

    return tick


class Intricate(Counter):
    """Its rewards depend on state of every kind that a Python environment may have."""

    def __init__(self):
        super().__init__(length=3)
        self.action_space = gymnasium.spaces.Discrete(2, seed=5)
        self.mood = Mood.CALM
        self.memory = Memory((4, 3))
        self.watched = [self.memory, {"memory": self.memory}]
        self.clock = make_clock()
        self.look = self._look
        self.dice = random.Random(1)
        self.old_dice = np.random.RandomState(2)
        self.recent = collections.deque([0.0], maxlen=3)
        self.part = gymnasium.utils.EzPickle(1)  # pickles without its state
        self.part.level = 0

    def _look(self):
        return self.watched[1]["memory"].last.sum()

    def step(self, action):
        observation, _, ended, cut, info = super().step(action)
        self.mood = Mood.ANGRY if self.clock() % 3 else Mood.CALM
        self.part.level += action
        self.memory.seen[-1, 0] += self.dice.gauss(0, 1) + self.old_dice.normal()
        self.memory.seen[-1, 1] = float(self.action_space.sample())
        self.recent.append(self.look() + self.mood.value + self.part.level)
        return observation, sum(self.recent), ended, cut, info


def test_every_kind_of_state_continues():
    assert_continues(GymnasiumEnvironment(Intricate))


class Heavier(HalfCheetahEnv):
    """Draws masses, gravity and time step for each episode."""

    def reset_model(self):
        self.model.body_mass[1:] *= self.np_random.uniform(0.8, 1.25, self.model.nbody - 1)
        self.model.opt.gravity[2] = -self.np_random.uniform(8.0, 11.0)
        self.model.opt.timestep = self.np_random.uniform(0.008, 0.012)
        return super().reset_model()


def test_models_that_change_continue():
    assert_continues(GymnasiumEnvironment(Heavier, max_episode_steps=30))


class Latch(Counter):
    """A weight on a spring, held at every other step by a constraint that is switched on."""

    def __init__(self):
        super().__init__(length=30)
        self.model = mujoco.MjModel.from_xml_string(
            "<mujoco><worldbody><body name='weight'><joint name='spring' type='slide' axis='0 0 1' "
            "stiffness='9'/><geom size='1'/></body></worldbody><equality>"
            "<joint joint1='spring' active='false'/></equality></mujoco>"
        )
        self.data = mujoco.MjData(self.model)

    def step(self, action):
        observation, _, ended, cut, info = super().step(action)
        mujoco.mj_step(self.model, self.data)
        self.data.eq_active[0] = not self.data.eq_active[0]
        return observation, float(self.data.qpos[0]), ended, cut, info


def test_constraints_that_are_switched_on_continue():
    assert_continues(GymnasiumEnvironment(Latch))


class Flagged(Heavier):
    def reset_model(self):
        self.model.opt.iterations += 1
        return super().reset_model()


class Sleepy(Heavier):
    def __init__(self):
        super().__init__()
        if not hasattr(mujoco.mjtEnableBit, "mjENBL_SLEEP"):
            pytest.skip("nothing sleeps in this version of MuJoCo")
        self.model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP


class Outgrown(Counter):
    """Makes an object that was not there when it was built."""

    def reset(self, *, seed=None, options=None):
        self.memory = Memory(3)
        return super().reset(seed=seed, options=options)


class Borrowed(Counter):
    """Draws from random numbers that it does not hold itself."""

    def __init__(self):
        super().__init__()
        self.draw = random.Random(0).random


@pytest.mark.parametrize(
    ("kind", "obstacle"),
    [
        (Opaque, "Opaque.handle is a builtins.generator"),
        (Outgrown, "Outgrown.memory is a tests.envs.test_snapshot.Memory"),
        (Borrowed, "Borrowed.draw is a builtins.builtin_function_or_method"),
        (Flagged, "MjModel has other kinds, flags, indices or shapes than it was built with"),
        (Sleepy, "MjData has plugins or sleeping bodies, whose state is not numbers"),
    ],
)
def test_what_cannot_be_told_has_no_snapshot(kind, obstacle):
    with GymnasiumEnvironment(kind).open(2) as copies:
        copies.reset([0, 1])
        assert copies.snapshot() is None
        assert copies.obstacle == obstacle


@pytest.mark.parametrize("change", ["qpos", "clock", "attribute", "missing", "header"])
def test_a_forged_snapshot_changes_nothing(change):
    kind = HalfCheetahEnv if change == "qpos" else Intricate
    with GymnasiumEnvironment(kind).open(1) as copies:
        copies.reset([0])
        saved = copies.snapshot()
        assert saved is not None
        document, raw = read(saved[0])
        values, objects = document["values"], document["objects"]
        if change == "qpos":
            fields = objects[values["MjData"]["object"]][1]
            (node,) = [node for name, node in fields if name == "qpos"]
            objects[node["object"]][2:4] = [[1, 9], [0, 1]]
        elif change == "clock":
            values["tick"] = 3
        elif change == "attribute":
            objects[values["Memory"]["object"]] = ["list", [1]]
        elif change == "missing":
            del values["Memory"]
        else:
            document["header"] = []
        before = copies.snapshot()
        with pytest.raises(ValueError, match="no snapshot, or damaged"):
            copies.restore([written(document, raw)])
        assert copies.snapshot() == before


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
        monkeypatch.setattr(snapshot, "version_of", lambda package: "0.0")
        with pytest.raises(ValueError, match="Another simulator"):
            copies.restore(saved)
