"""Finite MDPs: what is derived from them, and what is refused."""

import dataclasses

import numpy as np
import pytest

from eligrad.problems import FiniteMDP, LinearProblem, baird, boyan_chain, random_mdp, random_walk
from tests.problems import cases


def spoiled(**changes):
    """The 3-state walk with some entries overwritten."""
    mdp = random_walk(3).mdp
    for name, (where, value) in changes.items():
        array = np.array(getattr(mdp, name))
        array[where] = value
        changes[name] = array
    return dataclasses.replace(mdp, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": ((1, 0, 2), 0.5)}, r"transitions\(1, 0\) sums to 1.5"),
        ({"transitions": ((1, 0), [1.5, 0, -0.5, 0, 0])}, r"transitions\(1, 0, 2\) is -0.5"),
        ({"behaviour": ((2, 0), 0.7)}, r"behaviour\(2,\) sums to 1.2"),
        ({"target": ((0,), [0.3, 0.3])}, r"target\(0,\) sums to 0.6"),
        ({"start": (0, 1.0)}, r"start sums to 2.0"),
        ({"discounts": ((0, 0, 1), 1.2)}, r"discounts\(0, 0, 1\) is 1.2; \[0, 1\]"),
        ({"discounts": ((0, 0, 3), 0.9)}, r"discounts\(0, 0, 3\) is 0.9; successor 3 is terminal"),
        ({"rewards": ((0, 0, 0), np.nan)}, r"rewards has entries that are not finite"),
        ({"behaviour": ((1,), [0.0, 1.0])}, r"behaviour\(1, 0\) is 0 where target\(1, 0\) is 0.5"),
    ],
)
def test_bad_numbers_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        spoiled(**changes)


def test_bad_shapes_are_refused_by_name(unchecked):
    mdp = random_walk(3).mdp
    with pytest.raises(ValueError, match=r"transitions has shape \(3, 2, 2\); \(S, A, N\)"):
        dataclasses.replace(mdp, transitions=np.full((3, 2, 2), 0.5))
    with pytest.raises(ValueError, match=r"behaviour has shape \(3, 1\); \(3, 2\) is accepted"):
        dataclasses.replace(mdp, behaviour=np.ones((3, 1)))
    lists = FiniteMDP(**{f.name: getattr(mdp, f.name).tolist() for f in dataclasses.fields(mdp)})
    np.testing.assert_array_equal(lists.rewards, mdp.rewards)
    with pytest.raises(ValueError, match=r"observations has shape \(2, 2\); \(3, k\)"):
        LinearProblem("short", mdp, np.eye(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"initial has shape \(2,\); \(3,\) is accepted"):
        LinearProblem("short", mdp, np.eye(3), np.zeros(2))


def test_infinite_values_are_refused():
    mdp = random_mdp().mdp
    with pytest.raises(ValueError, match="never terminates"):
        dataclasses.replace(mdp, discounts=np.ones_like(mdp.discounts))


def test_two_separate_parts_have_no_single_long_run():
    two = np.eye(2)[:, None, :]
    mdp = FiniteMDP(two, two * 0, two * 0.5, np.ones((2, 1)), np.ones((2, 1)), np.full(2, 0.5))
    with pytest.raises(ValueError, match="more than one part"):
        _ = mdp.weighting


def test_arrays_cannot_be_changed_behind_its_back():
    with pytest.raises(ValueError, match="read-only"):
        random_walk(3).mdp.rewards[0, 0, 0] = 1.0


def test_unknown_policy_is_refused(unchecked):
    with pytest.raises(ValueError, match="policy is 'greedy'; 'behaviour' or 'target'"):
        random_walk(3).mdp.visits("greedy")


@pytest.mark.parametrize("num_states", [5, 19])
def test_visits_of_the_walk_are_triangular(num_states):
    steps_from_edge = np.minimum(np.arange(1, num_states + 1), np.arange(num_states, 0, -1))
    np.testing.assert_allclose(
        random_walk(num_states).mdp.weighting, steps_from_edge / steps_from_edge.sum(), rtol=1e-12
    )


def test_visits_of_boyans_chain_obey_the_renewal_equation():
    reached = [1.0, 0.5]
    for _ in range(10):
        reached.append((reached[-1] + reached[-2]) / 2)
    reached.append(reached[11] + reached[10] / 2)
    expected = np.array(reached) / sum(reached)
    np.testing.assert_allclose(boyan_chain().mdp.weighting, expected, rtol=1e-12)


def test_visits_of_baird_by_policy():
    mdp = baird().mdp
    np.testing.assert_allclose(mdp.weighting, np.full(7, 1 / 7), rtol=1e-12)
    np.testing.assert_allclose(mdp.visits("target"), np.eye(7)[6], atol=1e-14)
    np.testing.assert_allclose(mdp.ratios, np.tile([0.0, 7.0], (7, 1)), rtol=1e-12)


@pytest.mark.parametrize("name", cases.ALL)
def test_visits_are_stationary(name):
    mdp = cases.ALL[name].mdp
    for policy in ("behaviour", "target"):
        share = mdp.visits(policy)
        arriving = np.einsum("s,sa,san->n", share, mdp.policy(policy), mdp.transitions)
        restarted = arriving[: mdp.num_states] + arriving[mdp.num_states :].sum() * mdp.start
        np.testing.assert_allclose(restarted, share, atol=1e-13)
        assert np.all(share >= 0)
        assert share.sum() == pytest.approx(1.0, abs=1e-14)
