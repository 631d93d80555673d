"""What a user installs: bounded dependencies, a lock without hosts, a core that stands alone."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_dependency_has_both_bounds():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (r for group in groups for r in group if not r.startswith("eligrad[")):
        assert re.fullmatch(r"[\w\-\[\]]+>=[\d.]+,<[\d.]+", requirement), requirement


def test_the_lock_names_versions_and_no_hosts():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 50
    for line in pins:
        assert re.fullmatch(r"[\w.\-]+==[\w.]+", line), line
    locked = {line.split("==")[0].lower().replace("_", "-") for line in pins}
    for requirement in PROJECT["dependencies"]:
        assert re.split(r"[>\[]", requirement)[0] in locked


def test_the_lowest_versions_are_those_of_the_bounds():
    command = [sys.executable, ROOT / ".ci" / "lowest.py", "gymnasium", "mujoco", "pytest"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    extras = PROJECT["optional-dependencies"]
    (pytest,) = [each for each in extras["dev"] if each.startswith("pytest>")]
    wanted = {*PROJECT["dependencies"], *extras["gymnasium"], *extras["mujoco"], pytest}
    assert len(printed) == len(wanted)
    for pin in printed:
        name, version = pin.split("==")
        assert [each for each in wanted if each.startswith(f"{name}>={version},<")]


def test_training_needs_no_optional_package():
    """As on a machine with the core alone, and without the command line's parser."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
BLOCKED = {"gymnasium", "mujoco", "minatar", "gymnax", "brax", "ale_py", "tyro", "flax", "pandas"}
sys.meta_path.insert(0, Refuse())
import eligrad.demo, eligrad.problems
import numpy as np
from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.envs import make
from eligrad.engines import Runs
env = make("MinAtar/Breakout-v1")
agent = QLambda(PRESETS["qrc"], default_network(env.observation_space.shape, env.action_space.n))
runs = Runs(agent, env, env.default_params(), np.arange(1), np.arange(1))
assert runs.advance(3).ended.shape == (1, 3)
try:
    make("CartPole-v1")
except ImportError as error:
    assert "eligrad[gymnasium]" in str(error), error
else:
    raise AssertionError("gymnasium was there")
print("trained")
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.stdout.strip() == "trained", result.stderr
