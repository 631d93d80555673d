"""QRC(λ) learns small tasks from one stream with its default settings."""

from __future__ import annotations

import pytest

from eligrad.training import train

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize(
    ("env", "steps", "mark"),
    [("gymnax/CartPole-v1", 100_000, 475.0), ("gymnax/Acrobot-v1", 150_000, -130.0)],
)
def test_small_tasks_are_learned(env, steps, mark):
    """In 19 of 20 seeds, by `results/vectors`; of eight, one may fail."""
    pytest.importorskip("gymnax")
    result = train("qrc", env, steps=steps, seeds=list(range(500, 508)))
    episodes = result.episodes.to_pandas()
    late = episodes[episodes["step"] > 0.9 * steps].groupby("seed")["return"].mean()
    assert (late >= mark).sum() >= 7, late
