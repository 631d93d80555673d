"""Why gradient TD: all rules on three small problems, with exact errors, in under a minute.

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
from eligrad._base.files import replacing

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
    """What came out, a line for each problem, rule and λ; medians over the seeds."""
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
    """Root of the value error over time: problems side by side, a row for each λ."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows, columns = len(LAMBDAS), len(SETTINGS)
    fig, axes = plt.subplots(rows, columns, figsize=(11, 8.2), squeeze=False, sharex=True)
    for r in results:
        axis = axes[LAMBDAS.index(r.lam), SETTINGS.index(r.setting)]
        steps = np.linspace(0, r.setting.steps, POINTS)
        error = np.sqrt(r.value_error)
        low, middle, high = np.quantile(error, (0.25, 0.5, 0.75), axis=0)
        style = _style(r.rule)
        axis.plot(steps, middle, label=r.rule.title, **style)
        axis.fill_between(steps, low, high, alpha=0.15, color=style["color"], linewidth=0)
        axis.set_yscale("log")
        if 2 * r.diverged.sum() > r.diverged.size:
            axis.annotate(
                f"{r.rule.title} diverged",
                (steps[-1], middle[-1]),
                xytext=(0, -14),
                textcoords="offset points",
                ha="right",
                color=style["color"],
                fontsize=9,
            )
    for i, lam in enumerate(LAMBDAS):
        axes[i, 0].set_ylabel(f"λ = {lam:g}\n\nroot mean square\nvalue error")
        for j, setting in enumerate(SETTINGS):
            axes[0, j].set_title(setting.title)
            axes[-1, j].set_xlabel("steps")
            axes[i, j].grid(alpha=0.3)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    seeds = len(results[0].diverged)
    note = (
        f"median of {seeds} seeds, shaded between the quartiles; "
        "a learner is stopped when its estimate passes ±10⁴"
    )
    fig.text(0.5, 0.01, note, ha="center")
    fig.tight_layout(rect=(0, 0.03, 1, 0.96))
    with replacing(path) as partial:
        fig.savefig(partial, dpi=120, format=path.suffix[1:])
    plt.close(fig)


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
