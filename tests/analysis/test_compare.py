"""Comparisons against scipy, against what they promise, and against what a reader must be told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eligrad._base.errors import UnknownName
from eligrad.analysis.bootstrap import Bootstrap
from eligrad.analysis.compare import compare
from eligrad.analysis.statistics import holm
from eligrad.runs.records import STAGE_ONE
from tests.analysis.tables import runs_of

QUICK = Bootstrap(resamples=300)


def normal(seed: int, ahead: float, seeds: int, envs: str = "A") -> dict[str, list[float]]:
    random = np.random.default_rng(seed)
    return {env: list(random.normal(ahead, 1.0, seeds)) for env in envs}


def one_environment(a: list[float], b: list[float]):
    return compare(runs_of("qrc", {"A": a}), runs_of("qc", {"A": b}), bootstrap=QUICK)


def test_numbers_are_scipys():
    a, b = normal(0, 1.0, 9, "ABC"), normal(1, 0.0, 6, "ABC")
    result = compare(runs_of("qrc", a), runs_of("stream-q", b), bootstrap=QUICK)
    welch = [stats.ttest_ind(a[env], b[env], equal_var=False) for env in "ABC"]
    for on, expected in zip(result.environments, welch, strict=True):
        assert on.p_value == pytest.approx(expected.pvalue)
        assert on.difference.value == pytest.approx(np.mean(a[on.env]) - np.mean(b[on.env]))
        assert on.a.standard_error == pytest.approx(stats.sem(a[on.env]))
        u = stats.mannwhitneyu(a[on.env], b[on.env]).statistic
        assert on.improvement.value == pytest.approx(u / 54)
        assert (on.a.runs, on.b.runs, on.steps) == (9, 6, 1000)
    adjusted = holm(np.array([test.pvalue for test in welch]))
    assert [on.adjusted_p_value for on in result.environments] == pytest.approx(list(adjusted))
    each = [on.improvement.value for on in result.environments]
    assert result.improvement.value == pytest.approx(np.mean(each))
    frame = result.to_frame()
    assert list(frame["env"]) == ["A", "B", "C"]
    assert list(frame["p_value"]) == [on.p_value for on in result.environments]


def test_a_clear_difference_is_claimed_and_who_is_better():
    better, worse = normal(0, 8.0, 5), normal(1, 0.0, 5)
    result = compare(runs_of("qrc", better), runs_of("qc", worse), bootstrap=QUICK)
    other = compare(runs_of("qc", worse), runs_of("qrc", better), bootstrap=QUICK)
    assert result.verdict(result.environments[0]) == 1
    assert other.verdict(other.environments[0]) == -1
    for words in (result.in_words(), other.in_words()):
        assert "QRC(λ) is significantly better here" in words


def test_what_could_not_have_been_seen_is_said():
    result = compare(runs_of("qrc", normal(0, 0.1, 5)), runs_of("qc", normal(1, 0.0, 5)))
    (on,) = result.environments
    assert result.verdict(on) == 0
    words = " ".join(result.in_words().split())
    assert "5 and 5 seeds" in words
    assert "There is no significant difference" in words
    assert f"below 80 % for true differences under {on.detectable:.3g}." in words
    assert "No significant difference does not mean that the two are equal" in words


@pytest.mark.parametrize("seeds", [5, 30])
def test_the_detectable_difference_is_found_in_four_of_five(seeds):
    """The power of Welch's test at the difference that is named: no more than that is said."""
    even = stats.norm.ppf((np.arange(seeds) + 0.5) / seeds)
    even = even / even.std(ddof=1)
    named = one_environment(list(even), list(even + 1e-9)).environments[0].detectable
    random = np.random.default_rng(0)
    a, b = random.normal(named, 1, (4000, seeds)), random.normal(0, 1, (4000, seeds))
    found = stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05
    assert 0.76 < found.mean() < 0.81


@pytest.mark.nightly
def test_equal_agents_are_told_apart_in_one_of_twenty():
    """And where many environments are looked at, nowhere. Three standard errors."""
    envs = [f"env {number}" for number in range(400)]
    random = np.random.default_rng(0)
    a, b = ({env: list(random.normal(size=6)) for env in envs} for _ in range(2))
    result = compare(runs_of("qrc", a), runs_of("qc", b), bootstrap=Bootstrap(resamples=2))
    alone = np.mean([on.p_value <= 0.05 for on in result.environments])
    assert alone == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 400))
    assert not any(result.verdict(on) for on in result.environments)


def test_more_environments_make_it_harder():
    """The same scores on A, once alone and once among four others where nothing differs."""
    a, b = [2.1, 2.9, 3.4, 4.0, 5.2], [0.9, 1.4, 2.2, 2.5, 3.0]
    alone = one_environment(a, b)
    others = {env: [1.0, 2.0, 3.0, 4.0, 5.0] for env in "BCDE"}
    among = compare(
        runs_of("qrc", {"A": a} | others), runs_of("qc", {"A": b} | others), bootstrap=QUICK
    )
    assert alone.verdict(alone.environments[0]) == 1
    assert among.verdict(among.environments[0]) == 0
    assert among.environments[0].p_value == alone.environments[0].p_value
    assert among.environments[0].detectable > alone.environments[0].detectable
    words = " ".join(among.in_words().split())
    assert "one of 5 intervals may do so by chance" in words
    assert "corrected for 5 environments" in words
    assert "Averaged over them" in words
    assert "Averaged over them" not in alone.in_words()


def test_over_all_environments():
    better, worse = normal(0, 2.0, 6, "ABC"), normal(1, 0.0, 6, "ABC")
    words = compare(runs_of("qrc", better), runs_of("qc", worse)).in_words()
    assert "QRC(λ) wins significantly more often" in " ".join(words.split())
    words = compare(runs_of("qrc", worse), runs_of("qc", better)).in_words()
    assert "QC(λ) wins significantly more often" in " ".join(words.split())
    words = compare(runs_of("qrc", worse), runs_of("qc", normal(5, 0.0, 6, "ABC"))).in_words()
    assert "Neither wins significantly more often" in " ".join(words.split())


def test_one_seed_claims_nothing():
    result = one_environment([5.0], [1.0])
    assert np.isnan(result.environments[0].p_value)
    assert "one seed does not show how much seeds differ" in result.in_words()
    assert "nan" not in result.in_words()


def test_scores_without_spread():
    apart, same = one_environment([1.0] * 4, [0.0] * 4), one_environment([1.0] * 4, [1.0] * 4)
    # Of the 70 ways to deal eight runs to two sides, two part the values.
    permutation = stats.permutation_test(
        ([1.0] * 4, [0.0] * 4), lambda x, y: np.mean(x) - np.mean(y), vectorized=False
    )
    assert apart.environments[0].p_value == pytest.approx(permutation.pvalue)
    assert same.environments[0].p_value == 1.0
    assert apart.environments[0].improvement.low < 0.5
    # The mean of seven times 0.1 is not 0.1 in floating point.
    rounded = one_environment([0.1] * 7, [0.1] * 4)
    assert np.mean([0.1] * 7) != 0.1
    assert rounded.environments[0].p_value == 1.0
    one_sided = one_environment([1.0] * 4, [0.0, 0.5, 0.25]).environments[0]
    assert one_sided.p_value == pytest.approx(stats.ttest_1samp([0.0, 0.5, 0.25], 1.0).pvalue)


def test_diverged_runs_count_and_are_counted():
    a = runs_of("q-lambda", {"A": [0.0, 5.0, 6.0]})
    a.loc[0, "diverged_step"] = 17
    result = compare(a, runs_of("qrc", {"A": [6.0, 7.0, 8.0]}), bootstrap=QUICK)
    assert result.environments[0].a.mean == pytest.approx(11 / 3)
    assert (result.environments[0].a.diverged, result.environments[0].b.diverged) == (1, 0)
    words = " ".join(result.in_words().split())
    assert "Diverged: 1 of 3 runs of Q(λ) and 0 of 3 runs of QRC(λ)" in words


def test_what_is_left_out_is_pointed_out():
    a = runs_of("qrc", {"A": [1.0, 2.0, np.nan], "B": [0.0]})
    b = runs_of("qc", {"A": [1.0, 3.0, 9.0], "C": [0.0]})
    b.loc[2, "finished"] = False
    result = compare(a, b, bootstrap=QUICK)
    (on,) = result.environments
    assert (on.a.runs, on.a.without_score, on.b.runs) == (2, 1, 2)
    assert on.b.mean == 2.0
    told = " ".join(result.warnings)
    assert "1 of 3 runs of QRC(λ) on A have no return_last" in told
    assert "1 of 4 runs of QC(λ) are unfinished" in told
    assert "B is left out: only QRC(λ)" in told
    assert "C is left out: only QC(λ)" in told
    assert all(" ".join(w.split()) in " ".join(result.in_words().split()) for w in result.warnings)


def test_selection_is_pointed_out():
    a, b = runs_of("qrc", {"A": [1.0, 2.0]}), runs_of("qc", {"A": [1.0, 2.0]})
    chosen = compare(a.assign(stage=1), b.assign(stage=2), bootstrap=QUICK)
    assert "QRC(λ) was chosen by these runs" in chosen.warnings[0]
    assert len(chosen.warnings) == 1
    assert not compare(a, b, bootstrap=QUICK).warnings
    b["run"] = [f"sweep/{STAGE_ONE}/runs/{run}" for run in b["run"]]
    assert "QC(λ) was chosen by these runs" in compare(a, b, bootstrap=QUICK).warnings[0]


def test_sides_that_all_ended_alike_have_no_power():
    a, b = runs_of("qrc", {"A": [2.0, 2.0]}), runs_of("qc", {"A": [2.0, 2.0]})
    words = compare(a, b, bootstrap=QUICK).in_words()
    assert "no significant difference" in words
    assert "power" not in words


def test_variants_are_told_apart_by_their_settings():
    a = runs_of("qrc", {"A": [1.0, 2.0]}, **{"lam": 0.8, "beta": 1.0})
    b = runs_of("qrc", {"A": [1.0, 2.0]}, **{"lam": 0.9, "beta": 1.0})
    result = compare(a, b, bootstrap=QUICK)
    assert (result.a, result.b) == ("QRC(λ), lam 0.8", "QRC(λ), lam 0.9")
    other = a.assign(**{"env_params.gravity": 5.0, "config_hash": "other"})
    result = compare(a, other, bootstrap=QUICK)
    assert (result.a, result.b) == ("QRC(λ), gravity default", "QRC(λ), gravity 5")
    again = compare(a, a.assign(seed=a["seed"] + 10), bootstrap=QUICK)
    assert (again.a, again.b) == ("QRC(λ) (first)", "QRC(λ) (second)")


def test_comparisons_that_make_no_sense():
    a, b = runs_of("qrc", {"A": [1.0, 2.0]}), runs_of("qc", {"A": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"\[1000, 2000\] steps"):
        compare(a, b.assign(steps=2000))
    other = runs_of("qrc", {"A": [1.0]}, first_seed=7, **{"lam": 0.5})
    with pytest.raises(ValueError, match="2 configurations on A"):
        compare(pd.concat([a, other]), b)
    with pytest.raises(ValueError, match="seed 0 twice"):
        compare(a, pd.concat([b, b[:1]]))
    with pytest.raises(ValueError, match="no environment is shared"):
        compare(a, b.assign(env="B"))
    with pytest.raises(ValueError, match="none of the 2 runs of QC"):
        compare(a, b.assign(finished=False))
    with pytest.raises(UnknownName, match=r"'return_lost'; did you mean 'return_last'"):
        compare(a, b, column="return_lost")
    with pytest.raises(ValueError, match="runs_b holds no rows"):
        compare(a, b[:0])
