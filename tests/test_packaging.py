"""What a user installs: bounded dependencies, a lock without hosts, a core that stands alone."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from eligrad._base.optional import TRAIN
from eligrad.training import train

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
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


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert citation["version"] == PROJECT["version"] == newest[1]
    paper = citation["preferred-citation"]
    assert paper["url"] == PROJECT["urls"]["Paper"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Elelimy", "Daley", "Patterson", "Machado", "White", "White",
    ]  # fmt: skip


def test_every_python_that_is_promised_is_tested():
    promised = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: 3." in each]
    elsewhere = re.search(r"^ELSEWHERE := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert elsewhere is not None
    assert set(promised) == set(re.findall(r"python([\d.]+)-", elsewhere[1]))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    setup, run = workflow["jobs"]["test"]["steps"][1:]
    assert set(setup["with"]["python-version"].split()) == set(promised)
    assert run["run"] == ".ci/run"


def test_the_badges_are_true():
    badges = re.findall(r"^!\[(.*?)\]\(https://\S*/badge/(\S*)\)$", README, re.MULTILINE)
    promised = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: 3." in each]
    license_ = PROJECT["license"]
    assert badges == [
        (f"Python {', '.join(promised)}", f"python-{'_%7C_'.join(promised)}-3776ab"),
        (f"License {license_}", f"license-{license_.replace('-', '--')}-2e7d32"),
    ]
    assert "Apache License" in (ROOT / "LICENSE").read_text()


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


REFUSING = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
def told(call):
    try:
        call()
    except ImportError as error:
        return str(error)
    raise AssertionError("nothing was missing")
"""
SIMULATORS = {"gymnasium", "mujoco", "minatar", "gymnax", "brax", "ale_py"}


def run_without(packages: Iterable[str], code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on a machine where these packages are not installed."""
    program = f"BLOCKED = {set(packages)}\n{REFUSING}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )


def test_the_extra_for_training_is_the_one_that_messages_name():
    extra = PROJECT["optional-dependencies"]["train"]
    assert {re.split(">", each)[0] for each in extra} == TRAIN


def test_the_core_stands_alone(tmp_path, quickest_programs):
    """Rules, agents, games and a stream, without tables, plots, command line and simulators.

    The stream goes on from a run that was trained elsewhere, where tables could be written.
    """
    train("q-lambda", "Probe/Trace-v0", steps=5, seeds=[4], out=tmp_path / "run")
    code = (
        f"FOLDER = {str(tmp_path)!r}"
        + """
import numpy as np
import eligrad, eligrad.problems, eligrad.rules
from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.engines import Runs
from eligrad.envs import make
env = make("MinAtar/Breakout-v1")
agent = QLambda(PRESETS["qrc"], default_network(env.observation_space.shape, env.action_space.n))
runs = Runs(agent, env, env.default_params(), np.arange(1), np.arange(1))
assert runs.advance(3).ended.shape == (1, 3)
online = eligrad.Online(agent, seed=0)
online.observe(np.zeros((10, 10, 4), bool))
online.observe(np.ones((10, 10, 4), bool), 1.0)
assert online.steps == 1
online = eligrad.Online.from_run(FOLDER + "/run")
online.observe(np.zeros(online.state.observation.shape))
online.save(FOLDER + "/agent.npz")
assert eligrad.Online.load(FOLDER + "/agent.npz").steps == 5
assert "pip install 'eligrad[gymnasium]'" in told(lambda: make("CartPole-v1"))
install = "which is not installed: pip install 'eligrad[train]'"
assert told(lambda: eligrad.QRC).startswith("eligrad.QRC needs the package 'pandas', " + install)
for package in ("training", "analysis"):
    assert install in told(lambda: __import__(f"eligrad.{package}")), package
assert install in told(lambda: eligrad.load_runs)
from eligrad import sweeps
assert install in told(lambda: sweeps.run_sweep)
from eligrad.cli import main
main(["train", "qrc", "MinAtar/Breakout-v1"])
"""
    )
    result = run_without(TRAIN | SIMULATORS, code)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "eligrad: the command line needs the package 'tyro', which is not installed: "
        "pip install 'eligrad[train]'"
    )
    assert "Traceback" not in result.stderr, result.stderr


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("matplotlib", ["demo"]),
        ("pyarrow", ["train", "qrc", "Probe/Trace-v0", "--steps", "2", "--seeds", "1"]),
        ("pyarrow", ["watch", "run"]),
        ("pandas", ["compare", "run"]),
    ],
)
def test_a_package_that_a_command_needs_later_is_named(
    package, command, tmp_path, monkeypatch, quickest_programs
):
    monkeypatch.chdir(tmp_path)
    train("q-lambda", "Probe/Trace-v0", steps=5, seeds=[4], out=tmp_path / "run")
    code = f"from eligrad.cli import main\nmain({command})"
    result = run_without({package}, code)
    assert "Traceback" not in result.stderr, result.stderr
    assert f"needs the package {package!r}, which is not installed: pip install" in result.stderr


def test_training_needs_no_parser_and_no_frames(quickest_programs):
    """As on a machine that has neither, nor any simulator."""
    code = """
import eligrad.demo
from eligrad.training import train
result = train("qrc", "Probe/Trace-v0", steps=3)
assert result.summary["steps"] == 3
print("trained")
"""
    result = run_without({"tyro", "flax", "pandas", "filelock"} | SIMULATORS, code)
    assert result.stdout.strip() == "trained", result.stderr
