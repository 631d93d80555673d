"""Environments that a module of the user's registers, by command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eligrad.analysis import load_runs
from eligrad.cli import play as cli_play
from eligrad.cli import train as cli_train
from eligrad.cli.modules import look_here
from eligrad.envs import make, names
from eligrad.runs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("quickest_compilation")

MODULE = """
import jax.numpy as jnp

from eligrad.envs import Box, Discrete, Environment, Step, register


class Coin(Environment):
    name = "Mine/Coin-v0"
    observation_space = Box(0.0, 1.0, (1,))
    action_space = Discrete(2)

    def reset(self, key, params):
        return jnp.int32(0), jnp.ones(1)

    def render(self, state, params):
        return jnp.zeros((8, 8, 3), jnp.uint8)

    def step(self, key, state, action, params):
        no, yes = jnp.asarray(False), jnp.asarray(True)
        return Step(state, jnp.ones(1), action.astype(jnp.float32), yes, no)


register("Mine/Coin-v0", Coin)
"""
ENV = "my_coins:Mine/Coin-v0"
TRAIN = ["--steps", "20", "--seeds", "1", "--no-progress", "--no-cache", "--out", "run"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """A folder with that module in it, where the command is typed; all else as it was."""
    (tmp_path / "my_coins.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget(monkeypatch)
    yield
    sys.modules.pop("my_coins", None)


def forget(monkeypatch):
    """As in a new process."""
    monkeypatch.delitem(sys.modules, "my_coins", raising=False)
    monkeypatch.delitem(names.REGISTERED, "Mine/Coin-v0", raising=False)
    sys.path[:] = [folder for folder in sys.path if folder != os.getcwd()]


def test_by_the_name_of_the_module():
    with pytest.raises(ModuleNotFoundError, match=r"'my_coins:.*' asks .* there is no 'my_coins'"):
        make(ENV)
    look_here()
    assert make(ENV).name == "Mine/Coin-v0"
    assert make(ENV, max_episode_steps=3).max_steps == 3
    with pytest.raises(ValueError, match=r"unknown environment 'my_coins:Mine/Coin-v1'"):
        make("my_coins:Mine/Coin-v1")


def test_what_is_installed_comes_first(tmp_path):
    (tmp_path / "numpy.py").touch()
    look_here()
    look_here()
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1
    assert sys.path.count(str(tmp_path)) == 1


def test_commands_find_it_in_the_present_folder_and_files_do_not(monkeypatch, capsys):
    assert cli_train.main(["qrc", ENV, *TRAIN]) == 0
    longer = ["--resume", "run", "--steps", "40", "--no-progress", "--no-cache"]
    for command, arguments in ((cli_train, longer), (cli_play, ["run"])):
        forget(monkeypatch)
        assert command.main(arguments) == 2
        assert "If you trust that" in (said := capsys.readouterr().err)
        assert said.endswith("with --import my_coins\n")
        assert "my_coins" not in sys.modules
    assert cli_train.main([*longer, "--import", "my_coins"]) == 0
    assert RunFolder(Path("run")).summary["steps"] == 40
    forget(monkeypatch)
    assert cli_play.main(["run", "--import", "my_coins"]) == 0
    assert Path("play.gif").read_bytes().startswith(b"GIF8")


def test_a_module_that_is_nowhere(capsys):
    assert cli_train.main(["qrc", "Probe/Trace-v0", *TRAIN, "--import", "my_stamps"]) == 2
    assert "--import is my_stamps: No module named 'my_stamps'; a module" in capsys.readouterr().err
    assert not Path("run").exists()


@pytest.mark.nightly
def test_workers_of_a_sweep_find_it():
    """In processes of their own, begun by the program that is installed."""
    spec = f'steps = 20\nseeds = 2\nagents = ["qrc"]\nenvs = ["{ENV}"]\n'
    Path("spec.toml").write_text(spec)
    program = Path(sys.executable).with_name("eligrad")
    done = subprocess.run(
        [program, "sweep", "spec.toml", "--no-progress"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(load_runs("runs/spec")) == 2
