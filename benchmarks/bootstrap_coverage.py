"""How often the 95 % interval holds the truth, for few runs and many.

    python -m benchmarks.bootstrap_coverage

Prints the table in `eligrad/analysis/bootstrap.py`: coverage in per cent of the plain percentile
interval and of the expanded one, on scores that are drawn from a known distribution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from eligrad.analysis import statistics
from eligrad.analysis.bootstrap import Bootstrap, Estimate

LEVEL = 0.95
RUNS = (5, 10, 30, 100)
TRIALS = 2000
TASKS = np.linspace(-1, 1, 5)
"""Mean scores of five tasks; the truth of their interquartile mean is 0 by symmetry."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A statistic of random scores, `samples` of them with as many runs each, and its truth."""

    title: str
    samples: int
    truth: float
    estimate: Callable[[np.random.Generator, int, Bootstrap], Estimate]


def _mean(random: np.random.Generator, runs: int, bootstrap: Bootstrap) -> Estimate:
    return statistics.mean({"task": random.normal(size=runs)}, bootstrap)


def _skewed(random: np.random.Generator, runs: int, bootstrap: Bootstrap) -> Estimate:
    return statistics.mean({"task": random.exponential(size=runs)}, bootstrap)


def _difference(random: np.random.Generator, runs: int, bootstrap: Bootstrap) -> Estimate:
    a, b = random.normal(size=runs), 2 * random.normal(size=runs)
    return statistics.difference({"task": a}, {"task": b}, bootstrap)


def _iqm(random: np.random.Generator, runs: int, bootstrap: Bootstrap) -> Estimate:
    scores = {str(mean): random.normal(mean, size=runs) for mean in TASKS}
    return statistics.iqm(scores, bootstrap)


def _improvement(truth: float) -> Case:
    # The difference of two normal scores has variance 2.
    ahead = float(np.sqrt(2) * stats.norm.ppf(truth))

    def estimate(random: np.random.Generator, runs: int, bootstrap: Bootstrap) -> Estimate:
        a, b = random.normal(ahead, size=runs), random.normal(size=runs)
        return statistics.probability_of_improvement({"task": a}, {"task": b}, bootstrap)

    return Case(f"P(X > Y) = {truth}", 2, truth, estimate)


CASES = {
    "mean": Case("mean, normal", 1, 0.0, _mean),
    "skewed": Case("mean, exponential", 1, 1.0, _skewed),
    "difference": Case("difference of means", 2, 0.0, _difference),
    "iqm": Case("IQM of 5 tasks", len(TASKS), 0.0, _iqm),
    "improvement": _improvement(0.8),
    "near one": _improvement(0.95),
}


def coverage(case: Case, runs: int, trials: int, resamples: int, level: float = LEVEL) -> float:
    """The share of trials whose interval holds the truth."""
    random = np.random.default_rng(runs)
    held = 0
    for trial in range(trials):
        interval = case.estimate(random, runs, Bootstrap(level, resamples, seed=trial))
        held += interval.low <= case.truth <= interval.high
    return held / trials


def plain_level(case: Case, runs: int) -> float:
    """The level whose expanded interval is the plain one of `LEVEL`."""
    freedom = case.samples * (runs - 1)
    quantile = special.ndtri((1 - LEVEL) / 2) * np.sqrt((runs - 1) / runs)
    return float(1 - 2 * special.stdtr(freedom, quantile))


def main() -> None:
    print(f"| runs | {' | '.join(case.title for case in CASES.values())} |")
    print("|---" * (len(CASES) + 1) + "|")
    for runs in RUNS:
        cells = []
        for case in CASES.values():
            levels = (plain_level(case, runs), LEVEL)
            # Of few runs the expanded quantiles lie far out, where it takes many draws.
            draws = 10_000 if runs <= 10 else 2000
            plain, expanded = (coverage(case, runs, TRIALS, draws, level) for level in levels)
            cells.append(f"{100 * plain:.1f} → {100 * expanded:.1f}")
        print(f"| {runs} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
