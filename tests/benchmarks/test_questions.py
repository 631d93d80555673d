"""The answers to the open questions follow from the numbers, and their figures are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import questions
from eligrad.analysis import statistics

ENVS = ("Breakout", "Freeway")


def the_runs(finals: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    """Runs of a study "s", by environment and variant."""
    rows = [("s", *key, value) for key, values in finals.items() for value in values]
    return pd.DataFrame(rows, columns=["study", "env", "variant", "final"])


@pytest.fixture
def question() -> questions.Question:
    pairs = questions.of_variants(("s",), ENVS, {"row": ("a", "b")})
    return questions.Question("Is a better?", ("this", "that"), pairs, 100)


LEVEL_PAIR = {("Freeway", "a"): [1.0, 2.0, 4.0], ("Freeway", "b"): [1.5, 2.5, 3.0]}


def test_differences_have_the_interval_of_the_package_and_corrected_p_values(question):
    runs = the_runs(
        {("Breakout", "a"): [9.0, 10.0, 12.0], ("Breakout", "b"): [1.0, 2.0, 3.0]} | LEVEL_PAIR
    )
    other = runs.assign(study="another", final=0.0)
    first, second = questions.differences(question.pairs(pd.concat([runs, other])))
    a, b = np.array([9.0, 10.0, 12.0]), np.array([1.0, 2.0, 3.0])
    assert first.estimate == statistics.difference({"Breakout": a}, {"Breakout": b})
    assert first.estimate.value == pytest.approx(a.mean() - b.mean())
    # The smaller of two p-values counts twice.
    assert first.p == pytest.approx(2 * stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert second.p > first.p
    assert first.seeds == (3, 3)


def test_an_answer_names_what_stands_and_the_better_side(question):
    low = {("Breakout", "a"): [1.0, 2.0, 3.0], ("Breakout", "b"): [9.0, 10.0, 11.0]} | LEVEL_PAIR
    said = questions.answer(question, the_runs(low))
    assert said.startswith(
        "**A difference is seen**: of 2 differences, 3 seeds a side, 1 significant"
    )
    assert "row on Breakout, that is higher by 8 (p = " in said
    same = {("Breakout", side): [1.0, 2.0, 4.0] for side in ("a", "b")} | LEVEL_PAIR
    said = questions.answer(question, the_runs(same))
    assert said.startswith("**Not enough data to tell**: of 2 differences, 3 seeds a side, none")


def test_pairs_that_have_not_run_count_in_the_correction(question, tmp_path):
    a, b = [9.0, 10.0, 12.0], [1.0, 2.0, 3.0]
    pairs = questions.of_variants(("s",), ENVS, {"row": ("a", "b"), "late": ("c", "b")})
    question = question._replace(pairs=pairs)
    runs = the_runs({("Breakout", "a"): a, ("Breakout", "b"): b, ("Freeway", "b"): b})
    (only,) = questions.differences(pairs(runs))
    assert only.p == pytest.approx(4 * stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert "of 1 differences (4 are planned), 3 seeds a side, 1" in questions.answer(question, runs)
    # A row that has run on one environment of two is drawn, too.
    more = the_runs({("Freeway", "a"): a, ("Freeway", "c"): a})
    questions.draw(question, pd.concat([runs, more]), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()


def test_sides_may_be_of_other_studies_and_pairs_without_runs_are_left_out():
    runs = the_runs({("Breakout", "a"): [1.0, 2.0], ("Freeway", "a"): [3.0]})
    later = the_runs({("Breakout", "a"): [5.0, 6.0, 7.0]}).assign(study="later")
    pairs = questions.of_variants(("later",), ENVS, {"row": ("a", "a")}, against=("s",))
    ((key, (first, second)),) = questions.ran(pairs(pd.concat([runs, later]))).items()
    assert key == ("Breakout", "row")
    assert (first.tolist(), second.tolist()) == ([5.0, 6.0, 7.0], [1.0, 2.0])


def test_a_question_that_has_no_runs_yet(question, tmp_path, monkeypatch):
    runs = the_runs({("Seaquest", "other"): [1.0, 2.0]})
    assert questions.answer(question, runs) == "Not run yet."
    monkeypatch.setattr(questions, "QUESTIONS", {"this": question})
    monkeypatch.setattr(questions, "draw_exact", lambda path: None)
    questions.draw_all(runs, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_figure_of_a_question(question, tmp_path):
    runs = the_runs({("Breakout", "a"): [1.0, 2.0], ("Breakout", "b"): [9.0, 7.0]} | LEVEL_PAIR)
    questions.draw(question, runs, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_slopes_are_paired_by_game_and_agent():
    pairs = questions.by_slope()
    assert len(pairs) == 10
    steep, flat = pairs["Breakout", "Q(λ)"][::-1]
    # The means of the table.
    assert (round(steep.mean(), 2), round(flat.mean(), 2)) == (4.10, 5.01)


def test_only_the_published_recursion_depends_on_the_units(monkeypatch):
    monkeypatch.setattr(questions, "SCALES", np.array([0.5, 1.0, 4.0, 8.0]))
    for name in questions.PROBLEMS:
        right = questions.rates(name, "tdc", published=False, lam=questions.LAM)
        np.testing.assert_allclose(right, right[0], rtol=1e-6)
    chain = questions.rates("boyan_chain", "tdc", published=True, lam=questions.LAM)
    assert chain.tolist() == sorted(chain, reverse=True)
    assert (chain > 0).tolist() == [True, True, True, False]
    row = next(row for row in questions.exact_recursion().splitlines() if "Boyan" in row)
    assert row.endswith("| 8 |")


def test_the_exact_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(questions, "SCALES", np.array([0.5, 8.0]))
    monkeypatch.setattr(questions, "LAMBDAS", np.array([0.0, 0.9]))
    questions.draw_exact(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
