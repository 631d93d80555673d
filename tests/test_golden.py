"""Every agent's short run with a fixed seed is the one that was written down in tests/golden."""

from __future__ import annotations

import copy

import pytest

from eligrad.agents import PRESETS
from tests.golden import curves

pytestmark = pytest.mark.usefixtures("quick_compilation")

DAILY = ("qrc",)
"""The others at night, and by `make test-elsewhere`, of which CI does a part."""


def scheduled(name):
    return pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly)


def test_every_agent_has_a_curve_and_every_file_a_run():
    assert set(PRESETS) <= set(curves.RUNS)
    assert {path.stem for path in curves.FOLDER.glob("*.json")} == set(curves.RUNS)


@pytest.mark.parametrize("name", [scheduled(name) for name in curves.RUNS])
def test_the_curve_is_the_one_written_down(name):
    assert not curves.differences(curves.trained(curves.RUNS[name]), curves.kept(name))


def test_episodes_end_in_both_ways():
    """Else a change in how ends are treated could go unseen."""
    curve = curves.kept("qrc")
    lengths, returns = curve["length"][0], curve["return"][0]
    assert set(lengths) == {1, 2}
    assert {0.0, 1.0} <= {r for r, n in zip(returns, lengths, strict=True) if n == 2}


@pytest.mark.parametrize("name", ["qrc", "gradient-ppo"])
def test_changes_are_told_from_rounding(name):
    kept = curves.kept(name)
    for quantity in kept:
        changed, rounded = copy.deepcopy(kept), copy.deepcopy(kept)
        changed[quantity][1][-1] = changed[quantity][1][-1] * 1.001 + 1e-4
        assert len(curves.differences(changed, kept)) == 1
        if quantity != "length":
            rounded[quantity][1][-1] *= 1 + 1e-5
            assert not curves.differences(rounded, kept)
    shorter = copy.deepcopy(kept)
    shorter["return"][0].pop()
    assert curves.differences(shorter, kept) == [
        f"return of seed 0: {len(kept['return'][0]) - 1} and {len(kept['return'][0])} numbers"
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("name", curves.RUNS)
def test_a_slightly_different_agent_is_noticed(name):
    # Where every episode is a single step, γ is of no consequence.
    one_step = name.endswith("-continuous")
    change = {"actor_step_size": 0.0101} if one_step else {"gamma": 0.989}
    changed = curves.trained(curves.RUNS[name], **change)
    assert curves.differences(changed, curves.kept(name))
