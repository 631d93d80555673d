"""Environments by name: ours, the users', and those of other suites."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from unittest import mock

import pytest

from eligrad.envs import Box, Discrete, Environment, list_envs, make, names, register
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.wrappers import TimeLimit
from tests.envs.tiny import Counter


class Corridor(Environment):
    name = "Corridor"
    observation_space = Box(0.0, 1.0, (1,))
    action_space = Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length = length


@pytest.fixture(autouse=True)
def unregister():
    with mock.patch.dict(names.REGISTERED):
        yield


@pytest.mark.parametrize("name", sorted(names.REGISTERED))
def test_every_name_makes_its_environment(name):
    env = make(name)
    assert isinstance(env, Environment)
    assert env.name == name


def test_our_names_are_listed():
    games = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
    assert {f"MinAtar/{game}-v1" for game in games} <= set(list_envs())
    assert list_envs() == sorted(list_envs())


@pytest.mark.parametrize("entry_point", [Corridor, f"{__name__}:Corridor"])
def test_users_register_their_own(entry_point):
    register("Corridor-v0", entry_point)
    assert "Corridor-v0" in list_envs()
    env = make("Corridor-v0", length=7)
    assert type(env).__name__ == "Corridor"
    assert env.length == 7


def test_a_time_limit_for_any_name():
    register("Corridor-v0", Corridor)
    env = make("Corridor-v0", max_episode_steps=9)
    assert isinstance(env, TimeLimit)
    assert env.max_steps == 9
    assert make("CartPole-v1", max_episode_steps=9).max_episode_steps == 9
    register("Counter-v0", lambda: GymnasiumEnvironment(Counter))
    assert isinstance(make("Counter-v0"), GymnasiumEnvironment)
    with pytest.raises(ValueError, match=r"max_episode_steps is 9.*ready-made"):
        make("Counter-v0", max_episode_steps=9)


def test_registering_what_cannot_be():
    with pytest.raises(ValueError, match="is taken by"):
        register("MinAtar/Breakout-v1", Corridor)
    with pytest.raises(ValueError, match="another suite"):
        register("gymnax/Corridor", Corridor)
    with pytest.raises(ValueError, match=r"package.module:Class"):
        register("Corridor-v0", "corridor.Corridor")
    register("Counter-v0", Counter)
    with pytest.raises(TypeError, match=r"register a function that returns GymnasiumEnvironment"):
        make("Counter-v0")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("MinAtar/Brekout-v1", "MinAtar/Breakout-v1"),
        ("MinAtar/Breakout-v0", "MinAtar/Breakout-v1"),
        ("minatar/breakout-v1", "MinAtar/Breakout-v1"),
        ("HalfCheeta-v5", "HalfCheetah-v5"),
        ("halfcheetah-v5", "HalfCheetah-v5"),
        ("Ant-v7", "Ant-v5"),
    ],
)
def test_unknown_names_suggest_the_nearest(wrong, meant):
    with pytest.raises(
        ValueError, match=f"unknown environment '{wrong}'; did you mean .*'{meant}'"
    ):
        make(wrong)


def test_names_like_no_other_get_no_suggestion():
    with pytest.raises(ValueError, match=r"unknown environment 'xyzzy#'$"):
        make("xyzzy#")


def outcome(code: str, *, without: tuple[str, ...] = ()) -> str:
    """What the code prints in a process of its own, where some packages are not installed."""
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    # None in sys.modules makes imports fail; find_spec says ValueError, so it is taught as well.
    teach = textwrap.dedent(f"""
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda n, *a: None if n in {without!r} else find(n, *a)
    """)
    script = f"import sys\n{hidden}{teach}\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_missing_packages_name_their_extra():
    printed = outcome(
        """
        from eligrad.envs import make
        names = ["HalfCheetah-v5", "ALE/Pong-v5", "gymnasium/MinAtar/Breakout-v1",
                 "gymnax/CartPole-v1", "brax/ant"]
        for name in names:
            try:
                make(name)
            except ImportError as error:
                print(name, "|", error)
        """,
        without=("mujoco", "ale_py", "minatar", "gymnax", "brax"),
    )
    lines = printed.splitlines()
    assert [line.split("eligrad[")[1] for line in lines] == [
        "mujoco]'", "atari]'", "minatar]'", "gymnax]'", "brax]'"
    ]  # fmt: skip
    assert all("pip install" in line for line in lines)


def test_our_own_environments_need_no_gymnasium():
    printed = outcome(
        """
        import eligrad.envs
        print(eligrad.envs.make("MinAtar/Breakout-v1"))
        heavy = {"gymnasium", "mujoco", "minatar", "gymnax", "brax", "tyro"}
        print(sorted(name for name in heavy if sys.modules.get(name)))
        for name in ("HalfCheetah-v5", "Breakout-v1"):
            try:
                eligrad.envs.make(name)
            except ImportError as error:
                print(error)
        """,
        without=("gymnasium",),
    ).splitlines()
    assert printed[1] == "[]"
    assert "eligrad[gymnasium]" in printed[2]
    assert "did you mean 'MinAtar/Breakout-v1'" in printed[3]


def test_messages_without_runtime_type_checks():
    printed = outcome(
        """
        from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
        import gymnasium
        try:
            GymnasiumEnvironment(gymnasium.make("CartPole-v1"))
        except TypeError as error:
            print(error)
        """
    )
    assert "every copy is built anew" in printed
