"""The rule that chooses one configuration, on numbers small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eligrad.sweeps.choice import Candidates, choose, mean_ranks, normalise


def candidates(areas, agents=None):
    areas = np.asarray(areas, float)
    agents = ("a",) * len(areas) if agents is None else agents
    return Candidates(agents, tuple(f"E{i}" for i in range(areas.shape[1])), areas)


def test_an_environment_with_large_numbers_does_not_decide_alone():
    # By plain means the first wins (500.5 against 450.5), by normalised ones the second.
    (choice,) = choose(candidates([[[1000.0], [1.0]], [[900.0], [2.0]], [[0.0], [0.0]]]))
    assert choice.chosen == 1
    np.testing.assert_allclose(choice.scores, [(1 + 0.5) / 2, (0.9 + 1) / 2, 0])
    np.testing.assert_allclose(choice.regret(), [0.1, 0.0])
    assert choice.members == (1, 0, 2)


def test_ties_go_to_the_better_ranks_then_to_the_first():
    # Scores 0.5 each; ranks (1, 3, 3), (2.5, 1.5, 1.5) after sharing.
    tied = [[[1.0], [0.0], [0.5]], [[0.5], [0.5], [0.5]], [[0.0], [1.0], [0.5]]]
    (choice,) = choose(candidates(tied))
    np.testing.assert_allclose(choice.scores, choice.scores[0])
    np.testing.assert_allclose(choice.ranks, [2.0, 2.0, 2.0])
    assert choice.members == (0, 1, 2)
    ranked = [
        [[1.0], [0.0], [0.5]],
        [[0.5], [0.2], [0.8]],
        [[0.0], [1.0], [0.0]],
        [[0.4], [0.1], [1.0]],
    ]
    (choice,) = choose(candidates(ranked))
    first_two = choice.scores[:2]
    np.testing.assert_allclose(first_two, [0.5, 0.5])
    np.testing.assert_allclose(choice.ranks[:2], [(1 + 4 + 3) / 3, (2 + 2 + 2) / 3])
    assert choice.members.index(1) < choice.members.index(0)


def test_each_agent_has_its_own_choice_on_a_common_scale():
    areas = [[[4.0, 6.0]], [[1.0, 1.0]], [[0.0, 0.0]], [[2.0, 4.0]]]
    first, second = choose(candidates(areas, ("a", "b", "a", "b")))
    assert (first.agent, first.chosen, second.agent, second.chosen) == ("a", 0, "b", 3)
    np.testing.assert_allclose(second.scores[[1, 3]], [0.2, 0.6])


def test_failed_runs_count_like_the_worst():
    nan = np.nan
    areas = [[[10.0, nan], [1.0, 1.0]], [[6.0, 6.0], [1.0, 1.0]], [[2.0, 2.0], [0.0, nan]]]
    (choice,) = choose(candidates(areas))
    assert choice.chosen == 0  # (10 + 2) / 2 = 6: a tie, won by being first
    areas[0][0][0] = 9.0
    (choice,) = choose(candidates(areas))
    assert choice.chosen == 1
    with pytest.raises(ValueError, match=r"none of the runs of .* in stage 1 has a score"):
        choose(candidates(np.full((2, 1, 3), nan)))


def test_the_share_of_draws_is_that_of_an_exact_enumeration():
    """Two configurations, two seeds: sixteen equally likely draws."""
    areas = np.array([[[0.0, 3.0]], [[1.0, 2.0]]])
    wins = ties = 0
    for i in range(16):
        a = areas[0, 0, [i & 1, i >> 1 & 1]].mean()
        b = areas[1, 0, [i >> 2 & 1, i >> 3 & 1]].mean()
        wins, ties = wins + (a > b), ties + (a == b)
    (choice,) = choose(candidates(areas), resamples=20_000)
    expected = (wins + ties) / 16  # a tie goes to the first
    assert abs(choice.chosen_share[0] - expected) < 4 * np.sqrt(0.25 / 20_000)
    assert choice.chosen_share.sum() == pytest.approx(1)


def test_ranks_and_scales_against_scipy():
    values = np.round(np.random.default_rng(0).normal(size=(7, 5)), 1)
    expected = stats.rankdata(-values, axis=0).mean(axis=1)
    np.testing.assert_allclose(mean_ranks(values), expected)
    scaled = normalise(values)
    np.testing.assert_allclose(scaled.min(axis=0), 0)
    np.testing.assert_allclose(scaled.max(axis=0), 1)
    np.testing.assert_allclose(normalise(np.full((3, 2), 4.0)), 1)
