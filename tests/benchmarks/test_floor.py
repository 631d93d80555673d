"""The C program does the work of a QRC(λ) step, no less."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import floor
from eligrad.agents import QLambdaConfig

pytestmark = [
    pytest.mark.skipif(not floor.has_compiler(), reason="no C compiler"),
    pytest.mark.usefixtures("quickest_compilation"),
]


@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_weights_and_traces_are_those_of_the_agent(game):
    """Large step sizes, so that a term that is missing shows; ends and empty traces occur."""
    config = QLambdaConfig(step_size=1e-3, h_scale=0.5, beta=2.0, exploration_steps=20)
    recorded = floor.record(game, 40, config)
    in_c = floor.Floor(recorded)
    errors = in_c.learn(recorded.transitions)
    np.testing.assert_allclose(errors, recorded.td_errors, rtol=2e-4, atol=2e-5)
    moved, start, end = in_c.memory, floor.flat(recorded.start), floor.flat(recorded.end)
    change = np.abs(end - start)
    assert np.mean(change > 0) > 0.9
    np.testing.assert_allclose(moved, end, rtol=1e-3, atol=1e-3 * change.max())
    # Each part by itself: weights of h move less than traces do.
    for part in np.split(np.arange(moved.size - 2), 4):
        error = np.linalg.norm(moved[part] - end[part])
        assert error < 1e-4 * np.linalg.norm(end[part] - start[part])
