"""Curves, scores and the best configuration against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eligrad._base.errors import UnknownName
from eligrad.analysis import best_configurations
from eligrad.analysis.frames import (
    configurations,
    differing_settings,
    learning_curves,
    scores,
    scores_so_far,
)
from eligrad.runs.returns import align, area, even_grid, final, mean_and_error
from tests.analysis.tables import runs_of

STEP = np.array([2, 4, 5, 9])
RETURNS = np.array([1.0, 3.0, 7.0, 9.0], np.float32)
GRID = np.array([1.0, 4.0, 6.0, 8.0, 10.0])


def test_curve_by_hand():
    # Ends at 2 and 4 are in (1, 4], the one at 5 in (4, 6], none in (6, 8].
    np.testing.assert_array_equal(align(STEP, RETURNS, GRID), [np.nan, 2.0, 7.0, 7.0, 9.0])


def test_curve_stops_where_the_run_does():
    curve = align(STEP, RETURNS, GRID, reached=7)
    np.testing.assert_array_equal(curve, [np.nan, 2.0, 7.0, np.nan, np.nan])


def test_curve_of_no_episodes():
    nothing = np.zeros(0)
    assert np.isnan(align(nothing, nothing, GRID)).all()
    assert np.isnan(area(nothing, nothing))
    assert np.isnan(final(nothing, nothing, 10))


@given(
    ends=st.lists(st.tuples(st.integers(1, 40), st.floats(-1e9, 1e9)), max_size=20),
    grid=st.lists(st.integers(1, 45), min_size=1, max_size=8, unique=True).map(sorted),
)
def test_curve_is_its_definition(ends, grid):
    step = np.array([end for end, _ in ends], np.int64)
    returns = np.array([value for _, value in ends], np.float64)
    expected, last, before = [], np.nan, 0
    for point in grid:
        inside = [value for end, value in ends if before < end <= point]
        last = np.mean(inside) if inside else last
        expected.append(last)
        before = point
    curve = align(step, returns, np.array(grid, np.float64))
    np.testing.assert_allclose(curve, expected, rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize("grid", [[0.0, 1.0], [2.0, 2.0], [3.0, 1.0]])
def test_grids_that_make_no_sense(grid):
    with pytest.raises(ValueError, match="grid is"):
        align(STEP, RETURNS, np.array(grid))


def test_even_grid():
    np.testing.assert_array_equal(even_grid(100, 4), [25.0, 50.0, 75.0, 100.0])
    np.testing.assert_array_equal(even_grid(3, 60), [1.0, 2.0, 3.0])


def test_area_is_the_mean_over_steps():
    lengths = np.array([2, 2, 1, 4])
    each_step = np.repeat(RETURNS.astype(np.float64), lengths)
    assert area(RETURNS, lengths) == pytest.approx(each_step.mean())


def test_final():
    assert np.isnan(final(STEP, RETURNS, reached=10))  # the last tenth begins after step 9
    step, returns = np.array([80, 89, 90, 91, 100]), np.array([1.0, 2.0, 3.0, 4.0, 8.0])
    assert final(step, returns, reached=100) == 6.0
    assert final(step, returns, reached=95) == 4.25  # after step 85.5


def test_mean_and_error():
    mean, error = mean_and_error(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(error, [1.0, 0.0])
    alone = mean_and_error(np.array([[1.0, 5.0]]))
    assert np.isnan(alone[1]).all()


@pytest.fixture
def runs() -> pd.DataFrame:
    """Three runs: one whole and diverged, one half done, one that never ended an episode."""
    frame = runs_of("qrc", {"A": [0.0, 0.0, 0.0]}, steps=10, step=10)
    frame["run"] = ["whole", "half", "endless"]
    frame.loc[0, "diverged_step"] = 3
    frame.loc[1, "step"] = 5
    return frame


@pytest.fixture
def episodes() -> pd.DataFrame:
    whole = {"run": "whole", "step": STEP, "return": RETURNS, "length": [2, 2, 1, 4]}
    half = {"run": "half", "step": [5], "return": [4.0], "length": [5]}
    frame = pd.concat([pd.DataFrame(half), pd.DataFrame(whole)], ignore_index=True)
    # As the store gives it.
    return frame.astype({"run": "category"})


def test_curves_of_many_runs(runs, episodes):
    curves = learning_curves(runs, episodes, points=2)
    assert list(curves["run"]) == ["whole", "whole", "half", "half", "endless", "endless"]
    assert list(curves["step"]) == [5, 10] * 3
    expected = [11 / 3, 9.0, 4.0, np.nan, np.nan, np.nan]
    np.testing.assert_allclose(curves["return"], expected)


def test_scores_of_many_runs(runs, episodes):
    scores = scores_so_far(runs, episodes)
    # The last tenth of the first run's steps begins after the last end, of the second's before it.
    np.testing.assert_allclose(scores["return_last"], [np.nan, 4.0, np.nan])
    np.testing.assert_allclose(scores["return_all"], [5.0, 4.0, np.nan])
    np.testing.assert_allclose(scores["return_area"], [(2 + 6 + 7 + 36) / 9, 4.0, np.nan])


def test_no_episode_at_all(runs):
    assert learning_curves(runs, pd.DataFrame(), points=3)["return"].isna().all()


def test_each_environment_has_its_own_grid():
    short = runs_of("qrc", {"A": [0.0]}, steps=10, step=10)
    long = runs_of("qrc", {"B": [0.0]}, steps=1000, step=1000)
    curves = learning_curves(pd.concat([short, long]), pd.DataFrame(), points=2)
    assert list(curves["step"]) == [5, 10, 500, 1000]


def test_bad_tables(runs, episodes):
    with pytest.raises(UnknownName, match=r"column of runs 'steps'; did you mean .*'step'"):
        learning_curves(runs.drop(columns="steps"), episodes)
    with pytest.raises(UnknownName, match="column of episodes 'length'"):
        scores_so_far(runs, episodes.drop(columns="length"))
    with pytest.raises(ValueError, match="runs holds no rows"):
        scores_so_far(runs[:0], episodes)
    with pytest.raises(ValueError, match="'half' is there twice"):
        scores_so_far(pd.concat([runs, runs[1:2]]), episodes)
    with pytest.raises(ValueError, match="points is 0"):
        learning_curves(runs, episodes, points=0)


@pytest.fixture
def sweep() -> pd.DataFrame:
    """The best of QRC(λ) is lam 0.9 on A and 0.8 on B; Q(λ) has other settings of its own."""
    return pd.concat(
        [
            runs_of("qrc", {"A": [1.0, 2.0], "B": [7.0, 9.0]}, lam=0.8, step_size=0.1),
            runs_of("qrc", {"A": [2.0, 4.0], "B": [5.0, 5.0]}, lam=0.9, step_size=0.1),
            runs_of("q-lambda", {"A": [0.0, np.nan]}, lam=0.8, step_size=0.3),
        ],
        ignore_index=True,
    )


def test_best_configurations(sweep):
    sweep.loc[0, "diverged_step"] = 3
    best = best_configurations(sweep)
    assert list(best.columns) == [
        "env", "agent", "title", "steps", "lam", "mean", "error", "scored", "runs", "diverged",
        "config_hash",
    ]  # fmt: skip
    rows = best[["env", "agent", "lam", "mean", "scored", "runs"]].to_numpy().tolist()
    assert rows == [
        ["A", "q-lambda", 0.8, 0.0, 1, 2],
        ["A", "qrc", 0.9, 3.0, 2, 2],
        ["B", "qrc", 0.8, 8.0, 2, 2],
    ]
    assert best["error"].tolist()[1:] == [1.0, 1.0]
    chosen = sweep[sweep["config_hash"] == best["config_hash"][1]]
    assert chosen["return_last"].tolist() == [2.0, 4.0]


def test_best_of_runs_that_can_be_compared(sweep):
    """Neither of unfinished ones nor across lengths."""
    sweep.loc[sweep["lam"] == 0.9, "finished"] = False
    longer = runs_of("qrc", {"A": [99.0]}, lam=0.7, step_size=0.1, steps=5000)
    best = best_configurations(pd.concat([sweep, longer], ignore_index=True))
    qrc = best[(best["agent"] == "qrc") & (best["env"] == "A")]
    assert qrc[["steps", "lam"]].to_numpy().tolist() == [[1000, 0.8], [5000, 0.7]]
    with pytest.raises(ValueError, match="none of the 6 runs is finished"):
        best_configurations(sweep.assign(finished=False)[:6])


def test_each_seed_counts_once_and_only_if_it_is_finished(sweep):
    row = configurations(sweep).iloc[0]
    assert (row["mean"], row["scored"], row["runs"]) == (1.5, 2, 2)
    sweep.loc[1, "finished"] = False
    row = configurations(sweep).iloc[0]
    assert (row["mean"], row["scored"], row["runs"]) == (1.0, 1, 2)
    for of_twice in (configurations, scores):
        with pytest.raises(ValueError, match=r"seed 0 of a run before it; .*drop_duplicates"):
            of_twice(pd.concat([sweep.fillna({"return_last": 0.0})] * 2, ignore_index=True))


def test_settings_differ_within_an_agent(sweep):
    """That two agents have different step sizes is no sweep over step sizes."""
    assert differing_settings(sweep) == ["lam"]
