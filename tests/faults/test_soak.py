"""A long life: `python -m benchmarks.soak` with its promises."""

from __future__ import annotations

import pytest

from benchmarks import soak

pytestmark = pytest.mark.faults


def test_twenty_million_steps():
    """At every tenth the run's files are read while it goes on."""
    life = soak.watch_training(20_000_000)
    assert life.growth < 5.0
    assert life.worst_statistic < 1e-5


def test_a_million_calls():
    life = soak.watch_online(1_000_000)
    assert life.growth < 5.0
    assert life.worst_statistic < 1e-5
