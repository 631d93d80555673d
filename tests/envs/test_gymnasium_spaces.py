"""Spaces that are not arrays: observations are flattened, choices are several at once."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import eligrad
from eligrad.cli import evaluate
from eligrad.cli import train as cli_train
from eligrad.envs import MultiDiscrete, make
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.spaces import space_from_json, space_to_json
from eligrad.runs.folder import RunFolder
from eligrad.training import train


class Sampler(gymnasium.Env):
    """Observes elements of a space at random; any choices within range are right."""

    def __init__(self, observations: spaces.Space, actions: spaces.Space) -> None:
        self.observation_space, self.action_space = observations, actions
        self.taken = []

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.observation_space.seed(seed)
        self.step_number = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.taken.append(np.array(action))
        self.step_number += 1
        observation = self.observation_space.sample()
        return observation, float(np.sum(action)), self.step_number == 5, False, {}


ONE = spaces.Discrete(2)
OBSERVATIONS = {
    "Discrete": spaces.Discrete(5, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Dict": spaces.Dict(
        where=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2, 2)), lamps=spaces.MultiBinary(2)
    ),
    "Tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 255, (2,), np.uint8))),
}


def numbers(space: spaces.Space, observation) -> list[float]:
    """An observation as a vector, written down once more."""
    if isinstance(space, spaces.Discrete):
        return [float(i + space.start == observation) for i in range(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.nvec, observation, strict=True)
        return [float(i == value) for n, value in pairs for i in range(n)]
    if isinstance(space, spaces.Dict):
        each = ((space[key], observation[key]) for key in space)
    elif isinstance(space, spaces.Tuple):
        each = zip(space, observation, strict=True)
    else:
        return np.asarray(observation, float).ravel().tolist()
    return [number for inner, value in each for number in numbers(inner, value)]


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_are_flattened(kind):
    space = OBSERVATIONS[kind]
    env = GymnasiumEnvironment(lambda: Sampler(space, ONE))
    space.seed(7)
    sampled = [numbers(space, space.sample()) for _ in range(7)]  # two episodes begin
    with env.open(1) as copies:
        seen = [copies.reset([7])[0]]
        for _ in range(5):
            reached = copies.step(np.zeros(1, int))
            seen.append(reached.next_observation[0])
        seen.append(reached.observation[0])
    assert reached.terminated[0]
    np.testing.assert_array_equal(np.stack(seen), np.array(sampled, np.float32))
    assert all(env.observation_space.contains(each) for each in seen)
    space.seed(7)
    np.testing.assert_array_equal(env.flatten(space.sample()), seen[0])
    assert f"{space}: flattened to {len(seen[0])} numbers" in str(env.note)


def test_arrays_stay_as_they_are():
    env = make("CartPole-v1")
    assert env.note is None
    image = np.zeros((2, 3), np.uint8)
    plain = GymnasiumEnvironment(lambda: Sampler(spaces.Box(0, 255, (2, 3), np.uint8), ONE))
    assert plain.flatten(image) is image


def test_several_choices_at_once():
    made = []

    def build():
        made.append(Sampler(spaces.Discrete(2), spaces.MultiDiscrete([3, 2], start=[1, 0])))
        return made[-1]

    env = GymnasiumEnvironment(build)
    assert env.action_space == MultiDiscrete((3, 2))
    assert env.action_space.contains(np.array([2, 1]))
    assert not env.action_space.contains(np.array([2, 2]))
    assert not env.action_space.contains(2)
    assert space_from_json(space_to_json(env.action_space)) == env.action_space
    with env.open(1) as copies:
        copies.reset([0])
        copies.step(np.array([[2, 1]]))
        np.testing.assert_array_equal(made[-1].taken, [[3, 1]])
        with pytest.raises(ValueError, match=r"action \[0 2\] of copy 0 .* accepted: 0 … \[2 1\]"):
            copies.step(np.array([[0, 2]]))
        with pytest.raises(TypeError, match="integers"):
            copies.step(np.array([[0.0, 1.0]]))


@pytest.mark.parametrize("agent", ["gradient-ac", "ppo"])
def test_agents_with_a_policy_learn_several_choices(agent, quickest_compilation, tmp_path):
    """The reward is the sum of the choices: the largest are the best."""
    settings = {"ppo": {"rollout": 100, "minibatch_size": 50}}.get(agent, {})
    env = GymnasiumEnvironment(lambda: Sampler(spaces.Discrete(2), spaces.MultiDiscrete([3, 2])))
    learner = eligrad.learner(agent)(env, **settings).learn(3_000)
    assert learner.predict(np.array([1.0, 0.0]))[0].tolist() == [2, 1]
    assert learner.predict(np.eye(2))[0].shape == (2, 2)
    if agent == "gradient-ac":
        learner.save(tmp_path / "a.npz")
        online = eligrad.Online.from_run(tmp_path / "a.npz", env=env)
        action = online.observe(env.flatten(1))
        assert env.action_space.contains(action)
        online.save(tmp_path / "online.npz")
        assert np.array_equal(eligrad.Online.load(tmp_path / "online.npz").action, action)


def test_what_is_not_supported_is_said_with_a_way_out():
    def refused(observations: spaces.Space, actions: spaces.Space, agent=GymnasiumEnvironment):
        with pytest.raises(ValueError, match=r"accepted|take such actions") as caught:
            agent(lambda: Sampler(observations, actions))
        return str(caught.value)

    sequence = refused(spaces.Sequence(spaces.Discrete(2)), ONE)
    assert "observations of Sequence(" in sequence
    assert "gymnasium.wrappers.TransformObservation" in sequence
    for actions in (spaces.Dict(a=ONE), spaces.MultiDiscrete([[2, 3]])):
        message = refused(ONE, actions)
        assert f"actions of {actions}" in message
        assert "gymnasium.wrappers.TransformAction" in message
    several = refused(ONE, spaces.MultiDiscrete([2, 3]), eligrad.QRC)
    assert "several choices at once, of shape (2,)" in several
    assert "stream-ac, gradient-ac, ppo and gradient-ppo" in several


def test_toy_text_from_the_command_line(tmp_path, capsys, quickest_compilation):
    """Trained, resumed as if never stopped, evaluated, and continued on a stream."""
    run, quiet = tmp_path / "run", ["--no-progress", "--no-cache"]
    command = ["qrc", "FrozenLake-v1", "--exploration-fraction", "1", "--seeds", "1"]
    assert cli_train.main([*command, "--steps", "60", "--out", str(run), *quiet]) == 0
    assert "FrozenLake-v1 observes Discrete(16): flattened to 16" in capsys.readouterr().out
    online = eligrad.Online.from_run(run)
    assert online.observe(np.eye(16)[0]) in range(4)
    assert online.observe(np.eye(16)[1], 0.0) in range(4)
    assert cli_train.main(["--resume", str(run), "--steps", "120", *quiet]) == 0
    straight = train("qrc", "FrozenLake-v1", steps=120, exploration_steps=60)
    assert straight.episodes.num_rows > 5
    assert RunFolder(run).tables().episodes.equals(straight.episodes)
    assert evaluate.main([str(run), "--episodes", "2", "--max-steps", "100"]) == 0
    assert "QRC(λ) on FrozenLake-v1: return of an episode after 120" in capsys.readouterr().out


def test_bounds_in_float64_accept_what_float32_rounds_outwards():
    """float32(0.1) is above 0.1; the environment gets an action within its own bounds."""
    actions = spaces.Box(-0.1, 0.1, (2,), np.float64)
    env = Sampler(spaces.Box(-1, 1, (2,)), actions)
    copies = GymnasiumEnvironment(lambda: env).open(1)
    copies.reset([0])
    copies.step(np.array([[-0.1, 0.1]], np.float32))  # Sampler asks whether it contains them
    assert env.taken[-1].dtype == np.float64
    np.testing.assert_array_equal(env.taken[-1], [-0.1, 0.1])
    with pytest.raises(ValueError, match="out of range"):
        copies.step(np.array([[0.0, 0.1001]], np.float32))
    with pytest.raises(ValueError, match="out of range"):
        copies.step(np.array([[0.0, np.float32(0.1)]], np.float64))
