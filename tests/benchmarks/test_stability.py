"""The figure of stable regions draws what the certificates say."""

from __future__ import annotations

import numpy as np

from benchmarks import stability
from eligrad import problems


def test_the_figure_is_drawn_from_certificates(tmp_path, monkeypatch):
    monkeypatch.setattr(stability, "BETAS", np.array([0.01, 0.1, 100.0]))
    monkeypatch.setattr(stability, "LAMBDAS", np.array([0.0, 0.95]))
    stable = {
        (name, regularize): stability.slowest_modes(name, regularize) < 0
        for name in stability.PROBLEMS
        for regularize in stability.ROWS
    }
    # The island of "parameters" on Baird's counterexample, and the borders on the right.
    assert stable["baird", "parameters"].tolist() == [[True, False, False], [True] * 3]
    assert stable["baird", "output"].tolist() == [[True, True, False], [True] * 3]
    assert stable["spiral", "output"].tolist() == [[True, True, False], [True] * 3]
    assert np.all(stable["boyan_chain", "parameters"])
    known = problems.stability(problems.get("baird"), "tdrc", 0.95, beta=100.0).slowest
    assert stability.slowest_modes("baird", "parameters")[1, 2] == known
    stability.figure(tmp_path / "stability.png")
    assert (tmp_path / "stability.png").stat().st_size > 20_000
