"""Open questions, one figure each, and the sentence below it; `benchmarks.results` makes them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from benchmarks import leaky_relu
from benchmarks.minatar_learning import GAMES
from benchmarks.mujoco_learning import TASKS
from benchmarks.published_recursion import RULES, slowest_mode
from eligrad import problems, rules
from eligrad.agents import TITLES
from eligrad.analysis import statistics
from eligrad.analysis.bootstrap import Estimate
from eligrad.analysis.frames import Table
from eligrad.problems import LinearProblem
from eligrad.runs.plot import blank, save

ROOT = Path(__file__).parents[1] / "results"
LEVEL = 0.05
BLUE, RED = "#0072B2", "#D55E00"

Pairs = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]
"""Final returns of the two sides, a number for each seed, by environment and row."""


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "| --- " * len(lines[0]) + "|", *rest])


class Question(NamedTuple):
    """A question that is answered by the difference of two sides."""

    title: str
    sides: tuple[str, str]
    """What is compared: the first less the second."""
    pairs: Callable[[Table], Pairs]
    steps: int
    """Of each run."""


def of_variants(
    studies: Sequence[str],
    envs: Sequence[str],
    variants: Mapping[str, tuple[str, str]],
    against: Sequence[str] | None = None,
) -> Callable[[Table], Pairs]:
    """The final returns of pairs of variants, by what a row is called; none where none has run.

    Args:
        studies: whose runs count.
        envs: the environments.
        variants: the two sides by row.
        against: the studies of the second side, if they are others.
    """

    def pairs(runs: Table) -> Pairs:
        def finals(env: str, variant: str, studies: Sequence[str]) -> np.ndarray:
            mine = runs[runs["study"].isin(studies) & (runs["env"] == env)]
            return mine[mine["variant"] == variant]["final"].dropna().to_numpy()

        return {
            (env, row): (finals(env, a, studies), finals(env, b, against or studies))
            for env in envs
            for row, (a, b) in variants.items()
        }

    return pairs


def by_slope(root: Path = ROOT) -> Pairs:
    """The final returns of each game and agent, with slope 0.01 and with slope 1."""
    found = {
        slope: {
            (run["game"], TITLES[run["agent"]]): np.array(run["returns"], float)
            for run in json.loads((root / "leaky_relu" / f"slope-{slope}.json").read_text())["runs"]
        }
        for slope in ("0.01", "1.0")
    }
    return {key: (returns, found["1.0"][key]) for key, returns in found["0.01"].items()}


QUESTIONS: dict[str, Question] = {
    "fresh or stale": Question(
        "Should Gradient PPO's policy learn from fresh or from stale advantages?",
        ("fresh", "stale"),
        of_variants(
            ("mujoco",),
            TASKS,
            {rules.get(r).title: (f"{r}-fresh", f"{r}-stale") for r in RULES},
        ),
        301_056,
    ),
    "fresh or stale, long run": Question(
        "Fresh or stale advantages over a million steps?",
        ("fresh", "stale"),
        of_variants(
            ("mujoco-1m", "gradient-ppo/stage-2"),
            TASKS,
            {rules.get("tdrc").title: ("tdrc-fresh", "tdrc-stale")},
        ),
        1_001_472,
    ),
    "trace cut": Question(
        "Does it matter where QRC(λ) cuts its traces at a non-greedy action?",
        ("Watkins", "after"),
        of_variants(("minatar",), GAMES, {"QRC(λ)": ("qrc-watkins", "qrc")}),
        200_000,
    ),
    "slope": Question(
        "Does the slope of the leaky ReLU at exactly 0 matter?",
        ("slope 0.01", "slope 1"),
        lambda runs: by_slope(),
        leaky_relu.STEPS,
    ),
    "slope, long run": Question(
        "Does the slope of the leaky ReLU at exactly 0 matter in the long run?",
        ("slope 0.01", "slope 1"),
        of_variants(
            (leaky_relu.LONG_STUDY,),
            leaky_relu.LONG_GAMES,
            {TITLES[agent]: (agent, agent) for agent in leaky_relu.LONG_AGENTS},
            against=("minatar-1m",),
        ),
        leaky_relu.LONG_STEPS,
    ),
    "recursion": Question(
        "Does the published code's recursion for ∇D matter in Gradient PPO?",
        ("published", "right"),
        of_variants(
            ("mujoco-1m", "recursion"),
            ("Hopper-v4", "HalfCheetah-v4"),
            {rules.get(r).title: (f"{r}-fresh-published", f"{r}-fresh") for r in ("tdrc", "tdc")},
        ),
        1_001_472,
    ),
}


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first side less the second, by one environment and row."""

    env: str
    row: str
    estimate: Estimate
    seeds: tuple[int, int]
    p: float
    """Of Welch's t-test, with Holm's correction over all differences of the question; one that has
    not run counts in it with a p-value of 1."""


def differences(pairs: Pairs) -> list[Difference]:
    """The difference of each pair that has run, with its interval and its p-value."""
    made = ran(pairs)
    tests: list[Any] = [stats.ttest_ind(*sides, equal_var=False) for sides in made.values()]
    missing = [1.0] * (len(pairs) - len(made))
    adjusted = statistics.holm(np.array([*(test.pvalue for test in tests), *missing]))
    return [
        Difference(env, row, statistics.difference({env: a}, {env: b}), (len(a), len(b)), float(p))
        for ((env, row), (a, b)), p in zip(made.items(), adjusted, strict=False)
    ]


def ran(pairs: Pairs) -> Pairs:
    """The pairs of which both sides have run."""
    return {key: sides for key, sides in pairs.items() if all(map(len, sides))}


def answer(question: Question, runs: Table) -> str:
    """A sentence: which differences stand, or that none does."""
    pairs = question.pairs(runs)
    found = differences(pairs)
    if not found:
        return "Not run yet."
    seeds = sorted({n for each in found for n in each.seeds})
    planned = f" ({len(pairs)} are planned)" if len(pairs) > len(found) else ""
    size = f"of {len(found)} differences{planned}, {' or '.join(map(str, seeds))} seeds a side"
    test = "Welch's t-test, Holm's correction, 5 %"
    standing = [each for each in found if each.p < LEVEL]
    if not standing:
        least = min(found, key=lambda each: each.p)
        return (
            f"**Not enough data to tell**: {size}, none is significant ({test}; the smallest "
            f"p is {least.p:.3f}, {least.row} on {least.env})."
        )
    names = "; ".join(
        f"{each.row} on {each.env}, {question.sides[each.estimate.value < 0]} is higher by "
        f"{abs(each.estimate.value):,.4g} (p = {each.p:.2g})"
        for each in standing
    )
    return f"**A difference is seen**: {size}, {len(standing)} significant ({test}). {names}."


def draw(question: Question, runs: Table, path: Path) -> None:
    """A panel for each environment; in it the differences with their intervals, by row."""
    found = differences(question.pairs(runs))
    envs = [env for env in (*GAMES, *TASKS) if any(each.env == env for each in found)]
    rows = list(dict.fromkeys(each.row for each in found))
    first, second = question.sides
    figure = blank(max(7.5, len(envs) * (1.5 + 0.45 * len(rows))), 3.9)
    for panel, env in zip(figure.subplots(1, len(envs), squeeze=False)[0], envs, strict=True):
        mine = {each.row: each for each in found if each.env == env}
        for place, row in enumerate(rows):
            if row not in mine:
                continue
            gap, stands = mine[row].estimate, mine[row].p < LEVEL
            panel.plot([place, place], [gap.low, gap.high], color=BLUE, linewidth=2.2)
            panel.plot(
                place, gap.value, "o", color=BLUE, markersize=8,
                markerfacecolor=BLUE if stands else "white", markeredgewidth=2,
            )  # fmt: skip
        panel.axhline(0, color="black", linewidth=1)
        reach = 1.15 * max(abs(x) for e in mine.values() for x in (e.estimate.low, e.estimate.high))
        panel.set(title=env, xlim=(-0.6, len(rows) - 0.4), ylim=(-reach, reach))
        panel.set_xticks(range(len(rows)), rows, rotation=25 if len(rows) > 1 else 0)
        panel.grid(axis="y", alpha=0.3)
    figure.axes[0].set_ylabel(f"difference in final return\n← {second} better    {first} better →")
    seeds = " or ".join(map(str, sorted({n for each in found for n in each.seeds})))
    figure.suptitle(question.title, weight="bold")
    figure.supxlabel(
        f"Difference of the means over {seeds} seeds of the return in the last tenth of "
        f"{question.steps:,} steps.\nBars: 95 % intervals (bootstrap). Hollow: not "
        "significant (Welch's t-test, Holm's correction, 5 %); filled: significant.",
        fontsize=9,
    )
    save(figure, path)


# What the published recursion does to the mean updates, exactly.

PROBLEMS = {
    "random_walk_19": "random walk, 19 states",
    "boyan_chain": "Boyan's chain",
    "baird": "Baird's counterexample",
    "random_mdp": "random MDP",
}
LAM = 0.95
LAMBDAS, SCALES = np.linspace(0, 1, 41)[:-1], np.geomspace(0.1, 10, 61)


def scaled(name: str, scale: float) -> LinearProblem:
    """A problem with all features multiplied by a number: the same values, other units of w."""
    problem = problems.get(name)
    assert isinstance(problem, LinearProblem)
    return dataclasses.replace(problem, observations=scale * problem.observations)


def rates(
    name: str, rule: str, *, published: bool, lam: float | None = None
) -> Float[np.ndarray, "points"]:
    """How fast the mean updates come to rest: at all λ, or with one λ at all scales of features.

    Below 0 they do not. Those of scaled features are divided by the scale's square, by which the
    features alone would quicken them.
    """
    if lam is not None:
        return np.array(
            [-slowest_mode(scaled(name, c), rule, lam, published=published) / c**2 for c in SCALES]
        )
    problem = scaled(name, 1.0)
    return np.array([-slowest_mode(problem, rule, each, published=published) for each in LAMBDAS])


def exact_recursion() -> str:
    """The slowest mode by problem, rule and recursion; the scale from which on it is unstable."""
    titles = [rules.get(rule).title for rule in RULES]
    head = [f"{title}, {which}" for title in titles for which in ("right", "published")]
    lines = [["", *head, "TDC(λ), published: unstable from features × "]]
    for name, title in PROBLEMS.items():
        modes = [
            f"{slowest_mode(scaled(name, 1.0), rule, LAM, published=which):.2g}".replace("-", "−")
            for rule in RULES
            for which in (False, True)
        ]
        unstable = SCALES[rates(name, "tdc", published=True, lam=LAM) <= 0]
        lines.append([title, *modes, f"{unstable.min():.2g}" if unstable.size else "none up to 10"])
    return markdown(lines)


def draw_exact(path: Path) -> None:
    """How fast each recursion comes to rest, by λ; and what the scale of the features does."""
    figure = blank(12.5, 4.4)
    *panels, last = figure.subplots(1, 4)
    for panel, (name, title) in zip(panels, PROBLEMS.items(), strict=False):
        for rule, style in (("tdrc", "-"), ("tdc", "--")):
            for published, colour in ((False, BLUE), (True, RED)):
                panel.plot(
                    LAMBDAS, rates(name, rule, published=published), style, color=colour,
                    label=f"{rules.get(rule).title}, {'published' if published else 'right'}",
                )  # fmt: skip
        panel.set(title=title, yscale="log", xlabel="λ", xlim=(0, 1))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("speed of convergence\n(slowest rate per unit of step size)")
    for name, colour in zip(PROBLEMS, ("#009E73", "#E69F00", "#CC79A7", "#000000"), strict=True):
        by = [rates(name, "tdc", published=which, lam=LAM) for which in (True, False)]
        ratio = by[0] / by[1]
        ends = np.argmax(ratio <= 0) if np.any(ratio <= 0) else len(ratio)
        last.plot(SCALES[:ends], ratio[:ends], color=colour, label=PROBLEMS[name])
        if ends < len(ratio):
            last.plot(SCALES[ends - 1], ratio[ends - 1], "X", color=colour, markersize=10)
    last.axhline(1, color="black", linewidth=1)
    last.set(
        title=f"other units, λ = {LAM}", xscale="log", yscale="log",
        xlabel="features multiplied by",
        ylabel="speed of TDC(λ), published / right\n(✕: unstable from here on)",
    )  # fmt: skip
    last.grid(alpha=0.3)
    last.legend(fontsize=8, frameon=False)
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower left", ncols=4, frameon=False)
    figure.suptitle(
        "Does the published recursion for ∇D still lead to TD(λ)'s solution? Exact, linear values",
        weight="bold",
    )
    save(figure, path)


BLOCKS: dict[str, Callable[[Table], str]] = {
    **{
        f"question: {name}": lambda runs, each=each: answer(each, runs)
        for name, each in QUESTIONS.items()
    },
    "question: recursion, exact": lambda runs: exact_recursion(),
}
"""The sentences and the table, as `benchmarks.results` wants them."""


def draw_all(runs: Table, folder: Path) -> None:
    """All figures of the questions that have runs, into a folder."""
    folder.mkdir(exist_ok=True)
    for name, question in QUESTIONS.items():
        if ran(question.pairs(runs)):
            draw(question, runs, folder / f"{name.replace(',', '').replace(' ', '-')}.png")
    draw_exact(folder / "recursion-exact.png")
