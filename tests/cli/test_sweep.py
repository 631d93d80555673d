"""`eligrad sweep` and `eligrad two-stage` from the outside."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from typing import ClassVar

import pytest

from eligrad.cli import many_runs
from eligrad.cli import reproduce as cli_reproduce
from eligrad.cli import sweep as cli_sweep
from eligrad.cli import two_stage as cli_two_stage
from eligrad.sweeps import worker
from eligrad.sweeps.executors import EXECUTORS
from tests.sweeps.small_sweeps import Inline, quick_training

__all__ = ["quick_training"]

SPEC = """
steps = 400
seeds = 2
agents = ["qrc"]
envs = ["Probe/OffPolicy-v0"]
[grid]
lam = [0.0, 0.9]
"""


@pytest.fixture
def here(tmp_path, quick_training, monkeypatch):
    """A spec, and workers in this process."""
    monkeypatch.setattr(many_runs.Training, "make_executor", lambda self: Inline())
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


def test_sweep_prints_its_results(here, capsys, monkeypatch):
    command = [str(here / "spec.toml"), "--store", str(here / "store"), "--no-progress"]
    assert cli_sweep.main(command) == 0
    printed = capsys.readouterr().out
    assert "4 runs, to" in printed
    assert "lam=0.9" in printed
    assert printed.count("2/2") == 2
    (here / "spec.toml").write_text(SPEC.replace("seeds = 2", "seeds = 3"))

    def bad(*arguments, **options):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(worker, "train", bad)
    assert cli_sweep.main(command) == 1
    printed = capsys.readouterr()
    assert printed.err.count("RuntimeError: out of luck") == 2
    assert "2 of 6 runs failed" in printed.err
    assert printed.out.count("2/3") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPEC.replace("lam", "lamm"), "unknown setting of qrc 'lamm'; did you mean 'lam'"),
        (SPEC.replace("[0.0, 0.9]", "[]"), "grid.lam is empty"),
        (SPEC.replace("OffPolicy", "OfPolicy"), "did you mean 'Probe/OffPolicy-v0'"),
        (SPEC.replace("0.9", "'much'"), "lam is 'much'; a number is accepted"),
    ],
)
def test_typos_are_refused_before_anything_runs(here, capsys, text, message):
    (here / "spec.toml").write_text(text)
    command = [str(here / "spec.toml"), "--store", str(here / "store")]
    assert cli_sweep.main(command) == 2
    assert message in capsys.readouterr().err
    assert not (here / "store").exists()


def test_two_stage_reports_the_second_only(here, capsys):
    (here / "spec.toml").write_text(SPEC + "[stage_two]\nseeds = 3\n")
    command = [str(here / "spec.toml"), "--store", str(here / "store"), "--no-progress"]
    assert cli_two_stage.main(command) == 0
    printed = capsys.readouterr().out
    assert "stage 1: 4 runs" in printed
    assert "chosen of 2 configurations" in printed
    assert "stage 2: 3 runs" in printed
    assert printed.count("3/3") == 1
    assert "2/2" not in printed


def test_two_stage_leaves_the_store_of_a_sweep_alone(here, capsys):
    """Its runs would be reported beside those of stage 2."""
    (here / "spec.toml").write_text(SPEC + "[stage_two]\nseeds = 3\n")
    (here / "store" / "runs").mkdir(parents=True)
    assert cli_two_stage.main([str(here / "spec.toml"), "--store", str(here / "store")]) == 2
    assert "is the store of a sweep; --store takes another folder" in capsys.readouterr().err
    assert [path.name for path in (here / "store").iterdir()] == ["runs"]


@dataclasses.dataclass(frozen=True)
class MineOptions:
    """Options of an executor of one's own."""

    mine_speed: int = 1
    """How fast it is."""


class Mine(Inline):
    """An executor of one's own."""

    Options = MineOptions
    made: ClassVar = []

    def __init__(self, workers, options):
        super().__init__(workers or 1)
        self.made.append(options.mine_speed)


@pytest.fixture
def mine(monkeypatch):
    """The command line with one executor more."""
    modules = (many_runs, cli_sweep, cli_two_stage, cli_reproduce)
    with monkeypatch.context() as patch:
        patch.setitem(EXECUTORS, "mine", f"{__name__}:Mine")
        for module in modules:
            importlib.reload(module)
        yield
    for module in modules:
        importlib.reload(module)


@pytest.mark.usefixtures("mine", "quick_training")
def test_a_new_executor_is_a_class_and_a_line_in_the_registry(tmp_path, capsys):
    """Its options, too, are options of the command."""
    (tmp_path / "spec.toml").write_text(SPEC)
    command = [str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store"), "--no-progress"]
    assert cli_sweep.main([*command, "--executor", "mine", "--mine-speed", "3"]) == 0
    assert Mine.made == [3]
    assert capsys.readouterr().out.count("2/2") == 2
    with pytest.raises(SystemExit):
        cli_sweep.main(["--help"])
    printed = capsys.readouterr().out
    for option in ("--mine-speed", "--ray-address", "--slurm-partition", "--slurm-timeout-min"):
        assert option in printed


def test_an_unknown_executor_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "spec.toml").write_text(SPEC)
    command = [str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store")]
    assert cli_sweep.main([*command, "--executor", "rya"]) == 2
    assert "unknown executor 'rya'; did you mean 'ray'" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("env", "trusted"),
    [("Probe/OffPolicy-v0", False), ("tests.sweeps.small_sweeps:Test/Fragile-v0", False),
     ("my_fragile:Test/Fragile-v0", True)],
)  # fmt: skip
def test_the_current_folder_is_in_the_path_only_for_a_module_in_it(
    here, capsys, monkeypatch, env, trusted
):
    """Else a file in it could be taken for a package that is looked for and not installed."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", os.getcwd())])
    monkeypatch.syspath_prepend(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    monkeypatch.chdir(here)
    (here / "my_fragile.py").write_text("import tests.sweeps.small_sweeps")
    monkeypatch.delitem(sys.modules, "my_fragile", raising=False)
    (here / "spec.toml").write_text(SPEC.replace("Probe/OffPolicy-v0", env))
    assert cli_sweep.main(["spec.toml", "--no-progress"]) == 0
    assert (str(here) in sys.path) == trusted
