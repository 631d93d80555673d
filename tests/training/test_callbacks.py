"""Metrics that callbacks return: in the tables, the files, the loggers, `watch` and the report."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import eligrad
from eligrad.analysis import load_chunks
from eligrad.analysis.report import write_report
from eligrad.cli import watch
from eligrad.runs.folder import RunFolder
from eligrad.training import callbacks, prepare, resume, saved, train
from eligrad.training.callbacks import EvaluateEvery
from eligrad.training.loggers import scalars

pytestmark = pytest.mark.usefixtures("quickest_compilation")

TRACE = "Probe/Trace-v0"


def each_run(session):
    return {"own": [session.step, -session.step], "same": np.float64(0.5)}


def test_metrics_of_a_callback_are_columns(tmp_path):
    run = tmp_path / "run"
    options = {"seeds": 2, "chunk": 10, "checkpoint_every": 20, "out": run}
    train("qrc", TRACE, steps=40, callbacks=[each_run, lambda session: None], **options)
    result = resume(run, steps=60)  # without the callback: nothing there
    chunks = RunFolder(run).tables().chunks.to_pandas()
    assert result.chunks.to_pandas().equals(chunks)
    begun = chunks[chunks.step <= 40]
    assert (begun["own"] == begun["step"] * np.where(begun["run"] == 0, 1, -1)).all()
    assert (begun["same"] == 0.5).all()
    assert chunks[chunks.step > 40]["own"].isna().all()
    assert "own" in load_chunks(run).columns
    # What reads them copes with chunks that lack them.
    assert watch.describe(watch.read(run), 0.0, 80, 20)
    assert write_report(run, tmp_path / "report.html", "title").exists()


def test_loggers_get_them(tmp_path, monkeypatch):
    sent = []
    loggers = "eligrad.training.loggers.Loggers.write"
    monkeypatch.setattr(loggers, lambda self, tables, step: sent.append((step, scalars(tables))))
    train("qrc", TRACE, steps=20, seeds=2, chunk=10, callbacks=[each_run])
    assert [step for step, _ in sent] == [10, 20]
    assert sent[1][1][1]["chunk/own"] == -20.0


def test_evaluation_is_a_metric():
    every = EvaluateEvery(20, episodes=2)
    result = train("qrc", TRACE, steps=40, seeds=2, chunk=10, callbacks=[every])
    rows = result.chunks.to_pandas().set_index(["step", "run"])["evaluation_return"]
    for step, returns in every.history:
        assert rows[step].to_numpy() == pytest.approx(returns.mean(axis=1))
    assert rows[10].isna().all()
    assert [step for step, _ in every.history] == [20, 40]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"seconds": 1.0}, "'seconds', which the run has already"),
        ({"own": [1.0, 2.0, 3.0]}, "'own' with .*one for each of the 2 runs"),
        ({"own": "much"}, "'own' with 'much'; a number is accepted"),
    ],
)
def test_metrics_that_cannot_be_are_refused_and_lose_nothing(tmp_path, metrics, message):
    options = {"seeds": 2, "chunk": 10, "checkpoint_every": 10, "out": tmp_path / "run"}

    def late(session):
        return metrics if session.step == 20 else None

    with pytest.raises(ValueError, match=message):
        train("qrc", TRACE, steps=40, callbacks=[late], **options)
    assert set(RunFolder(tmp_path / "run").tables().chunks["step"].to_pylist()) == {10, 20}
    assert resume(tmp_path / "run").summary["finished"]


@pytest.mark.parametrize("answer", ["stop", 0.5, 1, [True]])
def test_answers_that_mean_nothing_are_refused(answer):
    with pytest.raises(TypeError, match=r"a callback returned .*; None, True or False"):
        train("qrc", TRACE, steps=20, callbacks=[lambda session: answer])


@pytest.mark.parametrize("answer", [False, np.bool_(False), jnp.array(False)])
def test_false_of_any_kind_ends_training(answer):
    result = train("qrc", TRACE, steps=20, chunk=10, callbacks=[lambda session: answer])
    assert result.summary["steps"] == 10


def test_the_speed_leaves_out_what_callbacks_compile(monkeypatch):
    """By clocks that tick as told: 1 s for each chunk, 7 s of a callback, of which 4 to compile."""
    now, compiled = [0.0], [0.0]
    monkeypatch.setattr("eligrad.training.session.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("eligrad.training.session.compile_seconds", lambda: compiled[0])

    def compiles(session):
        now[0] += 7.0
        compiled[0] += 4.0

    session = prepare("qrc", TRACE, steps=60, seeds=1, chunk=10, callbacks=[compiles])
    now[0] += 100.0  # between two calls of the user's: no time of training
    advance = session.engine.advance

    def slowly(steps):
        now[0] += 1.0
        return advance(steps)

    monkeypatch.setattr(session.engine, "advance", slowly)
    result = session.run()
    rows = result.chunks.to_pandas()
    assert rows["seconds"].to_list() == [1.0] + 5 * [8.0]
    assert rows["steps_per_second"].to_numpy() == pytest.approx([10.0] + 5 * [10.0 / 4.0])
    assert result.summary["startup_seconds"] == pytest.approx(5 * 4.0)


def test_the_best_of_a_continued_run_is_kept(tmp_path, monkeypatch):
    best, options = tmp_path / "best.npz", {"seeds": 1, "chunk": 10}
    means = iter([np.nan, 10.0, 1.0, 12.0])
    monkeypatch.setattr(
        callbacks.Evaluation,
        "__call__",
        lambda *_, episodes, params: np.full((1, episodes), next(means)),
    )

    def every():
        return EvaluateEvery(10, episodes=2, keep_best=best)

    train("qrc", TRACE, steps=20, out=tmp_path / "run", callbacks=[every()], **options)
    first = best.read_bytes()
    resume(tmp_path / "run", steps=30, callbacks=[every()])
    assert best.read_bytes() == first
    resume(tmp_path / "run", steps=40, callbacks=[every()])
    assert saved.read_plan(best).steps == 40


def test_a_run_that_is_continued_from_its_best_remembers_that_score(tmp_path, monkeypatch):
    best, means = tmp_path / "best.npz", iter([1.0, 5.0, 2.0, 3.0, 4.0, 6.0])
    monkeypatch.setattr(
        callbacks.Evaluation,
        "__call__",
        lambda *_, episodes, params: np.full((1, episodes), next(means)),
    )

    def every():
        return EvaluateEvery(1000, episodes=2, keep_best=best)

    eligrad.QRC(TRACE).learn(3000, callback=every())
    agent = eligrad.load(best)
    assert agent.num_timesteps == 2000
    agent.learn(2000, callback=every())
    assert eligrad.load(best).num_timesteps == 2000
    agent.learn(1000, callback=every())
    assert eligrad.load(best).num_timesteps == 5000


def test_stop_at_return_counts_the_recent_episodes_of_every_run():
    """Compared with all episodes so far, also after chunks not seen, and in another run."""
    stop = callbacks.StopAtReturn(0.9)

    def compare(session):
        if 150 < session.step <= 200:
            return
        episodes = session.tables().episodes.to_pandas()
        recent = [episodes[episodes["run"] == run]["return"].tail(20) for run in range(2)]
        reached = all(len(each) == 20 and each.mean() >= 0.9 for each in recent)
        answers.append(reached)
        assert stop(session) is not reached

    for seeds in ([0, 1], [2, 3]):
        answers: list[bool] = []
        train("qrc", TRACE, steps=1500, seeds=seeds, chunk=25, callbacks=[compare])
        assert set(answers) == {True, False}
