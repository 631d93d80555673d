"""Tables, summary and curve against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.engines import Record
from eligrad.runs import plot as figure
from eligrad.runs.metrics import Tables, tables_of_chunk
from eligrad.runs.plot import curves
from eligrad.runs.summary import as_text, summarise

SEEDS = [5, 9]


def chunk(start_step: int) -> Tables:
    """Four steps of two runs: the first ends episodes at steps 2 and 4, the second at step 3."""
    record = Record(
        ended=np.array([[0, 1, 0, 1], [0, 0, 1, 0]], bool),
        episode_return=np.array([[1, 2, 3, 4], [10, 20, 30, 1]], np.float32),
        episode_length=np.array([[1, 2, 1, 2], [1, 2, 3, 1]], np.int32),
        metrics=metrics(np.array([[1, -3, 0, 0], [0, 2e6, np.nan, 1]], np.float32)),
    )
    return tables(record, SEEDS, start_step)


def metrics(td_error: np.ndarray) -> dict[str, np.ndarray]:
    """Those of an agent that explores with ε = 0.5 at last."""
    epsilon = np.linspace(1.0, 0.5, td_error.shape[1], dtype=np.float32)
    return {
        "td_error": td_error,
        "value": np.full_like(td_error, 3.0),
        "epsilon": np.broadcast_to(epsilon, td_error.shape),
    }


def tables(record: Record, seeds: list[int], start_step: int) -> Tables:
    """The tables of chunks of two seconds."""
    agent = QLambda(PRESETS["q-lambda"], default_network((4,), 2))
    columns, diverged = agent.report(record.metrics), agent.diverged(record.metrics)
    return tables_of_chunk(record, columns, diverged, seeds, start_step, seconds=2.0)


def test_tables_of_a_chunk():
    episodes, chunks = chunk(start_step=100)
    assert episodes.to_pylist() == [
        {"run": 0, "seed": 5, "step": 102, "return": 2.0, "length": 2},
        {"run": 0, "seed": 5, "step": 104, "return": 4.0, "length": 2},
        {"run": 1, "seed": 9, "step": 103, "return": 30.0, "length": 3},
    ]
    first, second = chunks.to_pylist()
    assert first == {
        "run": 0,
        "seed": 5,
        "step": 104,
        "mean_abs_td_error": 1.0,
        "max_abs_td_error": 3.0,
        "epsilon": 0.5,
        "mean_value": 3.0,
        "seconds": 2.0,
        "steps_per_second": 4.0,
        "diverged_step": None,
    }
    assert np.isnan(second["mean_abs_td_error"])
    assert second["diverged_step"] == 102


def test_summary():
    summary = summarise(Tables.join([chunk(0), chunk(4)]), SEEDS, steps=8)
    first, second = summary["seeds"]
    assert first == {
        "seed": 5,
        "episodes": 4,
        "return_last": 4.0,  # of the one episode that ended after step 7.2
        "return_all": 3.0,
        "return_area": 3.0,
        "diverged_step": None,
    }
    assert second["return_last"] is None
    assert second["diverged_step"] == 2
    assert summary["over_seeds"]["return_all"] == {"mean": 16.5, "standard_error": 13.5}
    assert summary["over_seeds"]["return_last"] == {"mean": 4.0, "standard_error": None}
    assert summary["diverged"] == 1
    assert (summary["seconds"], summary["steps_per_second"]) == (4.0, 4.0)
    text = as_text(summary)
    assert "diverged at step 2" in text
    assert "16.5 ± 13.5" in text


def test_columns_of_the_table_stay_apart():
    summary = summarise(Tables.join([chunk(0)]), SEEDS, steps=4)
    for column in summary["over_seeds"].values():
        column |= {"mean": -123456.789, "standard_error": 0.0000123456}
    last = as_text(summary).splitlines()[-1].removeprefix("mean ± standard error")
    assert last.split(" ± ")[0].strip() == "-1.235e+05"
    assert last.split()[2:4] == ["1.23e-05", "-1.235e+05"]


def test_summary_of_nothing():
    summary = summarise(Tables.join([]), SEEDS, steps=0)
    assert summary["over_seeds"]["return_all"] == {"mean": None, "standard_error": None}
    assert "–" in as_text(summary)


def test_area_weights_by_length():
    record = Record(
        np.array([[1, 0, 0, 1]], bool),
        np.array([[1, 0, 0, 5]], np.float32),
        np.array([[1, 1, 2, 3]], np.int32),
        metrics(np.zeros((1, 4), np.float32)),
    )
    assert summarise(tables(record, [0], 0), [0], 4)["seeds"][0]["return_area"] == pytest.approx(
        (1 + 3 * 5) / 4
    )


def test_curves():
    at, each = curves(Tables.join([chunk(0), chunk(4)]), SEEDS, steps=8)
    np.testing.assert_array_equal(at, np.arange(1, 9))
    np.testing.assert_array_equal(each[0], [np.nan, 2, 2, 4, 4, 2, 2, 4])
    np.testing.assert_array_equal(each[1], [np.nan, np.nan, 30, 30, 30, 30, 30, 30])


def test_a_seed_without_an_episode_is_in_no_mean(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(figure, "save", lambda picture, path: drawn.append(picture))
    whole = Tables.join([chunk(0), chunk(4)])
    first = whole._replace(episodes=whole.episodes.filter(np.asarray(whole.episodes["run"]) == 0))
    figure.draw(first, SEEDS, 8, "title", tmp_path / "curve.png")
    (panel,) = drawn[0].axes
    *_, mean = panel.get_lines()
    assert mean.get_label() == "mean of 2 seeds, ± standard error; without 1 that ended no episode"
    np.testing.assert_array_equal(mean.get_ydata(), [2, 2, 4, 4, 2, 2, 4])


def test_a_metric_of_an_agent_is_no_column_of_every_run():
    record = Record(*np.zeros((3, 1, 2)), metrics={})
    with pytest.raises(ValueError, match="the agent reports the metric 'step', which the run has"):
        tables_of_chunk(record, {"step": np.zeros(1)}, np.zeros((1, 2), bool), [0], 0, 1.0)
