"""The probes as environments of Gymnasium."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.wrappers import RenderCollection

from eligrad.envs import make, probes
from eligrad.envs.adapters.to_gymnasium import GymnasiumFromJax, to_gymnasium_space
from eligrad.envs.minatar.render import render
from eligrad.envs.names import PROBES
from eligrad.envs.probes_gymnasium import make_probe

pytestmark = pytest.mark.usefixtures("quick_compilation")

NAMES = list(PROBES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*The environment.*:UserWarning")
def test_gymnasium_accepts_the_probes(name):
    gymnasium_check_env(GymnasiumFromJax(make_probe(name).jax_env), skip_render_check=True)
    for by_name in (name, f"eligrad.envs.probes_gymnasium:{name}"):
        core = gym.make(by_name).unwrapped
        assert isinstance(core, GymnasiumFromJax)
        assert core.jax_env.name == name


def test_unknown_probes_are_named():
    with pytest.raises(ValueError, match=r"Probe/Rewrad-v0.*Probe/Reward-v0"):
        make_probe("Probe/Rewrad-v0")


def test_a_step_needs_an_episode():
    env = make_probe("Probe/Reward-v0")
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(0)


def test_resets_without_a_seed_differ_and_seeds_repeat():
    env = make_probe("Probe/Truncation-v0")
    unseeded = {env.reset()[0].argmax() for _ in range(30)}
    assert len(unseeded) > 3
    first = [env.reset(seed=5)[0], *(env.reset()[0] for _ in range(5))]
    again = [env.reset(seed=5)[0], *(env.reset()[0] for _ in range(5))]
    np.testing.assert_array_equal(first, again)


def test_an_environment_pickles_in_the_middle_of_an_episode():
    env = make_probe("Probe/Truncation-v0")
    env.reset(seed=1)
    env.step(0)
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(4):
        for mine, others in zip(env.step(0), twin.step(0), strict=True):
            np.testing.assert_array_equal(mine, others)
        if env._ended:
            np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_parameters_reach_the_environment():
    from tests.envs.test_wrappers import Corridor

    env = GymnasiumFromJax(Corridor(), {"stride": 2.5, "goal": 5.0})
    env.reset(seed=0)
    assert env.step(0)[:3] == (np.float32([2.5]), 1.0, False)
    assert env.step(0)[1:3] == (10.0, True)
    env.reset()
    assert env._state.episodes == 1, "the next episode is a restart, not a first beginning"


@pytest.mark.parametrize(
    "space",
    [
        probes.Discrete(3),
        probes.Box(-1.0, np.float32([1.0, 2.0]), (2,)),
        probes.Box(False, True, (2, 2), np.bool_),
        probes.Box(0, 255, (3,), np.uint8),
        probes.Box(-np.inf, np.inf, (2,)),
    ],
)
def test_spaces_have_the_same_elements(space):
    theirs = to_gymnasium_space(space)
    for _ in range(5):
        sample = theirs.sample()
        assert space.contains(np.asarray(sample, space.dtype))
        assert theirs.contains(sample)


def test_gymnasium_films_what_jax_draws():
    game = make("MinAtar/Breakout-v1")
    env = RenderCollection(GymnasiumFromJax(game, render_mode="rgb_array"))
    observation, _ = env.reset(seed=3)
    following, *_ = env.step(1)
    frames = env.render()
    np.testing.assert_array_equal(frames, render(np.stack([observation, following])))
    assert GymnasiumFromJax(game).render() is None
    with pytest.raises(ValueError, match="render_mode is 'human'; None or 'rgb_array' is accepted"):
        GymnasiumFromJax(game, render_mode="human")
