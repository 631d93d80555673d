"""Why gradient TD: all rules on three small problems, with exact errors, in about a minute.

On Baird's counterexample (off-policy) and on Tsitsiklis and Van Roy's spiral (nonlinear) TD(λ)
can diverge; on Boyan's chain it is safe, and a gradient rule must not be worse. All learners are
online, in the backward view, and see the same experience.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from eligrad import problems, rules
from eligrad.runs.plot import blank, save

LAMBDAS = (0.0, 0.5, 0.9)
POINTS = 61
"""Moments at which the exact errors are taken."""
LIMIT = 1e4
"""A learner whose estimate leaves ±LIMIT has diverged and is stopped; no true value exceeds 100."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """How one problem is learned: the same for all rules."""

    problem: str
    title: str
    step_size: float
    h_step_size: float
    beta: float
    """Regularisation of TDRC(λ). What it does depends on the size of h's inputs: with the one-hot
    inputs of the spiral, h is 1 / (1 + 3 β) of what it should be, β = 1 leaves a quarter of the
    correction, and below 8/9 of it (β > 0.042) the rule diverges with TD(0)."""
    steps: int = 30_000


SETTINGS = (
    Setting("baird", "Baird's counterexample\noff-policy, linear", 0.005, 0.05, beta=1.0),
    Setting(
        "spiral",
        "Tsitsiklis & Van Roy's spiral\non-policy, nonlinear; TDRC: β = 0.01",
        1e-5,
        0.1,
        beta=0.01,
    ),
    Setting("boyan_chain", "Boyan's chain\non-policy, linear", 0.02, 0.2, beta=1.0),
)


class Result(NamedTuple):
    """Errors of one rule with one λ on one problem, [seeds, points]."""

    setting: Setting
    rule: rules.Rule
    lam: float
    value_error: np.ndarray
    pbe: np.ndarray
    """Projected Bellman error PBE(λ)."""
    diverged: np.ndarray
    """Which seeds were stopped, [seeds]."""


def learn(
    setting: Setting,
    problem: problems.Problem,
    rule: rules.Rule,
    key: PRNGKeyArray,
    lam: Float[Array, ""],
) -> tuple[Float[Array, "points p"], Bool[Array, ""]]:
    """One online learner: its parameters at `POINTS` moments, and whether it diverged."""
    stream = problems.sample(problem.mdp, key, setting.steps)
    experience = (
        _float(problem.observe(stream.state)),
        _float(stream.reward),
        _float(stream.discount),
        _float(problem.observe(stream.next_state)),
        _float(stream.ratio),
    )
    auxiliary: dict[str, Any] = {}
    theta = None
    if rule.has_auxiliary:
        theta = jnp.zeros(problem.observations.shape[1], jnp.float32)
        auxiliary = {"auxiliary_fn": lambda theta, x: x @ theta}
        auxiliary["beta"] = setting.beta if rule.regularized else None

    def step(carry: Any, transition: tuple[Array, ...]) -> tuple[Any, None]:
        w, theta, traces, diverged = carry
        observation, reward, discount, next_observation, ratio = transition
        out = rules.backward_step(
            rule, traces, w, theta, observation, reward, discount, next_observation,
            value_fn=problem.value_fn, lam=lam, rho_tm1=ratio, **auxiliary,
        )  # fmt: skip
        moved = w + setting.step_size * out.update.w
        diverged = diverged | ~(jnp.abs(problem.value_fn(moved, observation)) < LIMIT)
        w = jnp.where(diverged, w, moved)
        if rule.has_auxiliary:
            theta = theta + setting.h_step_size * out.update.theta
        return (w, theta, out.traces, diverged), None

    def stretch(carry: Any, transitions: tuple[Array, ...]) -> tuple[Any, Array]:
        return jax.lax.scan(step, carry, transitions)[0], carry[0]

    w = _float(problem.initial_params())
    stretches = jax.tree.map(lambda x: x.reshape((POINTS - 1, -1, *x.shape[1:])), experience)
    carry = (w, theta, rule.init(w, theta), jnp.zeros((), bool))
    (last, _, _, diverged), snapshots = jax.lax.scan(stretch, carry, stretches)
    return jnp.concatenate([snapshots, last[None]]), diverged


def _float(array: Array) -> Array:
    return array.astype(jnp.float32)


def run(setting: Setting, rule_name: str, seeds: int) -> list[Result]:
    """All seeds and all λ of one rule on one problem, in one compiled program."""
    problem, rule = problems.get(setting.problem), rules.get(rule_name)
    keys = jax.random.split(jax.random.key(0), seeds)
    over_seeds = jax.vmap(functools.partial(learn, setting, problem, rule), (0, None))
    over_lambdas = jax.jit(jax.vmap(over_seeds, (None, 0)))
    parameters, diverged = over_lambdas(keys, jnp.asarray(LAMBDAS, jnp.float32))
    results = []
    for lam, rows, stopped in zip(
        LAMBDAS, np.asarray(parameters), np.asarray(diverged), strict=True
    ):
        errors = np.array([[problem.value_error(w) for w in row] for row in rows])
        pbes = np.array([[problem.projected_bellman_error(w, lam) for w in row] for row in rows])
        results.append(Result(setting, rule, lam, errors, pbes, stopped))
    return results


def table(results: list[Result]) -> str:
    """The results as a table, a line for each problem, rule and λ; medians over the seeds."""
    width = max(10, 2 + max(len(r.rule.title) for r in results))
    lines = [
        f"{'problem':<13}{'rule':<{width}}{'λ':>4}{'value error':>15}{'PBE(λ)':>12}  outcome",
        "-" * (62 + width),
    ]
    for r in results:
        seeds, stopped = len(r.diverged), int(r.diverged.sum())
        outcome = "stable" if stopped == 0 else f"diverged in {stopped} of {seeds} seeds"
        lines.append(
            f"{r.setting.problem:<13}{r.rule.title:<{width}}{r.lam:>4}"
            f"{np.median(r.value_error[:, -1]):>15.3g}{np.median(r.pbe[:, -1]):>12.3g}  {outcome}"
        )
        if r.lam == LAMBDAS[-1] and r.rule.name == rules.names()[-1]:
            lines.append("")
    return "\n".join(lines)


def figure(results: list[Result], path: Path) -> None:
    """The root of the value error over time: Baird large, and beside it all problems and λ."""
    fig = blank(13.5, 6.6)
    grid = fig.add_gridspec(3, 6)
    large = fig.add_subplot(grid[:, :3])
    small = np.array([[fig.add_subplot(grid[i, 3 + j]) for j in range(3)] for i in range(3)])
    for r in results:
        _draw(small[LAMBDAS.index(r.lam), SETTINGS.index(r.setting)], r, thin=0.6)
        if r.setting is SETTINGS[0] and r.lam == LAMBDAS[-1]:
            _draw(large, r)
            _label(large, r)
    large.set_title("TD(λ) diverges. Gradient TD(λ) does not.", fontsize=17, pad=12)
    large.set_xlabel("steps on Baird's counterexample, λ = 0.9", fontsize=12)
    large.set_ylabel("root mean square value error", fontsize=12)
    large.set_xlim(0, 1.28 * SETTINGS[0].steps)  # room for the names
    for axis in (large, *small.ravel()):
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
        axis.set_xticks((0, 10_000, 20_000, 30_000) if axis is large else (0, 30_000))
        axis.xaxis.set_major_formatter("{x:,.0f}")
    for axis in small.ravel():
        axis.tick_params(labelsize=7, which="both", labelbottom=axis in small[-1])
    for i, lam in enumerate(LAMBDAS):
        small[i, -1].annotate(
            f"λ = {lam:g}", (1.04, 0.5), xycoords="axes fraction", rotation=-90, va="center"
        )
    for j, setting in enumerate(SETTINGS):
        small[0, j].set_title(setting.title, fontsize=9)
    seeds = len(results[0].diverged)
    fig.supxlabel(
        f"median of {seeds} seeds, shaded between the quartiles; a learner is stopped when its "
        "estimate passes ±10⁴",
        fontsize=9,
    )
    save(fig, path)


def _draw(axis: Any, result: Result, thin: float = 1.0) -> None:
    steps = np.linspace(0, result.setting.steps, POINTS)
    low, middle, high = np.quantile(np.sqrt(result.value_error), (0.25, 0.5, 0.75), axis=0)
    style = _style(result.rule)
    axis.plot(steps, middle, **style | {"linewidth": thin * style["linewidth"]})
    axis.fill_between(steps, low, high, alpha=0.15, color=style["color"], linewidth=0)


def _label(axis: Any, result: Result) -> None:
    """The rule's name at the end of its line; TDC(λ) and GTD2(λ) end at one place."""
    end = np.median(np.sqrt(result.value_error[:, -1]))
    above = {"tdc": 8, "gtd2": -8}.get(result.rule.name, 0)
    axis.annotate(
        result.rule.title,
        (result.setting.steps, end),
        xytext=(8, above),
        textcoords="offset points",
        va="center",
        color=_style(result.rule)["color"],
        fontsize=13,
        fontweight="bold",
    )


STYLES: dict[str, dict[str, Any]] = {
    "td": {"color": "#D55E00", "linestyle": "-", "linewidth": 2},
    "gtd2": {"color": "#56B4E9", "linestyle": "-", "linewidth": 5},
    "tdc": {"color": "#0072B2", "linestyle": "--", "linewidth": 2},
    "tdrc": {"color": "#000000", "linestyle": "-.", "linewidth": 2},
}
"""One colour and dash for each rule, distinct also to the colour-blind and in grey."""
MORE_COLORS = ("#009E73", "#CC79A7", "#E69F00")
"""For rules of your own, in the order of the registry."""


def _style(rule: rules.Rule) -> dict[str, Any]:
    if rule.name in STYLES:
        return STYLES[rule.name]
    position = [name for name in rules.names() if name not in STYLES].index(rule.name)
    color = MORE_COLORS[position % len(MORE_COLORS)]
    return {"color": color, "linestyle": ":", "linewidth": 2}


def main(out: Path, seeds: int) -> None:
    """Runs everything, prints the table, writes the figure."""
    from tqdm import tqdm

    jobs = [(setting, name) for setting in SETTINGS for name in rules.names()]
    results: list[Result] = []
    for setting, name in (bar := tqdm(jobs, unit="learner", dynamic_ncols=True)):
        bar.set_description(f"{rules.get(name).title} on {setting.problem}")
        results += run(setting, name, seeds)
    print(table(results))
    figure(results, out)
    print(f"\nfigure: {out}")
