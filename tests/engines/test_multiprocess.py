"""Runs shared out among processes are the same runs."""

from __future__ import annotations

import contextlib
import inspect
import pickle

import jax
import numpy as np
import pytest

from eligrad.engines import multiprocess
from eligrad.engines.devices import compile_seconds, count_compiling
from eligrad.engines.episodes import Record
from eligrad.training import resume, train
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")
SMALL = {"rollout": 64, "minibatch_size": 32, "epochs": 1}


def same(one, other) -> bool:
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def test_two_processes_give_the_runs_of_one():
    arguments = {"steps": 48, "chunk": 24, "seeds": 2, "lam": [0.5, 0.8]}
    one, two = (train("qrc", "CartPole-v1", processes=n, **arguments) for n in (1, 2))
    assert one.episodes.num_rows > 2
    assert one.episodes.equals(two.episodes)
    assert same(one.state.agent, two.state.agent)


@pytest.mark.nightly
def test_two_processes_give_the_runs_of_one_and_may_become_one(tmp_path):
    arguments = {"seeds": 3, "actor_step_size": [1e-3, 2e-3, 3e-3], **SMALL}
    alone = train("ppo", "CartPole-v1", steps=192, **arguments)
    train("ppo", "CartPole-v1", steps=128, processes=2, out=tmp_path / "run", **arguments)
    both = resume(tmp_path / "run", steps=192)
    assert alone.episodes.equals(both.episodes)
    assert same(alone.state.agent, both.state.agent)


def test_what_cannot_be_shared_out_is_refused():
    with pytest.raises(ValueError, match="processes is 2; more than 1 is for"):
        train("ppo", "Probe/Action-v0", steps=64, seeds=2, processes=2, **SMALL)


def test_an_error_in_a_process_is_the_callers():
    with pytest.raises(ValueError, match="continuous actions"):
        train("qrc", "Pendulum-v1", steps=8, seeds=2, processes=2)


class Elaborate(Exception):
    """Cannot be made again from its message, and so not unpickled."""

    def __init__(self, part: str, fault: str) -> None:
        super().__init__(f"{part} is {fault}")


def test_an_error_that_does_not_come_through_a_pipe_is_told_in_words():
    class OneRequest:
        requests = iter([("state", None)])
        answers: list = []  # noqa: RUF012

        def recv(self):
            for request in self.requests:
                return request
            raise EOFError

        def send(self, answer):
            self.answers.append(pickle.loads(pickle.dumps(answer)))

    def fail():
        raise Elaborate("the wheel", "stuck")

    inspect.unwrap(multiprocess._work)(OneRequest(), fail, {})
    assert [repr(answer) for answer in OneRequest.answers] == [
        "RuntimeError('Elaborate: the wheel is stuck')"
    ]


class Tells:
    """An engine whose fault is the random bits of seed 0 under the process's own generator."""

    def __init__(self, runs):
        self.fault_step = np.asarray(jax.random.bits(jax.random.key(0), (len(runs),)))

    def close(self) -> None: ...


def test_processes_have_the_random_generator_of_the_caller():
    agent, space = tiny.agent(), tiny.ENV.observation_space
    with jax.default_prng_impl("rbg"):
        expected = np.asarray(jax.random.bits(jax.random.key(0), (1,)))
        engine = multiprocess.Multiprocess(Tells, 2, 2, agent, space)
    with contextlib.closing(engine):
        np.testing.assert_array_equal(engine.fault_step, [*expected, *expected])


def test_an_engine_that_cannot_be_made_leaves_no_process(monkeypatch):
    started = []
    close = multiprocess.Multiprocess.close
    monkeypatch.setattr(
        multiprocess.Multiprocess,
        "close",
        lambda self: (started.extend(self._members), close(self)),
    )
    with pytest.raises(ValueError, match="no engine") as caught:
        multiprocess.Multiprocess(broken, 2, 2, tiny.agent(), tiny.ENV.observation_space)
    assert caught.value.__traceback__  # which holds the engine
    assert len(started) == 2
    assert not any(process.is_alive() for process, _ in started)


def broken(runs):
    raise ValueError("no engine")


class Compiles(Tells):
    """An engine whose chunks compile for a second, in the process of the last run for three."""

    def __init__(self, runs):
        super().__init__(runs)
        self.runs = runs

    def advance(self, steps):
        count_compiling(1.0 if 0 in self.runs else 3.0)
        rows = np.zeros((len(self.runs), steps))
        return Record(rows > 0, rows, rows, {})


def test_what_processes_compile_counts_as_waiting_for_the_slowest():
    agent, space = tiny.agent(), tiny.ENV.observation_space
    with contextlib.closing(multiprocess.Multiprocess(Compiles, 2, 2, agent, space)) as engine:
        before = compile_seconds()
        assert engine.advance(3).ended.shape == (2, 3)
        assert compile_seconds() - before == pytest.approx(3.0)
