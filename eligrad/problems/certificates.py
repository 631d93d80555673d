"""Certificates: is a rule stable on a problem, and for which β and step sizes of h?

Around a solution the mean updates are a linear system: deviations x of (w, θ) move by M x. It is
stable if every eigenvalue of M has a negative real part; the largest of them is the slowest mode.
With linear values, with A and C = E_d[x x^T] of the features, and with R = I for "parameters" and
"head" or R = C for "output":

    TDC, TDRC:  M = [[-A, A^T - C], [-A, -(C + beta R)]]
    GTD2:       M = [[ 0, A^T    ], [-A, -(C + beta R)]]
    TD:         M = -A

The second row is multiplied by the ratio of the step sizes of h and v. Directions of w and θ that
change no value are left out: Baird's eight weights have seven.

This is a statement about small steps: noise, and steps so large that they overshoot, are not in it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Complex

from eligrad import rules
from eligrad._base import array_checks as check
from eligrad.problems.problem import Problem
from eligrad.rules import Regularize, Rule

SEARCHED = tuple(float(x) for x in np.logspace(-4, 4, 161))
"""Where stable ranges of β and of the step sizes' ratio are looked for."""

Ranges = tuple[tuple[float, float], ...]
"""Intervals, in order."""


@dataclasses.dataclass(frozen=True, repr=False)
class Stability:
    """The certificate of a rule on a problem; see `eligrad.problems.stability`."""

    problem: Problem
    rule: Rule
    lam: float
    beta: float
    regularize: Regularize
    h_step_ratio: float

    def __repr__(self) -> str:
        beta = f", β = {self.beta:g} on {self.regularize!r}" if self.rule.regularized else ""
        return (
            f"Stability({self.rule.title} on {self.problem.name}, λ = {self.lam:g}{beta}: "
            f"{'stable' if self.stable else 'unstable'}, slowest mode {self.slowest:.3g})"
        )

    @functools.cached_property
    def eigenvalues(self) -> Complex[np.ndarray, " n"]:
        """Of the joint system of w and θ, the slowest mode first."""
        system = self.problem.joint_system(
            self.rule, self.lam, self.beta, self.regularize, self.h_step_ratio
        )
        found = np.linalg.eigvals(system).astype(complex)
        return found[np.argsort(-np.real(found))]

    @property
    def slowest(self) -> float:
        """The largest real part: errors change as exp(slowest · time · step size), in the end."""
        return float(np.real(self.eigenvalues[0]))

    @property
    def stable(self) -> bool:
        """Whether all errors vanish; those of a mode with rate 0 do not."""
        # A rate of 0 but for rounding is judged by the largest rate, and by the size of the inputs.
        size = self.problem.mdp.weighting @ np.sum(self.problem.observations**2, axis=1)
        return self.slowest < -1e-12 * max(float(size), float(np.abs(self.eigenvalues).max()))

    @functools.cached_property
    def stable_betas(self) -> Ranges:
        """The intervals of β that are stable, everything else being equal.

        Looked for from 1e-4 to 1e4; 0 and infinity stand for beyond. There may be several: on
        Baird's counterexample "parameters" is unstable for some β between stable ones.
        """
        if not self.rule.regularized:
            return ((0.0, 0.0),) if self.stable else ()
        return _ranges(lambda beta: dataclasses.replace(self, beta=beta).stable)

    @property
    def largest_beta(self) -> float | None:
        """The largest β that is stable; None where none is."""
        return self.stable_betas[-1][1] if self.stable_betas else None

    @functools.cached_property
    def stable_h_step_ratios(self) -> Ranges:
        """The intervals of the step size of h over that of v that are stable, as `stable_betas`."""
        return _ranges(lambda ratio: dataclasses.replace(self, h_step_ratio=ratio).stable)


def stability(
    problem: Problem,
    rule: str | Rule,
    lam: float,
    *,
    beta: float | None = None,
    regularize: Regularize = "parameters",
    h_step_ratio: float = 1.0,
) -> Stability:
    """Whether the mean updates of a rule lead to a problem's solution, and what would change that.

    For linear values this is exact. For the spiral see `SpiralProblem.joint_system`.

    Args:
        problem: e.g. `problems.get("baird")`.
        rule: a rule or its name.
        lam: the trace parameter.
        beta: regularisation of h; the rule's own default where None.
        regularize: what beta acts on. A linear h is all head: "head" is "parameters".
        h_step_ratio: the step size of h over that of v.
    """
    rule = rules.get(rule) if isinstance(rule, str) else rule
    check.within("lam", lam, 0.0, 1.0)
    check.positive("h_step_ratio", h_step_ratio)
    beta = float(np.asarray(rule.resolve_beta(beta, regularize)))
    return Stability(problem, rule, float(lam), beta, regularize, float(h_step_ratio))


def _ranges(stable: Callable[[float], bool]) -> Ranges:
    """The intervals in which `stable` holds: on a grid, the borders refined."""
    held = [stable(x) for x in SEARCHED]
    steps = zip(itertools.pairwise(SEARCHED), itertools.pairwise(held), strict=True)
    borders = [_border(stable, *between) for between, (before, after) in steps if before != after]
    ends = [0.0] * held[0] + borders + [np.inf] * held[-1]
    return tuple(zip(ends[::2], ends[1::2], strict=True))


def _border(stable: Callable[[float], bool], low: float, high: float) -> float:
    """Where between two values `stable` changes, to eight digits."""
    at_low = stable(low)
    while high > low * (1 + 1e-8):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if stable(middle) == at_low else (low, middle)
    return low
