"""Defaults that depend on the observation: the same ones wherever an agent is made."""

from __future__ import annotations

import pytest

import eligrad
from eligrad.agents import AGENTS, QLambdaConfig, make_settings, registry
from eligrad.analysis.report.commands import commands
from eligrad.cli.train import main, parse
from eligrad.envs import make
from eligrad.runs.configuration import Configuration
from eligrad.runs.plan import read_options
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import Spec, Sweep
from eligrad.training import prepare

pytestmark = pytest.mark.usefixtures("quick_compilation")
VECTORS, IMAGES = "Probe/Trace-v0", "MinAtar/Breakout-v1"
OBGD = ("obgd", 1.0, "parameters")
SGD = ("sgd", 1e-4, "output")
CASES = [
    (VECTORS, {}, OBGD),
    (IMAGES, {}, SGD),
    # A user who names another optimiser gets the settings that go with it.
    (VECTORS, {"optimizer": "sgd"}, SGD),
    (VECTORS, {"optimizer": "trace-adam"}, ("trace-adam", 1e-4, "output")),
    (VECTORS, {"optimizer": "obgd"}, OBGD),
    (IMAGES, {"optimizer": "obgd"}, ("obgd", 1e-4, "output")),
    # One default does not take another along, nor does a value that is the other default.
    (VECTORS, {"regularize": "output"}, ("obgd", 1.0, "output")),
    (VECTORS, {"step_size": 1e-4}, ("obgd", 1e-4, "parameters")),
    (VECTORS, {"optimizer": "sgd", "regularize": "parameters"}, ("sgd", 1e-4, "parameters")),
]


def shown(settings):
    values = settings if isinstance(settings, dict) else vars(settings)
    return values["optimizer"], values["step_size"], values["regularize"]


def options(changes):
    return [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]


@pytest.mark.parametrize(("env", "changes", "expected"), CASES)
def test_every_way_to_an_agent_has_the_same_defaults(env, changes, expected):
    shape = make(env).observation_space.shape
    assert shown(make_settings("qrc", changes, observation_shape=shape)) == expected
    assert shown(prepare("qrc", env, steps=10, **changes).plan.settings) == expected
    assert shown(eligrad.Online("qrc", shape, 3, **changes).agent.config) == expected
    (run,) = resolve(Spec([Sweep(["qrc"], [env], 10, 1, changes)]))
    assert shown(run.configuration.settings) == expected


@pytest.mark.parametrize("changes", [case[1] for case in CASES])
def test_the_command_line_passes_on_what_was_typed(changes):
    command = parse(["qrc", VECTORS, "--steps=10", "--no-progress", *options(changes)])
    assert command.chosen == changes


@pytest.mark.parametrize(("env", "changes", "expected"), CASES)
def test_the_command_in_a_report_does_not_rely_on_defaults(env, changes, expected):
    about = {"steps": 10, "observation_shape": make(env).observation_space.shape}
    settings = make_settings("qrc", changes, **about)
    configuration = Configuration("qrc", registry.to_json(settings), env, steps=10)
    (text,) = commands(vars(configuration), [0])
    assert make_settings("qrc", parse(text.split()[2:]).chosen, **about) == settings
    assert shown(settings) == expected


def test_a_run_folder_holds_the_settings_that_held(tmp_path):
    out = ["--out", str(tmp_path / "run"), "--steps", "20", "--seeds", "1", "--no-progress"]
    assert main(["qrc", VECTORS, *out]) == 0
    assert shown(read_options(tmp_path / "run")["settings"]) == OBGD  # what --config begins again


def test_only_agents_that_say_so_have_two_defaults():
    assert [name for name, entry in AGENTS.items() if entry.vectors is not None] == ["qrc"]
    assert registry.get("qrc").vectors == QLambdaConfig(optimizer="obgd", step_size=1.0)
    for name, entry in AGENTS.items():
        if name != "qrc":
            assert make_settings(name, {}, observation_shape=(4,)) == entry.config


def test_the_help_names_the_other_defaults(capsys):
    with pytest.raises(SystemExit):
        parse(["qrc", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "Where observations are vectors the defaults are --regularize parameters, "
        "--step-size 1.0, --optimizer obgd, unless another --optimizer is given." in text
    )
    with pytest.raises(SystemExit):
        parse(["qc", "--help"])
    assert "Where observations are vectors" not in capsys.readouterr().out


def test_seeds_with_settings_of_their_own_are_resumed_from_the_command_line(tmp_path):
    run = tmp_path / "run"
    prepare("qrc", VECTORS, steps=20, seeds=2, lam=[0.5, 0.9], out=run).run()
    assert main(["--resume", str(run), "--steps", "30", "--no-progress"]) == 0
    assert read_options(run)["settings"]["lam"] == [0.5, 0.9]
