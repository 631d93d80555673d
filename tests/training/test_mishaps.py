"""Mishaps in one process, quickly; those of whole processes are in `tests/faults`."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad._base.interruption import ignored_by_children
from eligrad.cli import start
from eligrad.cli import train as cli_train
from eligrad.engines import EnvironmentFault, Online, OutOfMemory, Runs
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.runs.checkpoint import read_header
from eligrad.training import train
from tests.engines import tiny

pytestmark = [
    pytest.mark.usefixtures("quickest_compilation"),
]


class Jams(gymnasium.Env):
    """Counts its steps, and is jammed at the 57th."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    age = 0
    error: BaseException

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.age += 1
        if self.age == 57:
            raise self.error
        return np.full(2, self.age % 5, np.float32), 1.0, self.age % 5 == 0, False, {}


@pytest.mark.parametrize("error", [OSError("the joint is jammed"), SystemExit(0)])
def test_a_simulator_that_raises(tmp_path, monkeypatch, error):
    monkeypatch.setattr(Jams, "error", error, raising=False)
    message = re.escape(f"'Jams' raised at step 57: {error!r}")
    env = GymnasiumEnvironment(Jams)
    agent = tiny.agent(observations=2)
    with pytest.raises(EnvironmentFault, match=message):
        train(agent, env, steps=100, chunk=10, checkpoint_every=20, out=tmp_path / "run")
    saved = [read_header(path)["step"] for path in sorted((tmp_path / "run").glob("*.npz"))]
    assert saved == [20, 40]


def test_memory_that_runs_out(monkeypatch):
    """XLA is asked for 64 tebibytes."""
    advance = Runs.advance

    def advancing(engine, steps):
        if int(engine.state.step[0]) == 100:
            jnp.zeros(2**46, jnp.int8).block_until_ready()
        return advance(engine, steps)

    monkeypatch.setattr(Runs, "advance", advancing)
    with pytest.raises(OutOfMemory, match=r"out of memory in steps 101 to 150 of 'Probe/OffPolicy"):
        train(tiny.agent(), tiny.ENV, steps=200, chunk=50)


def observations(step):
    return np.random.default_rng(step).normal(size=4).astype(np.float32)


def lived(online, steps):
    """Steps of a life that is the same in every attempt; episodes of seven."""
    while online.steps < steps:
        number = online.steps + 1
        if number % 7 == 0:
            if not online.between_episodes:
                online.observe(observations(number), 1.0, terminated=True)
            online.observe(observations(2**31 - number))
        else:
            online.observe(observations(number), float(number % 3))
    return online


def begun():
    online = Online(tiny.agent(), seed=1)
    online.observe(observations(0))
    return online


def test_ctrl_c_at_any_moment_leaves_a_whole_agent(tmp_path):
    """Time and again, wherever in a step it arrives; what is saved then goes on to the same end."""
    straight, online = lived(begun(), 1500), begun()
    lived(online, 20)  # what is compiled is compiled
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    dice, heard = np.random.default_rng(0), 0
    try:
        while online.steps < 1500 and heard < 40:
            signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-4, 1e-2))
            try:
                lived(online, 1500)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                heard += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard
    online.save(tmp_path / "agent.npz")
    again = lived(Online.load(tmp_path / "agent.npz", tiny.agent()), 1500)
    straight.save(tmp_path / "straight.npz")
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "straight.npz").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_children_do_not_hear(number):
    """From their first moment on, and their parent hears as before."""
    with ignored_by_children():
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    child.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.2)
    child.stdin.close()
    assert child.wait() == 0
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize(
    "fault",
    [
        EnvironmentFault("the joint is jammed"),
        MemoryError("Unable to allocate 8.00 PiB"),
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 byte."),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    ],
)
def test_what_the_command_line_says_of_a_fault(tmp_path, monkeypatch, capsys, fault):
    """One line, and how to go on."""
    run = tmp_path / "run"

    def failing(*arguments, **options):
        run.mkdir()
        (run / "config.json").touch()
        raise fault

    monkeypatch.setattr(start, "prepare", failing)
    monkeypatch.setattr(start, "device_for_each_run", lambda runs: None)
    options = ["--no-cache", "--out", str(run), "--eval-every", "50", "--logger", "tensorboard"]
    assert cli_train.main(["qrc", "my_world:World-v0", *options]) == 2
    first, then, command = capsys.readouterr().err.splitlines()
    assert first == f"eligrad train: {fault}"
    assert "to continue" in then
    # A file may not have a module imported; a command may.
    same = "--eval-every 50 --logger tensorboard"
    assert command == f"  eligrad train --resume {run} --import my_world {same}"
