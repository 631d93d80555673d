"""Defaults that depend on the observation: the same ones wherever an agent is made."""

from __future__ import annotations

import json

import pytest

import eligrad
from eligrad.agents import AGENTS, QLambdaConfig, make_settings, registry
from eligrad.analysis.report.commands import commands
from eligrad.cli.train import main, parse
from eligrad.envs import make
from eligrad.runs.configuration import Configuration
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import Spec, Sweep
from eligrad.training import prepare

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


@pytest.mark.parametrize(("env", "changes", "expected"), CASES)
def test_the_command_line_passes_on_what_was_typed(env, changes, expected):
    command = parse(["qrc", env, "--steps=10", "--no-progress", *options(changes)])
    assert command.chosen == changes
    assert shown(prepare("qrc", env, steps=10, **command.chosen).plan.settings) == expected


@pytest.mark.parametrize(("env", "changes", "expected"), CASES)
def test_the_command_in_a_report_does_not_rely_on_defaults(env, changes, expected):
    plan = prepare("qrc", env, steps=10, **changes).plan
    (text,) = commands(vars(Configuration.of_plan(plan.to_json())), [0])
    again = parse(text.split()[2:])
    settings = prepare("qrc", env, steps=10, **again.chosen).plan.settings
    assert settings == plan.settings
    assert shown(settings) == expected


def test_a_run_from_the_command_line_and_its_file_given_again(tmp_path):
    first = ["qrc", VECTORS, "--seeds", 1]
    for name, words in (("first", first), ("again", ["--config", tmp_path / "first"])):
        out = ["--out", tmp_path / name, "--steps", 20, "--no-progress"]
        assert main([*map(str, [*words, *out])]) == 0
        written = json.loads((tmp_path / name / "config.json").read_text())["plan"]["settings"]
        assert shown(written) == OBGD


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
