"""Ctrl-C: the chunk is finished, everything is saved, and the run goes on as if undisturbed."""

from __future__ import annotations

import signal
import threading

import pytest

from eligrad._base.interruption import Interruption
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.folder import RunFolder
from eligrad.training import Interrupted, resume, train
from eligrad.training.progress import Progress
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quickest_compilation")
OPTIONS = {"seeds": 2, "chunk": 50, "checkpoint_every": 200}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_stopped_and_resumed(tmp_path, monkeypatch, capfd, number):
    """A signal in the middle of training, in the third chunk."""
    advance = Progress.advance
    with monkeypatch.context() as patch:
        seen = []

        def signalled(bar, *arguments):
            seen.append(arguments)
            if len(seen) == 3:
                signal.raise_signal(number)
            advance(bar, *arguments)

        patch.setattr(Progress, "advance", signalled)
        with pytest.raises(Interrupted, match=f"stopped at step 150 by {number.name}; saved in"):
            train(tiny.agent(), tiny.ENV, steps=400, out=tmp_path / "run", **OPTIONS)
    assert "once more stops at once" in capfd.readouterr().err
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "checkpoint-000000000150.npz", "config.json", "curve.png", "metrics", "summary.json",
    }  # fmt: skip
    with pytest.raises(CheckpointError, match=r"was saved with lam = .*; that of agent is 0\.123"):
        resume(tmp_path / "run", agent=tiny.agent(lam=0.123), env=tiny.ENV)
    resumed = resume(tmp_path / "run", agent=tiny.agent(), env=tiny.ENV)
    straight = train(tiny.agent(), tiny.ENV, steps=400, **OPTIONS)
    assert resumed.episodes.equals(straight.episodes)
    assert tiny.timeless(resumed.chunks).equals(tiny.timeless(straight.chunks))
    assert resumed.summary["finished"]


def test_a_signal_before_the_first_step(tmp_path, monkeypatch, capfd):
    """While the first file is written: it is said, and the run can be begun again."""
    write = RunFolder.write_config
    with monkeypatch.context() as patch:

        def signalled(folder, config):
            write(folder, config)
            signal.raise_signal(signal.SIGTERM)

        patch.setattr(RunFolder, "write_config", signalled)
        with pytest.raises(Interrupted, match="stopped at step 0 by SIGTERM; saved in"):
            train(tiny.agent(), tiny.ENV, steps=200, out=tmp_path / "run", **OPTIONS)
    assert "once more stops at once" in capfd.readouterr().err
    resumed = resume(tmp_path / "run", agent=tiny.agent(), env=tiny.ENV)
    straight = train(tiny.agent(), tiny.ENV, steps=200, **OPTIONS)
    assert resumed.episodes.equals(straight.episodes)


def test_a_signal_in_the_last_chunk_is_not_lost(tmp_path, capfd):
    """The run is complete, but whoever trains one after another wants to stop."""

    def last(session):
        if session.step == session.plan.steps:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="stopped at step 100 by SIGINT"):
        train(tiny.agent(), tiny.ENV, steps=100, out=tmp_path / "run", callbacks=[last], **OPTIONS)
    assert "once more stops at once" in capfd.readouterr().err
    assert RunFolder(tmp_path / "run").summary["finished"]


def test_the_second_signal_does_what_it_always_did():
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.signal_number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.signal_number is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_nothing_is_touched():
    handlers = []

    def elsewhere():
        with Interruption():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
