"""What a comparison of two configurations found, as numbers and in words."""

from __future__ import annotations

import dataclasses
import math
import textwrap

import pandas as pd

from eligrad.analysis.bootstrap import Estimate

MEANINGS = {
    "return_last": "the mean return of the episodes in the last tenth of the steps",
    "return_all": "the mean return of all episodes",
    "return_area": "the area under the learning curve, per step",
}
"""Scores as a sentence names them."""


@dataclasses.dataclass(frozen=True)
class Side:
    """The runs of one configuration on one environment."""

    mean: float
    standard_error: float
    runs: int
    """How many have a score."""
    without_score: int
    """How many have none, since no episode ended in time; they are left out of all else."""
    diverged: int
    """How many of all of them diverged; those with a score are counted like any other."""
    seeds: frozenset[int]


@dataclasses.dataclass(frozen=True)
class OnEnvironment:
    """What came out on one environment."""

    env: str
    steps: int
    a: Side
    b: Side
    difference: Estimate
    """Of the means, a less b."""
    improvement: Estimate
    """Probability that a run of a beats one of b."""
    p_value: float
    """Of Welch's t-test; NaN where a side is of one run."""
    adjusted_p_value: float
    """The same by Holm, for all environments together."""
    detectable: float
    """The true difference that would be found in about four of five such experiments."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two configurations on all environments that both were run on."""

    a: str
    b: str
    column: str
    level: float
    environments: tuple[OnEnvironment, ...]
    improvement: Estimate
    """Probability that a run of a beats one of b, averaged over the environments."""
    warnings: tuple[str, ...]
    """What a reader has to know before believing any of it."""

    def verdict(self, on: OnEnvironment) -> int:
        """1 where a is better, -1 where b is, 0 where no difference can be claimed."""
        if not on.adjusted_p_value <= 1 - self.level:
            return 0
        return 1 if on.difference.value > 0 else -1

    def in_words(self) -> str:
        """What can and what cannot be claimed."""
        paragraphs = [self._heading(), *map(self._paragraph, self.environments)]
        if len(self.environments) > 1:
            paragraphs.append(self._over_all())
        caution = (
            "Not claimed: that the two are equal where no difference was found, nor anything about "
            "other environments, settings or numbers of steps."
        )
        paragraphs.append("\n".join(_bullet(warning) for warning in [*self.warnings, caution]))
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
        return "\n".join([heading, *(_wrapped(line, "  ") for line in lines)])

    def _claim(self, on: OnEnvironment) -> str:
        if math.isnan(on.p_value):
            return "Nothing can be claimed: of one seed nobody knows how much others would differ."
        p_value, verdict = _p_value(on.adjusted_p_value), self.verdict(on)
        if verdict:
            better = self.a if verdict > 0 else self.b
            return f"It can be claimed that {better} is better here ({p_value})."
        claim = f"No difference can be claimed ({p_value})."
        if on.difference.low > 0 or on.difference.high < 0:
            few = len(self.environments)
            reason = (
                f"of {few} such intervals one may by chance" if few > 1 else "the test disagrees"
            )
            claim += f" That the interval leaves out 0 is not enough: {reason}."
        return (
            f"{claim} With so many seeds and this spread, a true difference below "
            f"{_shown(on.detectable)} would be missed more than once in five times."
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
            f"on {verdicts.count(-1)}, and on {verdicts.count(0)} nothing can be claimed. Averaged "
            f"over them: {self._odds(self.improvement)} {self._beyond_chance()}"
        )

    def _beyond_chance(self) -> str:
        if self.improvement.low > 0.5 or self.improvement.high < 0.5:
            winner = self.a if self.improvement.low > 0.5 else self.b
            return (
                f"It can be claimed that {winner} wins more often than not on these environments."
            )
        return "Which of them wins more often on these environments cannot be claimed."

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


def _p_value(p_value: float) -> str:
    return f"p = {p_value:.2g}" if p_value >= 0.001 else "p < 0.001"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 96, initial_indent=indent, subsequent_indent=indent)


def _bullet(text: str) -> str:
    return textwrap.fill(text, 96, initial_indent="- ", subsequent_indent="  ")
