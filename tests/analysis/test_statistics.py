"""Every statistic against closed forms and scipy, every interval against what it promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from benchmarks.bootstrap_coverage import CASES, LEVEL, coverage, plain_level
from eligrad._base.errors import UnknownName
from eligrad.analysis import statistics
from eligrad.analysis.bootstrap import Bootstrap, Estimate, expanded_tail
from eligrad.analysis.frames import scores
from tests.analysis.tables import runs_of

QUICK = Bootstrap(resamples=20)
SCORES = arrays(np.float64, st.integers(1, 12), elements=st.integers(-5, 5).map(float))
TWO_TASKS = st.fixed_dictionaries({"A": SCORES, "B": SCORES})


@given(TWO_TASKS)
def test_values_are_their_definitions(by_task):
    a, b = by_task.values()
    both = np.concatenate([a, b])
    estimate = {
        "mean": statistics.mean(by_task, QUICK).value,
        "iqm": statistics.iqm(by_task, QUICK).value,
        "gap": statistics.optimality_gap(by_task, 2.0, QUICK).value,
    }
    gaps = [np.mean([max(2.0 - score, 0.0) for score in task]) for task in (a, b)]
    expected = {
        "mean": (a.mean() + b.mean()) / 2,
        "iqm": stats.trim_mean(both, 0.25),
        "gap": np.mean(gaps),
    }
    assert estimate == pytest.approx(expected, abs=1e-12)


@given(TWO_TASKS, TWO_TASKS)
def test_probability_of_improvement_is_mann_whitneys(ours, theirs):
    estimate = statistics.probability_of_improvement(ours, theirs, QUICK)
    by_scipy, by_pairs = [], []
    for task in ("A", "B"):
        x, y = ours[task], theirs[task]
        by_scipy.append(stats.mannwhitneyu(x, y, method="asymptotic").statistic / x.size / y.size)
        above = [(one > other) + (one == other) / 2 for one in x for other in y]
        by_pairs.append(np.mean(above))
    assert estimate.value == pytest.approx(np.mean(by_scipy))
    assert estimate.value == pytest.approx(np.mean(by_pairs))


def test_iqm_by_hand():
    # Of eight runs two are left out at each end, whichever task they are of.
    by_task = {"A": np.array([0.0, 100.0, 3.0, 4.0]), "B": np.array([5.0, 6.0, -9.0, 7.0])}
    assert statistics.iqm(by_task, QUICK).value == (3 + 4 + 5 + 6) / 4


def test_iqm_does_not_see_one_wild_run():
    sound = np.linspace(0, 1, 12)
    wild = np.append(sound[:-1], 1e9)
    assert statistics.iqm({"A": wild}).value == statistics.iqm({"A": sound}).value


def test_profile_by_hand():
    by_task = {"A": np.array([0.0, 1.0]), "B": np.array([1.0, 2.0, 3.0])}
    profile = statistics.performance_profile(by_task, np.array([-1.0, 0.0, 1.0, 3.0]))
    # Above, not at or above; each task counts alike, however many runs it has.
    np.testing.assert_allclose(profile.share, [1.0, (1 / 2 + 1) / 2, (0 + 2 / 3) / 2, 0.0])
    assert (profile.low <= profile.share).all()
    assert (profile.share <= profile.high).all()


def test_profile_and_its_interval_in_closed_form():
    """The share of a draw that is above τ has a binomial distribution."""
    x = np.random.default_rng(0).normal(size=40)
    at = np.linspace(-2, 2, 9)
    profile = statistics.performance_profile({"A": x}, at, Bootstrap(resamples=50_000))
    np.testing.assert_allclose(profile.share, stats.ecdf(x).sf.evaluate(at))
    tail = expanded_tail([40], 0.95)
    for limit, quantile in ((profile.low, tail), (profile.high, 1 - tail)):
        exact = stats.binom.ppf(quantile, 40, profile.share) / 40
        # A draw more or less beyond the quantile may move it by one run.
        assert np.abs(limit - exact).max() <= 1 / 40 + 1e-12
        assert np.mean(limit == exact) > 0.5


@pytest.mark.parametrize("size", [8, 40])
def test_interval_is_scipys(size):
    """The percentile interval of scipy at the same quantiles, up to the luck of the draws."""
    x = np.random.default_rng(1).gamma(2.0, size=size)
    tail = expanded_tail([size], 0.95)
    ours = statistics.mean({"A": x}, Bootstrap(resamples=100_000))
    theirs = stats.bootstrap(
        (x,), np.mean, method="percentile", n_resamples=100_000,
        confidence_level=1 - 2 * tail, rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=0.02)


def test_interval_of_a_difference_is_scipys():
    random = np.random.default_rng(3)
    x, y = random.normal(1, 1, 30), random.normal(0, 2, 30)
    ours = statistics.difference({"A": x}, {"A": y}, Bootstrap(resamples=50_000))
    theirs = stats.bootstrap(
        (x, y), lambda x, y, axis=-1: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        method="percentile", n_resamples=50_000, vectorized=True, rng=random,
        confidence_level=1 - 2 * expanded_tail([30, 30], 0.95),
    ).confidence_interval  # fmt: skip
    assert ours.value == pytest.approx(x.mean() - y.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_draws_keep_to_their_task():
    """Within tasks all runs are equal: drawn by task, nothing can vary; drawn from all, much."""
    by_task = {"A": np.zeros(6), "B": np.ones(6)}
    for statistic in (statistics.mean, statistics.iqm):
        estimate = statistic(by_task)
        assert estimate.low == estimate.value == estimate.high == 0.5


def test_expanded_tail():
    # Of one sample: Φ(√(n / (n - 1)) t). Of very many runs: the plain one.
    expected = stats.norm.cdf(np.sqrt(5 / 4) * stats.t.ppf(0.025, 4))
    assert expanded_tail([5], 0.95) == pytest.approx(expected)
    assert expanded_tail([10**7], 0.95) == pytest.approx(0.025, rel=1e-5)
    assert expanded_tail([5, 5], 0.95) == pytest.approx(
        stats.norm.cdf(np.sqrt(5 / 4) * stats.t.ppf(0.025, 8))
    )


def test_expanded_tail_of_samples_of_other_sizes():
    """The degrees of freedom are those of the variance of the draws, by simulation."""
    random, sizes = np.random.default_rng(0), (3, 30)
    spread = sum(random.normal(size=(100_000, n)).var(axis=1) / n for n in sizes)
    freedom = 2 * spread.mean() ** 2 / spread.var()
    shortfall = spread.mean() / sum(1 / n for n in sizes)
    expected = stats.norm.cdf(stats.t.ppf(0.025, freedom) / np.sqrt(shortfall))
    assert expanded_tail(sizes, 0.95) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("runs", [5, 30])
def test_interval_is_students_for_the_mean(runs):
    """By design the interval of a normal mean is about the one of Student's t."""
    x = stats.norm.ppf((np.arange(runs) + 0.5) / runs)
    ours = statistics.mean({"A": x}, Bootstrap(resamples=100_000))
    theirs = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    assert ours.high - ours.low == pytest.approx(
        theirs.high - theirs.low, rel=0.2 if runs == 5 else 0.03
    )


@pytest.mark.parametrize(
    ("case", "trials"),
    [
        ("mean", 2000),
        ("iqm", 1000),
        *(
            pytest.param(case, 5000, marks=pytest.mark.nightly)
            for case in ("difference", "improvement")
        ),
    ],
)
def test_interval_covers_the_truth(case, trials):
    """With 30 runs. The standard error of what is measured is 0.3 to 0.7 per cent."""
    assert 0.93 <= coverage(CASES[case], 30, trials, 500) <= 0.97


def test_what_is_said_of_few_runs():
    """The plain interval holds much too little with five runs, the expanded one a bit."""
    mean = CASES["mean"]
    plain = coverage(mean, 5, 1000, 4000, plain_level(mean, 5))
    expanded = coverage(mean, 5, 1000, 4000)
    assert 0.80 <= plain <= 0.88
    assert 0.905 <= expanded <= 0.94


def test_plain_level():
    for case, sizes in (("mean", [5]), ("difference", [7, 7])):
        level = plain_level(CASES[case], sizes[0])
        assert expanded_tail(sizes, level) == pytest.approx((1 - LEVEL) / 2)


def test_all_runs_better():
    """No spread is seen, but certainty would be a lie."""
    ours, theirs = {"A": np.arange(5) + 10.0}, {"A": np.arange(6.0)}
    better = statistics.probability_of_improvement(ours, theirs)
    worse = statistics.probability_of_improvement(theirs, ours)
    assert (better.value, better.high) == (1.0, 1.0)
    # Were it less, winning all five disjoint pairs had a probability below 0.025.
    assert better.low**5 == pytest.approx(0.025)
    assert (worse.value, worse.low, worse.high) == (0.0, 0.0, pytest.approx(1 - better.low))


def test_all_runs_better_on_some_tasks_and_worse_on_the_others():
    low, high = np.arange(2.0), np.arange(2.0) + 10
    ours, theirs = {"A": high, "B": high, "C": low}, {"A": low, "B": low, "C": high}
    estimate = statistics.probability_of_improvement(ours, theirs)
    limit = 0.025 ** (1 / 6)  # of six disjoint pairs
    assert estimate.value == pytest.approx(2 / 3)
    assert (estimate.low, estimate.high) == pytest.approx((2 / 3 * limit, 1 - limit / 3))
    assert estimate.low < 0.5  # two seeds a side do not tell


def test_one_run_has_no_interval():
    estimate = statistics.mean({"A": np.array([3.0])})
    assert estimate.value == 3.0
    assert np.isnan(estimate.low)
    assert np.isnan(estimate.high)


def test_seed_decides():
    x = {"A": np.random.default_rng(0).normal(size=9)}
    assert statistics.mean(x, Bootstrap(seed=4)) == statistics.mean(x, Bootstrap(seed=4))
    assert statistics.mean(x, Bootstrap(seed=4)) != statistics.mean(x, Bootstrap(seed=5))


def test_a_higher_level_is_wider():
    x = {"A": np.random.default_rng(0).normal(size=9)}
    narrow, wide = (statistics.mean(x, Bootstrap(level)) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_normalise():
    raw = {"A": np.array([1.0, 3.0, 5.0]), "B": np.array([0.0])}
    normal = statistics.normalise(raw, {"A": (1.0, 3.0), "B": (-10.0, 10.0), "C": (0.0, 1.0)})
    np.testing.assert_allclose(normal["A"], [0.0, 1.0, 2.0])
    np.testing.assert_allclose(normal["B"], [0.5])
    with pytest.raises(UnknownName, match="'A'"):
        statistics.normalise(raw, {"B": (0.0, 1.0)})
    with pytest.raises(ValueError, match="bounds of A are"):
        statistics.normalise(raw, {"A": (1.0, 1.0), "B": (0.0, 1.0)})


def test_bounds_and_scores_of_a_table():
    runs = pd.concat(
        [
            runs_of("qrc", {"B": [2.0, 4.0], "A": [1.0, 1.0]}),
            runs_of("qc", {"A": [0.0, 6.0], "B": [7.0]}),
        ]
    )
    assert statistics.bounds_of(runs) == {"A": (1.0, 3.0), "B": (3.0, 7.0)}
    assert {env: list(values) for env, values in scores(runs).items()} == {
        "A": [1.0, 1.0, 0.0, 6.0],
        "B": [2.0, 4.0, 7.0],
    }
    runs.iloc[0, runs.columns.get_loc("return_last")] = np.nan
    with pytest.raises(ValueError, match="1 of 7 runs have no return_last"):
        scores(runs)


P_VALUES = arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1))


@given(P_VALUES, st.floats(0, 1, exclude_max=True))
def test_holm_is_stepping_down(p_values, level):
    """Reject the smallest if it is at most level / m, the next if level / (m - 1), and so on."""
    order = np.argsort(p_values)
    rejected = set()
    for rank, which in enumerate(order):
        if p_values[which] * (len(order) - rank) > level:
            break
        rejected.add(int(which))
    assert set(np.flatnonzero(statistics.holm(p_values) <= level)) == rejected


def test_holm_leaves_out_what_was_not_tested():
    adjusted = statistics.holm(np.array([0.01, np.nan, 0.02]))
    np.testing.assert_allclose(adjusted, [0.02, np.nan, 0.02])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean({}), "scores are of no task"),
        (lambda: statistics.mean({"A": np.zeros(0)}), "scores of A are of no run"),
        (lambda: statistics.mean({"A": np.array([1.0, np.nan])}), "1 of 2 scores of A"),
        (
            lambda: statistics.difference({"A": np.zeros(2)}, {"B": np.zeros(2)}),
            r"tasks are \['A'\] and \['B'\]",
        ),
        (lambda: Bootstrap(level=95.0), r"level is 95\.0"),
        (lambda: Bootstrap(resamples=0), "resamples is 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_estimate_prints_as_a_number_and_its_interval():
    assert str(Estimate(0.72, 0.06, 1.23456)) == "0.72 [0.06, 1.235]"
