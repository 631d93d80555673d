"""Metrics that callbacks return: in the tables, the files, the loggers, `watch` and the report."""

from __future__ import annotations

import numpy as np
import pytest

from eligrad.analysis import load_chunks
from eligrad.analysis.report import write_report
from eligrad.cli import watch
from eligrad.runs.folder import RunFolder
from eligrad.training import resume, train
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
