"""The Gymnasium adapter: ids, spaces, ends of episodes and errors."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.wrappers import Autoreset, FlattenObservation, TimeLimit

from eligrad.envs import HostTransition, make
from eligrad.envs import spaces as ours
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from tests.envs.tiny import Counter, Faulty


def play(copies, seeds, actions) -> tuple[np.ndarray, list[HostTransition]]:
    first = copies.reset(seeds)
    return first, [copies.step(action) for action in actions]


def assert_equal_transitions(left: list[HostTransition], right: list[HostTransition]) -> None:
    for t, (a, b) in enumerate(zip(left, right, strict=True)):
        for field in HostTransition._fields:
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field), f"{field} at {t}")


def test_every_field_of_terminated_episodes():
    with GymnasiumEnvironment(Counter).open(2) as copies:
        first, steps = play(copies, [5, 6], [np.array([0, 1])] * 6)
    np.testing.assert_array_equal(first, [[0, 0, 5], [0, 0, 6]])
    terminated = [False, True, False, False, True, False]
    reached = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 1)]
    following = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    for t, step in enumerate(steps):
        np.testing.assert_array_equal(step.terminated, [terminated[t]] * 2)
        np.testing.assert_array_equal(step.truncated, [False] * 2)
        np.testing.assert_array_equal(step.next_observation, [(*reached[t], s) for s in (5, 6)])
        np.testing.assert_array_equal(step.observation, [(*following[t], s) for s in (5, 6)])
        np.testing.assert_array_equal(step.reward, 10.0 * reached[t][1] + np.array([0.0, 1.0]))


def test_a_truncated_episode_of_three_steps():
    env = GymnasiumEnvironment(Counter, length=100, max_episode_steps=3)
    with env.open(3) as copies:
        _, steps = play(copies, range(3), [np.zeros(3, int)] * 7)
    for t, step in enumerate(steps):
        cut = t % 3 == 2
        np.testing.assert_array_equal(step.truncated, [cut] * 3)
        np.testing.assert_array_equal(step.terminated, [False] * 3)
        np.testing.assert_array_equal(step.next_observation[:, :2], [(t // 3, t % 3 + 1)] * 3)
        np.testing.assert_array_equal(
            step.observation[:, :2], [(t // 3 + 1, 0) if cut else (t // 3, t % 3 + 1)] * 3
        )


def test_an_end_at_the_time_limit_is_both():
    with GymnasiumEnvironment(Counter, length=2, max_episode_steps=2).open(1) as copies:
        _, steps = play(copies, [0], [np.zeros(1, int)] * 4)
    assert [bool(s.terminated[0]) for s in steps] == [False, True, False, False]
    assert [bool(s.truncated[0]) for s in steps] == [False, True, False, True]


def reference_stream(env_id: str, seed: int, actions) -> list[HostTransition]:
    """The plain Gymnasium loop, wrappers and all."""
    env = gymnasium.make(gymnasium.spec(env_id))
    env.reset(seed=seed)
    stream = []
    for action in actions:
        reached, reward, terminated, truncated, _ = env.step(action)
        following = env.reset()[0] if terminated or truncated else reached
        stream.append(HostTransition(following, np.float64(reward), terminated, truncated, reached))
    env.close()
    return stream


@pytest.mark.parametrize("env_id", ["CartPole-v1", "HalfCheetah-v5", "Hopper-v4", "Ant-v5"])
def test_same_transitions_as_gymnasium_itself(env_id):
    env = make(env_id)
    rng = np.random.default_rng(0)
    if isinstance(env.action_space, ours.Discrete):
        actions = rng.integers(0, env.action_space.n, (70, 3))
    else:
        actions = rng.uniform(-1, 1, (70, 3, *env.action_space.shape)).astype(np.float32)
    with env.open(3) as copies:
        _, steps = play(copies, [3, 4, 5], actions)
    for copy in range(3):
        mine = [HostTransition(*(field[copy] for field in step)) for step in steps]
        assert_equal_transitions(mine, reference_stream(env_id, 3 + copy, actions[:, copy]))


def test_registered_time_limits_hold_and_can_be_replaced():
    assert make("HalfCheetah-v5").max_episode_steps == 1000
    with make("Pendulum-v1", max_episode_steps=4).open(1) as copies:
        _, steps = play(copies, [0], [np.zeros((1, 1), np.float32)] * 8)
    assert [bool(s.truncated[0]) for s in steps] == [False, False, False, True] * 2


def test_transitions_are_not_overwritten_later():
    with GymnasiumEnvironment(Counter).open(2) as copies:
        first, steps = play(copies, [0, 0], [np.zeros(2, int)])
        saved = [array.copy() for array in (first, *steps[0])]
        for _ in range(5):
            copies.step(np.zeros(2, int))
    for before, now in zip(saved, (first, *steps[0]), strict=True):
        np.testing.assert_array_equal(before, now)


def test_a_seed_decides_everything_and_copies_differ():
    env = make("CartPole-v1")
    with env.open(2) as copies:
        first = copies.reset([1, 2])
        again = copies.reset([1, 2])
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])


class Shifted(Counter):
    action_space = Discrete(3, start=-1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_choices_count_from_zero_wherever_the_space_starts(dtype):
    env = GymnasiumEnvironment(Shifted)
    assert env.action_space == ours.Discrete(3)
    with env.open(3) as copies:
        _, (step,) = play(copies, [0, 0, 0], [np.arange(3, dtype=dtype)])
    np.testing.assert_array_equal(step.reward, [9.0, 10.0, 11.0])


def test_spaces_keep_shape_dtype_and_bounds():
    env = make("HalfCheetah-v5")
    assert env.observation_space == ours.Box(-np.inf, np.inf, (17,), np.float64)
    assert env.action_space == ours.Box(-1.0, 1.0, (6,), np.float32)


def test_the_real_minatar_through_gymnasium():
    env = make("gymnasium/MinAtar/Breakout-v1")
    assert env.observation_space == ours.Box(False, True, (10, 10, 4), bool)
    assert env.action_space == ours.Discrete(3)
    with env.open(2) as copies:
        first, steps = play(copies, [0, 1], [np.array([0, 1])] * 30)
    assert first.dtype == bool
    assert any(step.terminated.any() for step in steps)


def test_atari_through_ale():
    pytest.importorskip("ale_py", reason="Atari is an extra of its own: eligrad[atari]")
    env = make("ALE/Pong-v5")
    assert env.observation_space == ours.Box(0, 255, (210, 160, 3), np.uint8)
    with env.open(1) as copies:
        _, steps = play(copies, [0], [np.array([2])] * 3)
        assert steps[-1].observation.dtype == np.uint8
        assert copies.snapshot() is None
        assert copies.obstacle == "AtariEnv.ale is a ale_py._ale_py.ALEInterface"


def test_frames():
    with GymnasiumEnvironment(Counter, render_mode="rgb_array").open(2) as copies:
        play(copies, [0, 0], [np.zeros(2, int)])
        frames = copies.render()
    assert [frame.tolist() for frame in frames] == [[[[1, 1, 1]] * 2] * 2] * 2


def test_wrapped_by_the_user():
    env = GymnasiumEnvironment(lambda: TimeLimit(Counter(length=9), 2))
    with env.open(1) as copies:
        _, steps = play(copies, [0], [np.zeros(1, int)] * 2)
    assert steps[1].truncated[0]
    np.testing.assert_array_equal(steps[1].next_observation, [[0, 2, 0]])
    np.testing.assert_array_equal(steps[1].observation, [[1, 0, 0]])


class Without(Counter):
    def reset(self, **options):
        return super().reset(**options)[0]


class Old(Counter):
    def step(self, action):
        return super().step(action)[:4]


def test_what_older_versions_of_gym_return_is_refused():
    without, old = (GymnasiumEnvironment(each).open(1) for each in (Without, Old))
    with pytest.raises(ValueError, match=r"reset of Without returned ndarray without info; \("):
        without.reset([0])
    old.reset([0])
    with pytest.raises(ValueError, match="step of Old returned 4 values; five are accepted"):
        old.step(np.zeros(1, int))


class Mixed(Counter):
    observation_space = Dict({"a": Box(0, 1, (2,)), "b": Discrete(3)})

    def reset(self, *, seed=None, options=None):
        return {"a": np.ones(2, np.float32), "b": 1}, {}


def test_observations_that_are_flattened_already():
    with GymnasiumEnvironment(lambda: FlattenObservation(Mixed())).open(1) as copies:
        np.testing.assert_array_equal(copies.reset([0]), [[1, 1, 0, 1, 0]])


@pytest.mark.parametrize(
    ("env_id", "actions", "error", "match"),
    [
        ("CartPole-v1", np.zeros(2, np.float32), TypeError, r"float32 for CartPole-v1.*integers"),
        ("CartPole-v1", np.array([0, 2]), ValueError, r"action 2 of copy 1 is out of range.*0 … 1"),
        ("CartPole-v1", np.array([-1, 0]), ValueError, "action -1 of copy 0"),
        ("CartPole-v1", np.zeros((2, 1), int), ValueError, r"shape \(2, 1\).*expected \(2,\)"),
        ("Pendulum-v1", np.zeros((2, 1), int), TypeError, "floats"),
        ("Pendulum-v1", np.zeros((1, 1), np.float32), ValueError, r"expected \(2, 1\)"),
        ("Pendulum-v1", np.array([[0.0], [2.1]], np.float32), ValueError, r"\[2.1\] of copy 1"),
        ("Pendulum-v1", np.array([[np.nan], [0]], np.float32), ValueError, r"\[nan\] of copy 0"),
    ],
)
def test_actions_that_do_not_fit(env_id, actions, error, match):
    with make(env_id).open(2) as copies:
        copies.reset([0, 1])
        with pytest.raises(error, match=match):
            copies.step(actions)


@pytest.mark.parametrize(
    ("fault", "error", "match"),
    [
        ("reset shape", ValueError, r"reset of Faulty returned.*\(1,\).*says \(3,\)"),
        ("reset dtype", TypeError, "reset of Faulty returned.*complex.*says float32"),
        ("step dtype", TypeError, "step of Faulty returned.*complex.*says float32"),
        ("step shape", ValueError, r"step of Faulty returned.*\(1,\).*says \(3,\)"),
        ("step flag", TypeError, "terminated is 'False'; True or False is accepted"),
        ("step error", ZeroDivisionError, "fell over"),
    ],
)
def test_faulty_simulators(fault, error, match):
    with (
        GymnasiumEnvironment(Faulty, fault=fault).open(1) as copies,
        pytest.raises(error, match=match),
    ):
        play(copies, [0], [np.zeros(1, int)])


class Remembers(Counter):
    """Changes the actions that it is given, after it has noted them."""

    def __init__(self, space):
        super().__init__(length=100)
        self.action_space, self.taken = space, []

    def step(self, action):
        self.taken.append(np.array(action))
        action -= 1
        return self._observe(), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("space", "actions", "taken"),
    [
        (Box(-1, 1, (2,), np.float32), np.float32([[0.5, -1.0]]), [0.5, -1.0]),
        (MultiDiscrete([3, 3]), np.array([[1, 2]]), [1, 2]),
        # Whole numbers: each is taken in an interval of one length around it.
        (Box(-3, 3, (2,), np.int64), np.float32([[0.6, -2.6]]), [1, -3]),
    ],
)
def test_environments_may_change_the_actions_they_get(space, actions, taken):
    actions.flags.writeable = False  # as JAX's are
    env = GymnasiumEnvironment(Remembers, space=space)
    with env.open(1) as copies:
        copies.reset([0])
        copies.step(actions)
        np.testing.assert_array_equal(copies._envs[0].unwrapped.taken, [taken])


def test_other_misuse():
    env = GymnasiumEnvironment(Counter)
    with pytest.raises(ValueError, match="num_copies is 0"):
        env.open(0)
    with pytest.raises(ValueError, match="max_episode_steps is 0"):
        GymnasiumEnvironment(Counter, max_episode_steps=0)
    with pytest.raises(TypeError):
        GymnasiumEnvironment(Counter())
    with pytest.raises(TypeError, match=r"returned 3.*gymnasium\.Env"):
        GymnasiumEnvironment(lambda: 3)
    with pytest.raises(ValueError, match="Autoreset; leave the wrapper away"):
        GymnasiumEnvironment(lambda: Autoreset(Counter()))
    with env.open(2) as copies:
        with pytest.raises(ValueError, match="before reset"):
            copies.step(np.zeros(2, int))
        with pytest.raises(ValueError, match="1 seeds for 2 copies"):
            copies.reset([0])
        with pytest.raises(ValueError, match="seed -1 is negative"):
            copies.reset([0, -1])
    copies.close()


def test_a_module_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    with pytest.raises(ModuleNotFoundError, match=r"'gridmod:Grid-v0' asks .*to PYTHONPATH"):
        GymnasiumEnvironment("gridmod:Grid-v0")
    # What the module itself lacks is another matter.
    (tmp_path / "needy_module.py").write_text("import absent_module")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'absent_module'$"):
        GymnasiumEnvironment("needy_module:Grid-v0")
