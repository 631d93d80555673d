"""The study of step sizes: what a step is in times of the usual one, and how long ObGD's are."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from benchmarks import step_sizes
from eligrad import optim


def runs(**columns: list[object]) -> pd.DataFrame:
    about = {"study": step_sizes.STUDY, "env": "CartPole-v1"}
    given = {"step_size": 1.0, "kappa": 2.0, "diverged": False, **columns}
    return pd.DataFrame(given).assign(**about)


@pytest.mark.parametrize(
    ("series", "optimizer", "varied", "values"),
    [
        ("SGD (α = 1e-4)", "sgd", "step_size", [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]),
        ("trace-adam (α = 1e-4)", "trace-adam", "step_size", [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]),
        ("ObGD (α = 1, κ = 2), other α", "obgd", "step_size", [0.1, 0.3, 1.0, 3.0, 10.0]),
        # A larger κ makes smaller steps.
        ("ObGD (α = 1, κ = 2), other κ", "obgd", "kappa", [20.0, 6.0, 2.0, 0.6, 0.2]),
    ],
)
def test_steps_are_in_times_of_the_usual_one(series, optimizer, varied, values):
    mine = runs(optimizer=[optimizer] * 5, final=[0.0] * 5)
    mine[varied] = values
    found = step_sizes.of_series(mine, series)
    assert found["times"].tolist() == list(step_sizes.TIMES)
    others = set(step_sizes.SERIES) - {series}
    shared = [name for name in others if step_sizes.SERIES[name][0] == optimizer]
    for name in others:  # of the other series of ObGD, only the usual step
        assert len(step_sizes.of_series(mine, name)) == (name in shared)


def test_the_table_counts_the_seeds_that_reach_the_mark():
    mine = runs(
        optimizer=["sgd"] * 4, step_size=[1e-4, 1e-4, 1e-3, 1e-3], final=[500.0, 400.0, 9.0, 11.0],
        diverged=[False, False, True, False],
    )  # fmt: skip
    *_, row = step_sizes.table(
        mine, ["Acrobot-v1", "CartPole-v1"], {"CartPole-v1": 475.0}
    ).splitlines()
    cells = "|  |  | 450.0 ± 50.0 (1) |  | 10.0 ± 1.0 (0) (1 of 2 diverged) | 1 of 4 |"
    assert row == "| CartPole-v1 | SGD (α = 1e-4) " + cells


@pytest.mark.parametrize("error", [-0.3, 0.9, 2.5])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
def test_the_step_is_that_of_the_optimiser(error, scale):
    trace = {"a": scale * jnp.array([1.0, -2.0]), "b": scale * jnp.array([[0.5], [4.0]])}
    direction = {"a": jnp.array([1.0, 3.0]), "b": jnp.array([[2.0], [-1.0]])}
    optimizer = optim.obgd(1.0, step_sizes.KAPPA)
    step, _ = optimizer.update(direction, optimizer.init(trace), td_error=error, trace=trace)
    expected = step_sizes.bounded_step(np.array(error), 7.5 * scale)
    np.testing.assert_allclose(step["b"], -expected * direction["b"], rtol=1e-6)
    np.testing.assert_allclose(step["a"], -expected * direction["a"], rtol=1e-6)
