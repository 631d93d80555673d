"""Two configurations side by side: what their runs say, and what can be claimed from it.

Runs are independent samples here, also where both sides used the same seeds: the same seed gives
the same first steps only. On each environment Welch's t-test asks whether the means differ, and
Holm's correction accounts for the number of environments.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special, stats

from eligrad.analysis.bootstrap import STANDARD, Bootstrap
from eligrad.analysis.comparison import Comparison, OnEnvironment, Side
from eligrad.analysis.frames import Table, labelled, require
from eligrad.analysis.statistics import difference, holm, probability_of_improvement
from eligrad.runs.records import STAGE_ONE
from eligrad.runs.returns import mean_and_error

POWER = 0.8
"""How often a difference is found that counts as one that could have been seen."""

_NEEDED = (
    "run",
    "agent", "title", "env", "seed", "steps", "finished", "config_hash", "diverged_step",
)  # fmt: skip


class SeveralConfigurations(ValueError):
    """What was `found` on one side of a comparison is more than one configuration."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"{found}; compare one at a time, for example runs[runs.config_hash == ...]"
        )


def compare(
    runs_a: Table, runs_b: Table, column: str = "return_last", bootstrap: Bootstrap = STANDARD
) -> Comparison:
    """Compares two configurations by a score of their runs; more is better.

    Each side holds the runs of one configuration, on one environment or several; a configuration
    may differ from one environment to the next. Environments that one side lacks and unfinished
    runs are left out and pointed out; on each environment all runs must be planned for the same
    number of steps. Runs by which a configuration was chosen flatter it, and are pointed out: those
    from the folder `stage-1` of the two-stage protocol, or with 1 in a column `stage`.
    """
    warnings: list[str] = []
    for side, runs in (("a", runs_a), ("b", runs_b)):
        require(runs, [*_NEEDED, column], f"runs_{side}")
    a, b = names = _names(runs_a, runs_b)
    sides = []
    for name, runs in zip(names, (runs_a, runs_b), strict=True):
        _check_one_configuration(name, runs)
        _warn_of_selection(name, runs, warnings)
        finished = _finished(name, runs, warnings)
        sides.append({str(env): group for env, group in finished.groupby("env", observed=True)})
    envs = _shared_environments(names, sides, column, warnings)
    scored = [{env: _scores(groups[env], column) for env in envs} for groups in sides]

    tests = [_welch(ours, theirs) for ours, theirs in zip(*map(dict.values, scored), strict=True)]
    adjusted = holm(np.array([test[0] for test in tests]))
    risk = (1 - bootstrap.level) / max(1, sum(not math.isnan(test[0]) for test in tests))
    environments = []
    for env, (p_value, error, freedom), corrected in zip(envs, tests, adjusted, strict=True):
        ours, theirs = ({env: scores[env]} for scores in scored)
        environments.append(
            OnEnvironment(
                env=env,
                steps=_steps(env, sides),
                a=_side(sides[0][env], column),
                b=_side(sides[1][env], column),
                difference=difference(ours, theirs, bootstrap),
                improvement=probability_of_improvement(ours, theirs, bootstrap),
                p_value=p_value,
                adjusted_p_value=float(corrected),
                detectable=_detectable(error, freedom, risk),
            )
        )
        for name, side in zip(names, (environments[-1].a, environments[-1].b), strict=True):
            if side.without_score:
                total = side.runs + side.without_score
                warnings.append(
                    f"{side.without_score} of {total} runs of {name} on {env} have no {column}, "
                    "since no episode ended in time, and are left out. If that has to do with how "
                    "good they are, the comparison is unfair."
                )
    improvement = probability_of_improvement(scored[0], scored[1], bootstrap)
    return Comparison(
        a, b, column, bootstrap.level, tuple(environments), improvement, tuple(warnings)
    )


def _names(runs_a: Table, runs_b: Table) -> list[str]:
    """What to call the two: titles, with the settings they differ in."""
    labels = labelled(pd.concat([runs_a, runs_b], ignore_index=True))["label"]
    a, b = labels.iloc[0], labels.iloc[len(runs_a)]
    return [a, b] if a != b else [f"{a} (first)", f"{b} (second)"]


def _check_one_configuration(name: str, runs: Table) -> None:
    for env, group in runs.groupby("env", observed=True):
        configurations = group["config_hash"].nunique()
        if configurations > 1:
            raise SeveralConfigurations(f"{name} has {configurations} configurations on {env}")
        twice = group["seed"][group["seed"].duplicated()]
        if len(twice):
            raise ValueError(f"{name} has seed {twice.iloc[0]} twice on {env}; once is accepted")


def _finished(name: str, runs: Table, warnings: list[str]) -> Table:
    finished = runs[runs["finished"].astype(bool)]
    missing = len(runs) - len(finished)
    if not len(finished):
        raise ValueError(f"none of the {len(runs)} runs of {name} is finished")
    if missing:
        warnings.append(f"{missing} of {len(runs)} runs of {name} are unfinished and left out.")
    return finished


def _warn_of_selection(name: str, runs: Table, warnings: list[str]) -> None:
    first = runs["run"].astype(str).str.contains(rf"(?:^|/){STAGE_ONE}/")
    if "stage" in runs.columns:
        first |= runs["stage"] == 1
    if first.any():
        warnings.append(
            f"{name} was chosen by these very runs, out of several configurations: its scores here "
            "are partly luck and too high. Run it again on fresh seeds and compare those."
        )


def _shared_environments(
    names: list[str], sides: list[dict[str, Table]], column: str, warnings: list[str]
) -> list[str]:
    """Environments on which both sides have a score; the others are pointed out."""
    scored = [
        {env for env, group in groups.items() if len(_scores(group, column))} for groups in sides
    ]
    shared = sorted(scored[0] & scored[1])
    if not shared:
        there = " and ".join(str(sorted(envs)) for envs in scored)
        raise ValueError(f"no environment is shared: finished runs with {column} are on {there}")
    for name, envs in zip(names, scored, strict=True):
        warnings += [
            f"{env} is left out: only {name} has finished runs with {column} there."
            for env in sorted(envs - set(shared))
        ]
    return shared


def _steps(env: str, sides: list[dict[str, Table]]) -> int:
    steps = sorted({int(step) for groups in sides for step in groups[env]["steps"]})
    if len(steps) > 1:
        raise ValueError(
            f"runs on {env} are planned for {steps} steps; one number of steps for all is "
            "accepted, since more steps give other scores"
        )
    return steps[0]


def _scores(runs: Table, column: str) -> Float[np.ndarray, "scores"]:
    values = runs[column].to_numpy(np.float64, na_value=np.nan)
    return values[np.isfinite(values)]


def _side(runs: Table, column: str) -> Side:
    scores = _scores(runs, column)
    mean, error = mean_and_error(scores)
    return Side(
        mean=float(mean),
        standard_error=float(error),
        runs=len(scores),
        without_score=len(runs) - len(scores),
        diverged=int(runs["diverged_step"].notna().sum()),
        seeds=frozenset(int(seed) for seed in runs["seed"]),
    )


def _welch(a: Float[np.ndarray, "n"], b: Float[np.ndarray, "m"]) -> tuple[float, float, float]:
    """p-value, standard error of the difference and its degrees of freedom, by Welch."""
    if min(len(a), len(b)) < 2:
        return math.nan, math.nan, math.nan
    variances = [np.var(side, ddof=1) / len(side) for side in (a, b)]
    error = math.sqrt(sum(variances))
    if error == 0:
        # No spread, no t: how likely is it that labels dealt at random part the two values?
        splits = math.comb(len(a) + len(b), len(a))
        return (1.0 if a[0] == b[0] else min(1.0, 2 / splits)), 0.0, math.inf
    sizes = (len(a), len(b))
    parts = [part**2 / (size - 1) for part, size in zip(variances, sizes, strict=True)]
    freedom = sum(variances) ** 2 / sum(parts)
    t = abs(np.mean(a) - np.mean(b)) / error
    return float(2 * special.stdtr(freedom, -t)), error, float(freedom)


def _detectable(error: float, freedom: float, risk: float) -> float:
    """The true difference that a test with this risk of a false alarm finds with `POWER`."""
    return float(error * (stats.t.ppf(1 - risk / 2, freedom) + stats.t.ppf(POWER, freedom)))
