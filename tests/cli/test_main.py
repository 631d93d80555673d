"""What all commands share: the version, and an end in silence when nobody reads on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys

import pytest

import eligrad
from eligrad import cli
from eligrad.agents import AGENTS
from eligrad.cli import COMMANDS, main
from eligrad.cli import train as cli_train


def test_version(capsys, monkeypatch):
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.strip() == eligrad.__version__
    assert eligrad.__version__ == importlib.metadata.version("eligrad")
    monkeypatch.setattr(eligrad, "version_of", lambda package: None)
    assert eligrad.__version__ == "unknown"


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """Shells leave it as it is in --out=~/runs, and Python never expands it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as end:
            cli.main(
                ["train", "qrc", "Probe/Trace-v0", "--steps=40", "--seeds=1", "--out=~/made/run"]
            )
    finally:
        signal.signal(signal.SIGINT, handler)  # the command leaves Ctrl-C to the system
    assert end.value.code == 0
    assert (tmp_path / "made/run/summary.json").exists()
    agent = eligrad.load("~/made/run")
    agent.save("~/agents/a.npz")
    eligrad.Online.from_run("~/agents/a.npz").save("~/agents/b/c.npz")
    assert eligrad.Online.load("~/agents/b/c.npz").steps == agent.num_timesteps == 40
    assert len(eligrad.load_runs("~/made")) == 1
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "in between"])
def test_silence_when_nobody_reads_on(tmp_path, unbuffered):
    """As in `eligrad runs ls | head`; lines may be kept back until the end, or not."""
    command = subprocess.Popen(
        [sys.executable, "-m", "eligrad", "runs", "ls", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    command.stdout.close()
    told = command.stderr.read().decode()
    command.stderr.close()
    assert (command.wait(), told) == (141, "")


HEAVY = {"jax", "equinox", "optax", "gymnasium", "pandas", "pyarrow", "scipy", "matplotlib"}
ANSWERED = """
import contextlib, io, json, sys
from eligrad.cli import main
answers = []
for arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as end:
            answers.append((end.code, said.getvalue()))
print(json.dumps([answers, list(sys.modules)]))
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_typos_need_no_large_package(command, tmp_path):
    """They are answered at once."""
    asked = {
        (command, *typed): f"eligrad {command}" for typed in (["--help"], ["--hlep", "a", "b"])
    }
    if command == "train":
        train = ("train", "qrc", "MinAtar/Breakout-v1")
        asked |= {
            ("train", "qrc", "--help"): "--rule td|gtd2|tdc|tdrc",
            ("train", "qcr", "MinAtar/Breakout-v1"): "did you mean 'qc' or 'qrc'",
            ("train", "qrc", "MinAtar/Brekout-v1"): "did you mean 'MinAtar/Breakout-v1'",
            (*train, "--learning-rate", "1"): "here that is '--step-size'",
            (*train, "--lamda", "1"): "--lam",
            (*train, "--lam", "3"): "lam is 3.0; values in [0, 1] are accepted",
            (*train, "--rule", "tdx"): "one of td, gtd2, tdc, tdrc is accepted",
            (*train, "--optimizer", "adm"): "did you mean 'adam'",
            ("train", "ppo", "CartPole-v1", "--rollout", "7"): "minibatch_size must divide rollout",
        }
    if command == "completion":
        asked[command, "bash"] = "MinAtar/Breakout-v1"
    if command in ("sweep", "two-stage"):
        toml, python, sound = (tmp_path / name for name in ("typos.toml", "typos.py", "sound.toml"))
        sound.write_text('steps = 9\nagents = ["qrc", "gradient-ppo"]\nenvs = ["Probe/Trace-v0"]')
        toml.write_text(sound.read_text().replace("Trace", "Trase"))
        python.write_text(
            "from eligrad.sweeps import Sweep\n"
            "sweep = Sweep(['qrc', 'qrcc'], ['Probe/Trace-v0'], 9)\n"
        )
        asked |= {
            (command, str(toml)): "did you mean 'Probe/Trace-v0'",
            (command, str(python)): "did you mean 'qrc'",
            (command, str(sound), "--executor", "rya"): "did you mean 'ray'",
            (command, str(sound), "--workers", "0"): "workers is 0; 1 or more is accepted",
        }
    if command == "two-stage":
        asked[command, str(sound)] = "stage_two.seeds is missing"
    done = subprocess.run(
        [sys.executable, "-c", ANSWERED, json.dumps(list(asked))], capture_output=True, text=True
    )
    answers, modules = json.loads(done.stdout)
    for (arguments, wanted), (code, said) in zip(asked.items(), answers, strict=True):
        assert wanted in said, arguments
        assert code == (0 if {"--help", "bash"} & set(arguments) else 2), arguments
    assert not HEAVY & set(modules)


def test_without_a_command_or_with_an_unknown_one(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in COMMANDS)
    with pytest.raises(SystemExit) as stop:
        main(["trian"])
    assert stop.value.code == 2
    assert "unknown command 'trian'; did you mean 'train'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["tr"], {"train"}),
        (["train", "stream"], {name for name in AGENTS if name.startswith("stream")}),
        (["train", "qrc", "MinAtar/B"], {"MinAtar/Breakout-v1"}),
        (["train", "qrc", "CartPole-v1", "--epsilon"], {"--epsilon-start", "--epsilon-end"}),
        (["report", "he"], {"here"}),
    ],
)
def test_bash_completes(words, completed, tmp_path, capsys):
    (tmp_path / "here").mkdir()
    with pytest.raises(SystemExit):
        main(["completion", "bash"])
    script = capsys.readouterr().out
    script += f"COMP_WORDS=(eligrad {' '.join(words)}); COMP_CWORD={len(words)}\n"
    script += "_eligrad; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert set(done.stdout.split()) == completed


def test_help_of_an_agent_shows_choices_and_no_none(capsys):
    with pytest.raises(SystemExit):
        cli_train.parse(["qrc", "--help"])  # not main, which changes how this process hears Ctrl-C
    printed = capsys.readouterr().out
    assert "usage: eligrad train qrc " in printed
    assert "--rule td|gtd2|tdc|tdrc" in printed
    assert "None" not in printed
