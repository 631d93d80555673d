"""Compares two configurations by their runs, with statistical tests.

Runs are independent samples here, also where both sides used the same seeds: the same seed gives
the same first steps only. On each environment Welch's t-test asks whether the means differ, and
Holm's correction accounts for the number of environments.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
import warnings
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from eligrad.analysis.bootstrap import STANDARD, Bootstrap, Estimate
from eligrad.analysis.frames import MEANINGS, Table, require
from eligrad.analysis.lines import labelled
from eligrad.analysis.statistics import difference, holm, probability_of_improvement
from eligrad.runs.records import STAGE_ONE
from eligrad.runs.returns import mean_and_error

POWER = 0.8
"""The detectable difference is found by this share of all experiments."""

_NEEDED = (
    "run",
    "agent", "title", "env", "seed", "steps", "finished", "config_hash", "diverged_step",
)  # fmt: skip


def compare(
    runs_a: Table, runs_b: Table, column: str = "return_last", bootstrap: Bootstrap = STANDARD
) -> Comparison:
    """Compares two configurations by a score of their runs; a higher score is better.

    Environments that only one side has, and unfinished runs, are left out; `warnings` of the result
    names them. It also names runs by which a configuration was chosen, since their scores are too
    high: those in the folder `stage-1` of the two-stage protocol, or with 1 in a column `stage`.

    Args:
        runs_a: Runs of one configuration, on one environment or several, as `load_runs` gives them.
            The configuration may differ from one environment to the next; on each environment all
            runs are planned for the same number of steps.
        runs_b: Runs of the other configuration.
        column: The score of a run: return_last, return_all or return_area.
        bootstrap: How the confidence intervals are made.
    """
    cautions: list[str] = []
    for side, runs in (("a", runs_a), ("b", runs_b)):
        require(runs, [*_NEEDED, column], f"runs_{side}")
    a, b = names = _names(runs_a, runs_b)
    sides = []
    for name, runs in zip(names, (runs_a, runs_b), strict=True):
        _check_one_configuration(name, runs)
        _warn_of_selection(name, runs, cautions)
        finished = _finished(name, runs, cautions)
        sides.append({str(env): group for env, group in finished.groupby("env", observed=True)})
    envs = _shared_environments(names, sides, column, cautions)
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
                cautions.append(
                    f"{side.without_score} of {total} runs of {name} on {env} have no {column}, "
                    "since no episode ended in time or a return is not finite. They are left "
                    "out. If bad runs are more likely to have no score, the comparison is unfair."
                )
    improvement = probability_of_improvement(scored[0], scored[1], bootstrap)
    return Comparison(
        a, b, column, bootstrap.level, tuple(environments), improvement, tuple(cautions)
    )


@dataclasses.dataclass(frozen=True)
class Side:
    """The runs of one configuration on one environment."""

    mean: float
    standard_error: float
    runs: int
    """Number of runs with a score."""
    without_score: int
    """How many have none, since no episode ended in time; all other numbers leave them out."""
    diverged: int
    """How many of all of them diverged; those with a score count like any other."""
    seeds: frozenset[int]


@dataclasses.dataclass(frozen=True)
class OnEnvironment:
    """The result on one environment."""

    env: str
    steps: int
    a: Side
    b: Side
    difference: Estimate
    """Mean of a minus mean of b."""
    improvement: Estimate
    """Probability that a run of a scores higher than a run of b."""
    p_value: float
    """Of Welch's t-test; NaN where a side has one run."""
    adjusted_p_value: float
    """The p-value by Holm, which accounts for the number of environments."""
    detectable: float
    """The true difference that about four of five such experiments would find."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two configurations on all environments that both were run on."""

    a: str
    b: str
    column: str
    level: float
    environments: tuple[OnEnvironment, ...]
    improvement: Estimate
    """Probability that a run of a scores higher than a run of b, averaged over environments."""
    warnings: tuple[str, ...]
    """Reasons why the result may mislead."""

    def verdict(self, on: OnEnvironment) -> int:
        """1 if a is significantly better, -1 if b is, 0 if there is no significant difference."""
        if not on.adjusted_p_value <= 1 - self.level:
            return 0
        return 1 if on.difference.value > 0 else -1

    def in_words(self) -> str:
        """The result in sentences: differences, tests and their limits."""
        paragraphs = [self._heading(), *map(self._paragraph, self.environments)]
        if len(self.environments) > 1:
            paragraphs.append(self._over_all())
        caution = (
            "No significant difference does not mean that the two are equal. The result holds for "
            "these environments, settings and numbers of steps only."
        )
        paragraphs.append(
            "\n".join(_wrapped(warning, "- ", "  ") for warning in [*self.warnings, caution])
        )
        return "\n\n".join(paragraphs)

    def _heading(self) -> str:
        count = len(self.environments)
        corrected = f", corrected for {count} environments (Holm)" if count > 1 else ""
        return _wrapped(
            f"{self.a} against {self.b} by {MEANINGS.get(self.column, self.column)}; in brackets "
            f"{100 * self.level:g} % bootstrap intervals; p by Welch's t-test{corrected}."
        )

    def _paragraph(self, on: OnEnvironment) -> str:
        same = ", the same ones" if on.a.seeds == on.b.seeds else ""
        seeds = f"{on.a.runs} and {on.b.runs} seeds{same}"
        apart = f"{_shown(on.difference.value, '+')}{_interval(on.difference)}"
        lines = [
            f"{_shown(on.a.mean)} against {_shown(on.b.mean)}, a difference of {apart}. "
            f"{self._odds(on.improvement)}",
            self._claim(on),
        ]
        if on.a.diverged or on.b.diverged:
            lines.append(
                f"Diverged: {self._diverged(self.a, on.a)} and {self._diverged(self.b, on.b)}; "
                "their episodes count."
            )
        heading = f"{on.env}, {on.steps:,} steps, {seeds}:"
        return "\n".join([heading, *(_wrapped(line, "  ", "  ") for line in lines)])

    def _claim(self, on: OnEnvironment) -> str:
        if math.isnan(on.p_value):
            return "No test is possible: one seed does not show how much seeds differ."
        p, verdict = on.adjusted_p_value, self.verdict(on)
        p_value = f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
        if verdict:
            better = self.a if verdict > 0 else self.b
            return f"{better} is significantly better here ({p_value})."
        claim = f"There is no significant difference ({p_value})."
        if on.difference.low > 0 or on.difference.high < 0:
            few = len(self.environments)
            reason = (
                f"one of {few} intervals may do so by chance" if few > 1 else "the test disagrees"
            )
            claim += f" The interval excludes 0, but this is not enough: {reason}."
        if on.detectable == 0:  # all seeds of both sides ended alike
            return claim
        return (
            f"{claim} With this number of seeds and this spread, the power of the test is below "
            f"80 % for true differences under {_shown(on.detectable)}."
        )

    def _diverged(self, name: str, side: Side) -> str:
        return f"{side.diverged} of {side.runs + side.without_score} runs of {name}"

    def _odds(self, improvement: Estimate) -> str:
        return (
            f"A run of {self.a} beats one of {self.b} with probability "
            f"{improvement.value:.2f}{_interval(improvement, digits='.2f')}."
        )

    def _over_all(self) -> str:
        verdicts = [self.verdict(on) for on in self.environments]
        return _wrapped(
            f"On the {len(verdicts)} environments {self.a} is better on {verdicts.count(1)}, worse "
            f"on {verdicts.count(-1)}, and not significantly different on {verdicts.count(0)}. "
            f"Averaged over them: {self._odds(self.improvement)} {self._beyond_chance()}"
        )

    def _beyond_chance(self) -> str:
        if self.improvement.low > 0.5 or self.improvement.high < 0.5:
            winner = self.a if self.improvement.low > 0.5 else self.b
            return f"{winner} wins significantly more often on these environments."
        return "Neither wins significantly more often on these environments."

    def to_frame(self) -> pd.DataFrame:
        """The numbers, one row for each environment."""
        rows = [
            {
                "env": on.env,
                "steps": on.steps,
                **{f"{name}_a": getattr(on.a, name) for name in _SIDE},
                **{f"{name}_b": getattr(on.b, name) for name in _SIDE},
                **_columns("difference", on.difference),
                **_columns("improvement", on.improvement),
                "p_value": on.p_value,
                "adjusted_p_value": on.adjusted_p_value,
                "detectable": on.detectable,
                "verdict": self.verdict(on),
            }
            for on in self.environments
        ]
        return pd.DataFrame(rows)


def _names(runs_a: Table, runs_b: Table) -> list[str]:
    """The names of both sides: titles, and the settings in which they differ."""
    labels = labelled(pd.concat([runs_a, runs_b], ignore_index=True))["label"]
    a, b = labels.iloc[0], labels.iloc[len(runs_a)]
    return [a, b] if a != b else [f"{a} (first)", f"{b} (second)"]


def _check_one_configuration(name: str, runs: Table) -> None:
    for env, group in runs.groupby("env", observed=True):
        configurations = group["config_hash"].nunique()
        if configurations > 1:
            raise ValueError(
                f"{name} has {configurations} configurations on {env}; one is accepted, for "
                "example runs[runs.config_hash == ...]"
            )
        twice = group["seed"][group["seed"].duplicated()]
        if len(twice):
            raise ValueError(
                f"{name} has seed {twice.iloc[0]} twice on {env}; each seed is accepted once"
            )


def _finished(name: str, runs: Table, cautions: list[str]) -> Table:
    finished = runs[runs["finished"].astype(bool)]
    missing = len(runs) - len(finished)
    if not len(finished):
        raise ValueError(f"none of the {len(runs)} runs of {name} is finished")
    if missing:
        cautions.append(f"{missing} of {len(runs)} runs of {name} are unfinished and left out.")
    return finished


def _warn_of_selection(name: str, runs: Table, cautions: list[str]) -> None:
    first = runs["run"].astype(str).str.contains(rf"(?:^|/){STAGE_ONE}/")
    if "stage" in runs.columns:
        first |= runs["stage"] == 1
    if first.any():
        cautions.append(
            f"{name} was chosen by these runs from several configurations: its scores here "
            "are partly luck and too high. Train it on fresh seeds and compare those."
        )


def _shared_environments(
    names: list[str], sides: list[dict[str, Table]], column: str, cautions: list[str]
) -> list[str]:
    """Environments on which both sides have a score; warns of the others."""
    scored = [
        {env for env, group in groups.items() if len(_scores(group, column))} for groups in sides
    ]
    shared = sorted(scored[0] & scored[1])
    if not shared:
        there = " and ".join(str(sorted(envs)) for envs in scored)
        raise ValueError(f"no environment is shared: finished runs with {column} are on {there}")
    for name, envs in zip(names, scored, strict=True):
        cautions += [
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
    if np.ptp(a) == np.ptp(b) == 0:
        # Without spread there is no t: how likely do labels drawn at random separate the values?
        splits = math.comb(len(a) + len(b), len(a))
        return (1.0 if a[0] == b[0] else min(1.0, 2 / splits)), 0.0, math.inf
    with warnings.catch_warnings():
        # One side without spread is fine: the other one's counts.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test: Any = stats.ttest_ind(a, b, equal_var=False)
    return float(test.pvalue), math.hypot(stats.sem(a), stats.sem(b)), float(test.df)


def _detectable(error: float, freedom: float, risk: float) -> float:
    """The true difference that a test with this risk of a false alarm finds with `POWER`."""
    return float(error * (stats.t.ppf(1 - risk / 2, freedom) + stats.t.ppf(POWER, freedom)))


_SIDE = ("mean", "standard_error", "runs", "without_score", "diverged")


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _interval(estimate: Estimate, digits: str = ".3g") -> str:
    if math.isnan(estimate.low):
        return ""
    return f" ({_shown(estimate.low, digits=digits)} to {_shown(estimate.high, digits=digits)})"


def _shown(number: float, sign: str = "", digits: str = ".3g") -> str:
    # Whole numbers are not cut to three digits, nor written with an exponent.
    digits = ",.0f" if abs(number) >= 100 else digits
    return format(number, sign + digits).replace("-", "−")


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(text, 96, initial_indent=first, subsequent_indent=others)
