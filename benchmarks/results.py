"""Everything in `results/` that follows from its JSON files, made anew by one command.

    python -m benchmarks.results            # tables, verdicts, figures, curves.parquet
    python -m benchmarks.results --check    # says which text would change, and changes nothing

The tables of `PAGES` stand between `<!-- begin NAME -->` and `<!-- end -->`; `BLOCKS` says how each
is made. `results/curves.parquet` holds all learning curves as one tidy table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks import questions, sentences, step_sizes
from benchmarks.classic_control import ENVS as SMALL
from benchmarks.classic_control import SOLVED
from benchmarks.minatar_learning import GAMES, LOST
from benchmarks.mujoco_learning import TASKS
from benchmarks.questions import LEVEL, ROOT, markdown
from eligrad.agents import TITLES
from eligrad.analysis import statistics
from eligrad.analysis.bootstrap import STANDARD, Estimate, Samples
from eligrad.analysis.frames import Table
from eligrad.runs.plot import blank, draw_mean, save
from eligrad.runs.returns import area
from eligrad.sweeps.choice import Candidates, choose, normalise

DOCS = ROOT.parent / "docs"
PAGES = (*sorted(ROOT.rglob("*.md")), DOCS / "choosing.md", DOCS / "reproducing.md")
"""The texts with tables made from results."""
ENVS = (*GAMES, *SMALL, *TASKS)
"""The order of columns and panels."""

RULES = {"tdrc": "TDRC(λ)", "tdc": "TDC(λ)", "gtd2": "GTD2(λ)"}
NAMES: dict[str, str] = {
    "qrc": TITLES["qrc"],
    "qrc-h0.1": "QRC(λ), h scale 0.1",
    "qrc-beta0.1": "QRC(λ), β = 0.1",
    "qrc-beta0.01": "QRC(λ), β = 0.01",
    "qrc-watkins": "QRC(λ), Watkins' cut",
    "qrc-output": "QRC(λ), β on the output of h",
    "qrc-output-obgd": "QRC(λ), β on the output of h, ObGD",
    "stream-q": TITLES["stream-q"],
    "q-lambda": TITLES["q-lambda"],
    "q-lambda-sparse": "Q(λ), sparse initialisation",
    "qc": TITLES["qc"],
    "gq2": TITLES["gq2"],
    "random": "random actions",
    "ppo": "PPO",
    **{
        f"{rule}-{advantage}": f"Gradient PPO, {title}, {advantage}"
        for rule, title in RULES.items()
        for advantage in ("fresh", "stale")
    },
    "ppo-critic": "PPO, critic's step size 3e-3",
    "td-fresh": "Gradient PPO without h",
    "tdrc-head": "Gradient PPO, TDRC(λ), β on h's last layer",
    "tdrc-output": "Gradient PPO, TDRC(λ), β on the output of h",
    "tdrc-features": "Gradient PPO, TDRC(λ), β on the output, h on features",
    "td-fresh-two": "Gradient PPO without h, minibatches of two sequences",
    "tdrc-fresh-two": "Gradient PPO, TDRC(λ), fresh, minibatches of two sequences",
    "tdrc-output-two": "Gradient PPO, TDRC(λ), β on the output of h, two sequences",
    "stream-ac": TITLES["stream-ac"],
    "gradient-ac": TITLES["gradient-ac"],
}
"""What tables call a variant; also the order of their rows."""
# Colours that stay apart for the colour-blind (Okabe and Ito).
LINES: dict[str, tuple[str, str]] = {
    "qrc": ("#0072B2", "-"),
    "qrc-h0.1": ("#56B4E9", "--"),
    "qrc-beta0.1": ("#56B4E9", "-."),
    "qrc-beta0.01": ("#CC79A7", "--"),
    "qrc-watkins": ("#000000", ":"),
    "qrc-output": ("#009E73", "-"),
    "stream-q": ("#E69F00", "-"),
    "q-lambda": ("#D55E00", "-"),
    "q-lambda-sparse": ("#D55E00", "--"),
    "qc": ("#009E73", "-"),
    "gq2": ("#CC79A7", "-"),
    "random": ("#999999", "-."),
    "ppo": ("#000000", "-"),
    **{
        f"{rule}-{advantage}": (colour, "-" if advantage == "fresh" else "--")
        for rule, colour in (("tdrc", "#0072B2"), ("tdc", "#009E73"), ("gtd2", "#CC79A7"))
        for advantage in ("fresh", "stale")
    },
    "stream-ac": ("#E69F00", "-"),
    "gradient-ac": ("#D55E00", "-"),
}


# What the files hold.


def load(root: Path = ROOT) -> tuple[Table, Table]:
    """One row for each run, and one for each point of its learning curve.

    Runs: study (the folder), env, variant, seed, steps, final (mean return of the episodes that
    ended in the last tenth), area (under the learning curve), diverged, diverged_at (a step, or
    -1), h_to_td_error (mean sizes in the last tenth), and the agent's settings.
    Curves: study, env, variant, seed, step, return.
    """
    runs, curves = list[Table](), list[Table]()
    for path in sorted(root.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "curve_per_seed" in content or "curves" in content:
            run, curve = _read(content, str(path.parent.relative_to(root)))
            runs.append(run)
            curves.append(curve)
    if not runs:
        raise FileNotFoundError(
            f"{root} holds no results; benchmarks/README.md says what makes them"
        )
    return pd.concat(runs, ignore_index=True), pd.concat(curves, ignore_index=True)


def _read(content: Mapping[str, Any], study: str) -> tuple[Table, Table]:
    streaming = "curve_per_seed" in content
    env = content["game" if streaming else "task"]
    first = content.get("first_seed", 0)
    seeds = range(first, first + content["seeds"]) if streaming else content["seeds"]
    about = {"study": study, "env": env, "variant": content["variant"]}
    rows = np.asarray(content["curve_per_seed" if streaming else "curves"], float)
    # The stretches of a curve are of one length.
    areas = [area(row[~np.isnan(row)], np.ones((~np.isnan(row)).sum())) for row in rows]
    runs = pd.DataFrame(
        {
            **about,
            "seed": list(seeds),
            "steps": content["steps"],
            "final": np.asarray(content["final_per_seed" if streaming else "final"], float),
            "area": np.asarray(areas if streaming else content["area"], float),
            "diverged": (
                np.asarray(content["diverged_at"]) >= 0
                if streaming
                else np.asarray(content.get("diverged_runs", [False] * len(seeds)))
            ),
            "diverged_at": content["diverged_at"] if streaming else -1,
            "h_to_td_error": _size_of_h(content) if streaming else np.nan,
            **content["config" if streaming else "settings"],
        }
    )
    steps = np.asarray(content["grid" if streaming else "curve_steps"], float)
    curves = pd.DataFrame(
        {
            **about,
            "seed": np.repeat(list(seeds), len(steps)),
            "step": np.tile(np.round(steps).astype(np.int64), len(rows)),
            "return": rows.astype(np.float32).ravel(),
        }
    )
    return runs, curves


def _size_of_h(content: Mapping[str, Any]) -> np.ndarray:
    names = ("final_abs_h_per_seed", "final_abs_td_error_per_seed")
    h, error = (np.asarray(content.get(name, np.nan), float) for name in names)
    with np.errstate(invalid="ignore", divide="ignore"):
        return h / error


# Tables.


def mean_and_error(values: Table, digits: int = 2) -> str:
    """Mean ± standard error over the seeds that have a value."""
    known = values.dropna()
    numbers = (known.mean(), known.std(ddof=1) / np.sqrt(len(known)))
    return " ± ".join(f"{number:,.{digits}f}" for number in numbers).replace("-", "−")


def finals(runs: Table, digits: int = 2) -> str:
    """Mean ± standard error by variant and environment; in brackets the runs that diverged."""

    def cell(mine: Table) -> str:
        text, count = mean_and_error(mine["final"], digits), int(mine["diverged"].sum())
        return text + (f" ({count} of {len(mine)} diverged)" if count else "")

    return table(runs, NAMES, cell)


def studies(runs: Table) -> str:
    """What each study holds."""
    lines = [["study", "environments", "variants", "seeds", "steps"]]
    for name, mine in runs.groupby("study"):
        envs = [env for env in ENVS if (mine["env"] == env).any()]
        seeds, steps = (sorted(mine[column].unique()) for column in ("seed", "steps"))
        lines.append(
            [
                f"`{name}`",
                ", ".join(envs),
                str(mine["variant"].nunique()),
                f"{seeds[0]} to {seeds[-1]}",
                ", ".join(f"{each:,}" for each in steps),
            ]
        )
    return markdown(lines)


def differences(runs: Table, reference: str = "qrc") -> str:
    """Each variant less the reference, ± standard error of the difference.

    Bold: Welch's t-test rejects equal means at 0.05, with Holm's correction over all that is shown.
    """
    others = runs[~runs["variant"].isin([reference, "random"])]
    by_env = dict(iter(runs[runs["variant"] == reference].groupby("env")["final"]))

    def sides(mine: Table) -> tuple[pd.Series, pd.Series]:
        return mine["final"].dropna(), by_env[mine["env"].iloc[0]].dropna()

    each = dict(iter(others.groupby(["env", "variant"])))
    tests: list[Any] = [stats.ttest_ind(*sides(mine), equal_var=False) for mine in each.values()]
    adjusted = statistics.holm(np.array([test.pvalue for test in tests]))
    stands = dict(zip(each, adjusted < LEVEL, strict=True))

    def cell(mine: Table) -> str:
        ours, theirs = sides(mine)
        gap = ours.mean() - theirs.mean()
        error = np.sqrt(ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs))
        text = f"{gap:+.2f} ± {error:.2f}".replace("-", "−")
        return f"**{text}**" if stands[mine["env"].iloc[0], mine["variant"].iloc[0]] else text

    return table(others, NAMES, cell)


def table(runs: Table, rows: Mapping[str, str], cell: Callable[[Table], str]) -> str:
    """A Markdown table: a row for each variant, a column for each environment."""
    envs = [env for env in ENVS if (runs["env"] == env).any()]
    lines = [["", *envs]]
    for variant, title in rows.items():
        mine = dict(iter(runs[runs["variant"] == variant].groupby("env")))
        if mine:
            lines.append([title, *(cell(mine[env]) if env in mine else "" for env in envs)])
    return markdown(lines)


def study_of_gradient_ppo(runs: Table) -> Table:
    """The runs of stage 1: seeds 0 to 4, also of what had run for a million steps before."""
    earlier = (runs["study"] == "mujoco-1m") & runs["variant"].isin(["ppo", "tdrc-fresh"])
    return runs[(runs["study"] == "gradient-ppo/stage-1") | (earlier & (runs["seed"] < 5))]


def scores_of_gradient_ppo(runs: Table) -> str:
    """The rule of the protocol: the variants with an h, of which one is chosen, then the others.

    Over the tasks on which all of them have run.
    """
    mine = study_of_gradient_ppo(runs)
    areas = mine.set_index(["variant", "env", "seed"])["area"].unstack(["env", "seed"])
    areas = areas[[(task, seed) for task in TASKS for seed in range(5)]].dropna(axis="columns")
    areas = areas.loc[sorted(areas.index, key=lambda name: not name.startswith("tdrc"))]
    groups = ["with h" if name.startswith("tdrc") else "without" for name in areas.index]
    return scores(areas.rename(NAMES), groups)


CONTRASTS = (
    ("the gradient, as printed", "tdrc-fresh", "td-fresh"),
    ("the gradient, β on the output", "tdrc-output", "td-fresh"),
    ("the same, two sequences", "tdrc-output-two", "td-fresh-two"),
    ("fresh targets along sequences", "td-fresh-two", "ppo-critic"),
    ("the critic's step size", "ppo-critic", "ppo"),
    ("more policy steps, without h", "td-fresh-two", "td-fresh"),
    ("more policy steps, as printed", "tdrc-fresh-two", "tdrc-fresh"),
    ("more policy steps, β on the output", "tdrc-output-two", "tdrc-output"),
)
"""What differs between two variants of the study of Gradient PPO."""


def contrasts_of_gradient_ppo(runs: Table) -> str:
    """By task the difference of the final returns, and Welch's p-value, without a correction.

    Bold where equal means are rejected after Holm's correction over the whole table.
    """
    finals = study_of_gradient_ppo(runs).set_index(["variant", "env", "seed"])["final"].sort_index()
    pairs = [
        (finals[ours, task], finals[theirs, task])
        for _, ours, theirs in CONTRASTS
        for task in TASKS
    ]
    welch: list[Any] = [stats.ttest_ind(x, y, equal_var=False) for x, y in pairs]
    p = [float(each.pvalue) for each in welch]
    cells = list[str]()
    for (x, y), alone, corrected in zip(pairs, p, statistics.holm(np.array(p)), strict=True):
        shown = f"{alone:.2f}" if alone >= 0.01 else f"{alone:.1g}"
        gap = f"{x.mean() - y.mean():+,.0f}".replace("-", "−")
        text = f"{gap} (p = {shown})"
        cells.append(f"**{text}**" if corrected < LEVEL else text)
    rows = np.reshape(cells, (len(CONTRASTS), len(TASKS)))
    lines = [["what differs", "", *TASKS]]
    for (what, ours, theirs), row in zip(CONTRASTS, rows, strict=True):
        lines.append([what, f"`{ours}` − `{theirs}`", *row])
    return markdown(lines)


KEYS = ["rule", "regularize", "h", "optimizer", "h_scale", "beta"]
"""What the candidates of the study of h differ in."""
EARLIER = ("qrc", "qrc-beta0.1", "stream-q", "q-lambda-sparse")
"""Variants of the study of h that had run on the games before it, with 11 or 12 seeds."""


def study_of_h(runs: Table) -> tuple[Table, dict[str, str]]:
    """The runs of stage 1, a variant being the settings in words, and these in order."""
    earlier = (runs["study"] == "minatar-5m") & runs["variant"].isin(EARLIER)
    mine = runs[(runs["study"] == "h/stage-1") | earlier]
    mine = mine.fillna({"regularize": "parameters", "h": "network"})
    mine = mine.sort_values(KEYS, ascending=[True, False, False, False, False, True], kind="stable")
    mine["variant"] = [_settings(row) for row in mine.itertuples()]
    return mine, {name: name for name in mine["variant"].unique()}


def _settings(run: Any) -> str:
    if run.rule == "td":
        return NAMES[run.variant]
    parts = [f"`{run.regularize}`", f"β = {run.beta:g}"]
    parts += [f"`h_scale` {run.h_scale:g}"] * (run.h_scale != 1)
    parts += ["features"] * (run.h == "features") + ["ObGD"] * (run.optimizer == "obgd")
    paper = parts == ["`parameters`", "β = 1"]
    return ", ".join(parts) + " (the paper's)" * paper


def study_of_vectors(runs: Table, stage: str) -> tuple[Table, dict[str, str]]:
    """The runs of a stage, a variant being the settings in words, and these in order."""
    mine = runs[runs["study"] == f"vectors/{stage}"].copy()
    others = {"kappa": ("κ", 2.0), "lam": ("λ", 0.8), "epsilon_end": ("`epsilon_end`", 0.01)}
    mine["variant"] = [
        ", ".join(
            [_settings(row)]
            + [f"{name} {getattr(row, key):g}" for key, (name, usual) in others.items()
               if getattr(row, key) != usual]
        )
        for row in mine.itertuples()
    ]  # fmt: skip
    names = sorted(mine["variant"].unique(), key=lambda name: (len(name), name))
    return mine, {name: name for name in names}


def finals_of_h(runs: Table, envs: Sequence[str], digits: int) -> str:
    """Mean ± standard error of the study's runs in these environments; in brackets those lost."""
    mine, rows = study_of_h(runs)

    def cell(mine: Table) -> str:
        text = mean_and_error(mine["final"], digits)
        lost = int((mine["final"] < LOST.get(mine["env"].iloc[0], -np.inf)).sum())
        return text + (f" ({lost} of {len(mine)} lost)" if lost else "")

    return table(mine[mine["env"].isin(envs)], rows, cell)


def solved(mine: Table, rows: Mapping[str, str]) -> str:
    """How many of these runs have solved CartPole and Acrobot."""

    def cell(mine: Table) -> str:
        return f"{(mine['final'] >= SOLVED[mine['env'].iloc[0]]).sum()} of {len(mine)}"

    return table(mine[mine["env"].isin(SOLVED)], rows, cell)


def areas_of_h(runs: Table) -> Table:
    """Areas under the candidates' curves: a row for each, four columns for each environment.

    The twenty seeds of an environment count as four means of five, beside the games' four seeds:
    the mean is the same, and so is its error when seeds are drawn anew. A run that diverged or
    never ended an episode counts as the worst run of its environment.
    """
    mine, rows = study_of_h(runs)
    mine = mine[(mine["rule"] == "tdrc") & (~mine["env"].isin(GAMES) | (mine["seed"] < 4))]
    known = mine["area"].mask(mine["diverged"])
    mine = mine.assign(area=known.fillna(known.groupby(mine["env"]).transform("min")))
    keys = [mine["variant"], mine["env"], mine["seed"] % 4]
    areas = mine["area"].groupby(keys).mean().unstack(["env", "seed"])
    columns = [(env, block) for env in ENVS if env in areas for block in range(4)]
    return areas.loc[[name for name in rows if name in areas.index], columns]


def scores_of_h(runs: Table) -> str:
    """The rule of `eligrad two-stage` over the candidates that have run in all environments."""
    areas = areas_of_h(runs).dropna()
    return scores(areas, ["qrc"] * len(areas))


def scores(areas: Table, groups: Sequence[str]) -> str:
    """The rule of `eligrad two-stage`: a row for each candidate, the best of each group first.

    Args:
        areas: under the curves, a row for each candidate, columns (environment, seed).
        groups: that of each candidate; one of each is chosen.
    """
    names, envs = list(areas.index), tuple(dict.fromkeys(areas.columns.get_level_values(0)))
    cube = areas.to_numpy().reshape(len(names), len(envs), -1)
    lines = [["", "score", "mean rank", "chosen", *envs]]
    for choice in choose(Candidates(tuple(groups), envs, cube)):
        for i in choice.members:
            score, *parts = (f"{x:.2f}" for x in (choice.scores[i], *choice.normalised[i]))
            rank, share = f"{choice.ranks[i]:.1f}", f"{100 * choice.chosen_share[i]:.0f} %"
            lines.append([names[i], score, rank, share, *parts])
    return markdown(lines)


def ranges_of_h(runs: Table) -> str:
    """What each candidate's score can still become: its missing environments count 0, or 1.

    Here 0 is the worst and 1 the best of all candidates that have run in an environment.
    """
    means = areas_of_h(runs).T.groupby(level="env", sort=False).mean().T
    parts = means.apply(lambda x: pd.Series(normalise(x.dropna().to_numpy()), x.dropna().index))
    low, high = parts.fillna(0).mean(axis=1), parts.fillna(1).mean(axis=1)
    lines = [["", "lowest", "highest", "not run"]]
    for name in high.sort_values(ascending=False, kind="stable").index:
        missing = ", ".join(env for env in parts if np.isnan(parts.loc[name, env]))
        lines.append([name, f"{low[name]:.2f}", f"{high[name]:.2f}", missing])
    return markdown(lines)


def leaky_relu(root: Path = ROOT) -> str:
    """Final returns by the slope of the leaky ReLU at 0."""
    found = {
        slope: json.loads((root / "leaky_relu" / f"slope-{slope}.json").read_text())["runs"]
        for slope in ("1.0", "0.01")
    }
    lines = [["game", "agent", "slope 1", "slope 0.01", "diverged, 1", "diverged, 0.01"]]
    for one, other in zip(*found.values(), strict=True):
        cells = [f"{each['mean']:.2f} ± {each['standard_error']:.2f}" for each in (one, other)]
        counts = [str(each["diverged"]) for each in (one, other)]
        name = TITLES[one["agent"]]
        lines.append([one["game"], name, *cells, *counts])
    return markdown(lines)


def classics(root: Path = ROOT) -> str:
    """When PPO and Gradient PPO have solved two classics, and their returns at the end."""
    lines = [["task", "agent", "mark", "solved at step", "steps", "return at the end"]]
    for task in ("CartPole-v1", "Pendulum-v1"):
        for agent in ("ppo", "gradient-ppo"):
            run = json.loads((root / f"classic/{task}-{agent}.json").read_text(encoding="utf-8"))
            end = f"{run['final_mean']:.0f} ± {run['final_standard_error']:.0f}"
            numbers = (f"{run['mark']:.0f}", f"{run['solved_at']:,}", f"{run['steps']:,}", end)
            lines.append([task, TITLES[agent], *(text.replace("-", "−") for text in numbers)])
    return markdown(lines)


# Verdicts.

Claim = tuple[str, str, str, Sequence[str], Sequence[str]]
FIVE_MILLION = ("minatar-5m", "h/stage-2")
"""Studies with the paper's settings over five million steps, seeds 0 to 11 and 100 to 129."""
ONE_MILLION = ("mujoco-1m", "gradient-ppo/stage-2")
"""The same for MuJoCo: one million steps, seeds 0 to 9 and, as far as they have run, 100 to 109."""
CLAIMS: tuple[Claim, ...] = (
    ("QRC(λ) > StreamQ", "qrc", "stream-q", GAMES, FIVE_MILLION),
    ("QRC(λ) > Q(λ), from the same sparse weights", "qrc", "q-lambda-sparse", GAMES, FIVE_MILLION),
    ("QRC(λ) > QC(λ)", "qrc", "qc", GAMES, FIVE_MILLION),
    ("QRC(λ) > GQ2(λ)", "qrc", "gq2", GAMES, ("minatar",)),
    ("Gradient PPO > PPO", "tdrc-fresh", "ppo", ("HalfCheetah-v4", "Ant-v4"), ONE_MILLION),
    ("TDRC(λ) > TDC(λ) in Gradient PPO", "tdrc-fresh", "tdc-fresh", TASKS, ONE_MILLION),
    ("TDC(λ) > GTD2(λ) in Gradient PPO", "tdc-fresh", "gtd2-fresh", TASKS, ONE_MILLION),
)
"""Claim, variant, what it is said to be better than, environments, studies."""
VERDICTS = ("**holds**", "**does not hold**", "not enough data")
LEVEL_WITH: tuple[Claim, ...] = (
    (
        "Gradient PPO is level with PPO",
        "tdrc-fresh",
        "ppo",
        ("Hopper-v4", "Walker2d-v4"),
        ONE_MILLION,
    ),
)
"""Claims that two variants do not differ."""
REGULARISED: tuple[Claim, ...] = (
    ("Gradient PPO", "tdrc-fresh", "tdc-fresh", TASKS, ONE_MILLION),
    ("QRC(λ)", "qrc", "qc", GAMES, FIVE_MILLION),
)
"""Agents with and without β, which is said to matter more for the first."""
STAGE_TWO: tuple[Claim, ...] = (
    ("the chosen one > the paper's", "qrc-output", "qrc", (*GAMES, *SMALL), ("h/stage-2",)),
)
GRADIENT_PPO: tuple[Claim, ...] = tuple(
    (f"the chosen one > {title}", "tdrc-output-two", variant, TASKS, ("gradient-ppo/stage-2",))
    for title, variant in (
        ("the same without h", "td-fresh-two"), ("as printed", "tdrc-fresh"), ("PPO", "ppo"),
    )
)  # fmt: skip
"""The twelve comparisons of stage 2."""
OTHERS = [env for env in SMALL if env not in SOLVED]
VECTORS: tuple[Claim, ...] = (
    ("the chosen one > the paper's", "qrc-obgd", "qrc", OTHERS, ("vectors/stage-2",)),
)
STREAMING: tuple[Claim, ...] = tuple(
    (f"{title} > {other}", variant, against, TASKS, ONE_MILLION)
    for title, variant, other, against in (
        ("Stream AC(λ)", "stream-ac", "PPO", "ppo"),
        ("Gradient AC(λ)", "gradient-ac", "PPO", "ppo"),
        ("Gradient AC(λ)", "gradient-ac", "Stream AC(λ)", "stream-ac"),
    )
)
STUDIED = ("**better**", "**worse**", "no significant difference")


def verdicts(
    runs: Table, claims: Sequence[Claim] = CLAIMS, words: tuple[str, str, str] = VERDICTS
) -> str:
    """A row for each claim and environment that has runs.

    The first of `words`: equal means are rejected in favour of the claim; the second: against it;
    else the third. Welch's t-test on final returns, 5 %, Holm's correction over all rows; one that
    has no runs yet counts in it with a p-value of 1.
    """
    head = "claim|environment|steps, seeds|difference [95 % interval]|p (Holm)|verdict"
    lines: list[Sequence[str]] = [head.split("|")]
    for (claim, env, size, gap, lost, _), p in _corrected(runs, claims):
        verdict = words[2]
        if p < LEVEL:
            verdict = words[0] if gap.value > 0 else words[1]
        shown = f"{p:.1e}" if p < 1e-3 else f"{p:.4f}"
        lines.append([claim, env, size, _interval(gap) + lost, shown, verdict])
    return markdown(lines)


def _interval(estimate: Estimate, spec: str = "+,.4g") -> str:
    """An estimate with its interval, each number by the format `spec`."""
    numbers = (estimate.value, estimate.low, estimate.high)
    return "{} [{}, {}]".format(*(f"{x:{spec}}".replace("-", "−") for x in numbers))


def regularisation(runs: Table) -> tuple[str, int]:
    """How often runs with β = 1 beat those with β = 0, and which of `VERDICTS` that gives.

    The claim holds if the interval of the difference between the two agents is above 0, and does
    not hold if it is below 0. Each share is a mean over environments.
    """
    by_agent = [_finals(runs, a, b, envs, studies) for _, a, b, envs, studies in REGULARISED]
    if not all(by_agent):
        return "Not run yet.", 2
    first = len(by_agent[0])

    def shares(samples: Samples) -> np.ndarray:
        pairs = zip(samples[::2], samples[1::2], strict=True)
        each = [statistics.share_of_wins(*pair) for pair in pairs]
        means = [np.mean(part, axis=0) for part in (each[:first], each[first:])]
        return np.stack([*means, means[0] - means[1]], axis=-1)

    samples = [sample for sides in by_agent for pair in sides.values() for sample in pair]
    limits = map(np.asarray, STANDARD.interval(shares, samples))
    *each, gap = map(Estimate, shares(samples), *limits)
    lines = [["", "environments", "share of pairs of runs that β = 1 wins [95 % interval]"]]
    for (agent, *_), sides, share in zip(REGULARISED, by_agent, each, strict=True):
        lines.append([agent, ", ".join(sides), _interval(share, ".2f")])
    lines.append(["the first less the second", "", _interval(gap, "+.2f")])
    decided = gap.low > 0 or gap.high < 0
    return markdown(lines), int(gap.value < 0) if decided else 2


def claims_in_short(runs: Table) -> str:
    """A row for each claim: where it holds, where it does not, where the data do not tell."""
    found: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for claims, level in ((CLAIMS, False), (LEVEL_WITH, True)):
        for (claim, env, _, gap, *_), p in _corrected(runs, claims):
            holds, fails, unknown = found.setdefault(claim, ([], [], []))
            place = unknown if p >= LEVEL else fails if level or gap.value < 0 else holds
            place.append(env)
    over_all: tuple[list[str], list[str], list[str]] = ([], [], [])
    over_all[regularisation(runs)[1]].append("over all environments")
    found["β matters less for QRC(λ) than for Gradient PPO"] = over_all
    rows = [[claim, *map(", ".join, where)] for claim, where in found.items()]
    return markdown([["claim", "holds", "does not hold", "not enough data"], *rows])


def older_and_newer(runs: Table) -> str:
    """Of what ran twice, with other seeds and revisions: both means, and whether they differ."""
    rows, p = list[list[str]](), list[float]()
    for studies in (FIVE_MILLION, ONE_MILLION):
        by_study = [runs[runs["study"] == study] for study in studies]
        for env, variant in itertools.product(ENVS, NAMES):
            both = [
                mine[(mine["env"] == env) & (mine["variant"] == variant)]["final"].dropna()
                for mine in by_study
            ]
            if not any(each.empty for each in both):
                digits = 1 if env in GAMES else 0
                cells = [f"{mean_and_error(each, digits)} ({len(each)})" for each in both]
                rows.append([env, NAMES[variant], *cells])
                welch: Any = stats.ttest_ind(*both, equal_var=False)
                p.append(float(welch.pvalue))
    adjusted = statistics.holm(np.array(p))
    lines = [["environment", "agent", "older (seeds)", "newer (seeds)", "p", "p (Holm)"]]
    for row, alone, corrected in zip(rows, p, adjusted, strict=True):
        lines.append([*row, f"{alone:.2f}", f"{corrected:.2f}"])
    found = int((adjusted < LEVEL).sum())
    which = f"{found or 'None'} of {len(rows)} differences {'are' if found > 1 else 'is'}"
    return f"{markdown(lines)}\n\n{which} significant (5 %)."


def _corrected(runs: Table, claims: Sequence[Claim]) -> Iterator[tuple[Any, float]]:
    rows = list(_comparisons(runs, claims))
    missing = sum(len(envs) for *_, envs, _ in claims) - len(rows)
    adjusted = statistics.holm(np.array([p for *_, p in rows] + [1.0] * missing))
    return zip(rows, adjusted, strict=False)


def _comparisons(
    runs: Table, claims: Sequence[Claim]
) -> Iterator[tuple[str, str, str, Any, str, float]]:
    for claim, a, b, envs, studies in claims:
        for env, (ours, theirs) in _finals(runs, a, b, envs, studies).items():
            gap = statistics.difference({env: ours}, {env: theirs})
            welch: Any = stats.ttest_ind(ours, theirs, equal_var=False)
            here = runs[runs["study"].isin(studies) & (runs["env"] == env)]
            steps = int(here[here["variant"].isin((a, b))]["steps"].min())
            size = f"{steps:,}, {len(ours)} and {len(theirs)}"
            lost = ""
            if env in LOST:
                counts = [f"{int((x < LOST[env]).sum())} of {len(x)}" for x in (ours, theirs)]
                lost = f"; seeds lost {counts[0]} and {counts[1]}"
            yield claim, env, size, gap, lost, float(welch.pvalue)


def _finals(
    runs: Table, a: str, b: str, envs: Sequence[str], studies: Sequence[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The final returns of both variants by environment, of those where both have run."""
    pairs = questions.ran(questions.of_variants(studies, envs, {"": (a, b)})(runs))
    return {env: sides for (env, _), sides in pairs.items()}


# Figures.


def draw(runs: Table, curves: Table, path: Path, joined: int = 1) -> None:
    """One panel for each environment: the mean over the seeds, its standard error shaded.

    Args:
        runs: whose variants are drawn.
        curves: of those and perhaps of others.
        path: the picture to write.
        joined: so many neighbouring points of a curve are drawn as one, to calm it.
    """
    envs = [env for env in ENVS if (runs["env"] == env).any()]
    variants = [name for name in NAMES if (runs["variant"] == name).any()]
    columns = 4 if len(envs) == 4 else min(3, len(envs) + 1)
    rows = -(-len(envs) // columns)
    full = len(envs) == rows * columns
    figure = blank(4.2 * columns, 3.4 * rows + 0.8 * full)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for panel, env in zip(panels, envs, strict=False):
        for variant in variants:
            mine = curves[(curves["env"] == env) & (curves["variant"] == variant)]
            if mine.empty:
                continue
            returns = mine.pivot(index="seed", columns="step", values="return")
            at = returns.columns.to_numpy(float)
            # An episode may end anywhere in its stretch of steps: drawn in the middle.
            at = (at - at[0] / 2).reshape(-1, joined).mean(axis=1)
            means = np.ma.masked_invalid(returns.to_numpy(float).reshape(len(returns), -1, joined))
            colour, style = LINES[variant]
            handles[variant] = draw_mean(
                panel,
                at / 1000,
                means.mean(axis=2).filled(np.nan),
                color=colour,
                linestyle=style,
                linewidth=1.7,
            )
        panel.set(title=env, xlabel="thousand steps", ylabel="return of an episode")
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    for panel in panels[len(envs) :]:
        panel.axis("off")
    seeds = " or ".join(map(str, sorted(runs.groupby(["env", "variant"]).size().unique())))
    place: Any = figure if full else panels[len(envs)]
    where: dict[str, Any] = (
        {"loc": "outside lower center", "ncols": 4} if full else {"loc": "center"}
    )
    place.legend(
        list(handles.values()),
        [NAMES[variant] for variant in handles],
        title=f"mean of {seeds} seeds ± standard error",
        frameon=False,
        handlelength=3,
        **where,
    )
    save(figure, path)


# All of it.


def chosen(runs: Table, study: str, variants: Sequence[str] = ()) -> Table:
    """The runs of a study; with `variants`, of those alone."""
    mine = runs[runs["study"] == study]
    return mine[mine["variant"].isin(variants)] if variants else mine


FIVE = ("qrc", "stream-q", "q-lambda-sparse", "qc")
STAGE_TWO_ON_GAMES = ("qrc-output", "qrc", "stream-q", "q-lambda-sparse")
GRADIENT_PPO_RULES = ("ppo", "tdrc-fresh", "tdc-fresh", "gtd2-fresh")
BETA = ("qrc", "qrc-beta0.1", "qrc-beta0.01", "qc")
BLOCKS: dict[str, Callable[[Table], str]] = {
    "studies": studies,
    "claims": claims_in_short,
    "verdicts": verdicts,
    "regularisation": lambda runs: regularisation(runs)[0],
    "older and newer": older_and_newer,
    "verdicts, level": lambda runs: verdicts(
        runs,
        LEVEL_WITH,
        ("**does not hold**, above", "**does not hold**, below", "no significant difference"),
    ),
    "minatar": lambda runs: finals(chosen(runs, "minatar")),
    "minatar-1m": lambda runs: finals(chosen(runs, "minatar-1m")),
    "minatar-5m": lambda runs: finals(chosen(runs, "minatar-5m", FIVE)),
    "beta": lambda runs: finals(chosen(runs, "minatar-5m", BETA)),
    "beta differences": lambda runs: differences(chosen(runs, "minatar-5m", BETA)),
    "leaky relu": lambda runs: leaky_relu(),
    "classics": lambda runs: classics(),
    "mujoco": lambda runs: finals(chosen(runs, "mujoco"), digits=0),
    "mujoco-1m": lambda runs: finals(chosen(runs, "mujoco-1m"), digits=0),
    "streaming, verdicts": lambda runs: verdicts(runs, STREAMING, STUDIED),
    "gradient ppo, stage 1": lambda runs: finals(study_of_gradient_ppo(runs), digits=0),
    "gradient ppo, scores": scores_of_gradient_ppo,
    "gradient ppo, contrasts": contrasts_of_gradient_ppo,
    "gradient ppo, stage 2": lambda runs: finals(chosen(runs, "gradient-ppo/stage-2"), digits=0),
    "gradient ppo, verdicts": lambda runs: verdicts(runs, GRADIENT_PPO, STUDIED),
    "study of h, games": lambda runs: finals_of_h(runs, GAMES, 1),
    "study of h, small environments": lambda runs: finals_of_h(runs, list(SMALL), 2),
    "study of h, scores": scores_of_h,
    "study of h, ranges": ranges_of_h,
    "classic control": lambda runs: solved(*study_of_h(runs)),
    "stage 2, games": lambda runs: finals(
        chosen(runs[runs["env"].isin(GAMES)], "h/stage-2", STAGE_TWO_ON_GAMES)
    ),
    "stage 2, small environments": lambda runs: finals(
        chosen(runs[runs["env"].isin(SMALL)], "h/stage-2")
    ),
    "stage 2, solved": lambda runs: solved(chosen(runs, "h/stage-2"), NAMES),
    "stage 2, verdicts": lambda runs: verdicts(runs, STAGE_TWO, STUDIED),
    "vectors, stage 1": lambda runs: solved(*study_of_vectors(runs, "stage-1")),
    "vectors, stage 2": lambda runs: solved(*study_of_vectors(runs, "stage-2")),
    "vectors, others": lambda runs: verdicts(runs, VECTORS, STUDIED),
    "step sizes": lambda runs: step_sizes.table(runs, ENVS, SOLVED),
    "step sizes, trace-adam": step_sizes.adam_table,
    "step sizes, bound": lambda runs: step_sizes.bound_table(),
    **questions.BLOCKS,
}
"""The tables by name."""
PICTURES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "minatar/curves.png": ("minatar", (), 2),
    "minatar-1m/curves.png": ("minatar-1m", (), 2),
    "minatar-5m/curves.png": ("minatar-5m", FIVE, 2),
    "minatar-5m/beta.png": ("minatar-5m", BETA, 2),
    "h/stage-2.png": ("h/stage-2", STAGE_TWO_ON_GAMES, 2),
    "mujoco/curves.png": ("mujoco", (), 1),
    "mujoco-1m/curves.png": ("mujoco-1m", GRADIENT_PPO_RULES, 1),
    "mujoco-1m/streaming.png": ("mujoco-1m", ("ppo", "stream-ac", "gradient-ac"), 1),
}
"""For each picture its study, its variants (all, without any), and the points joined."""
_BLOCK = re.compile(r"(<!-- begin (.+?) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)


def rewritten(text: str, runs: Table) -> str:
    """A Markdown text with each of its blocks made anew."""
    return _BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](runs)}\n{block[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 instead")
    given = parser.parse_args()
    runs, curves = load()
    stale = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        new = rewritten(text, runs)
        if new != text:
            stale.append(str(path))
            if not given.check:
                path.write_text(new, encoding="utf-8")
    untrue = sentences.missing(runs)
    if given.check:
        sys.exit("\n".join([f"to be made anew: {page}" for page in stale] + untrue) or 0)
    curves.to_parquet(ROOT / "curves.parquet", index=False)
    for name, (study, variants, joined) in PICTURES.items():
        mine = chosen(runs, study, variants)
        mine = mine[~mine["env"].isin(SMALL)]
        draw(mine, curves[curves["study"] == study], ROOT / name, joined)
    questions.draw_all(runs, ROOT / "questions")
    step_sizes.draw(runs, ENVS, ROOT / step_sizes.STUDY / "returns.png")
    print(f"{len(runs)} runs, {len(curves):,} points; changed: {', '.join(stale) or 'no text'}")
    if untrue:
        sys.exit("\n".join(["these sentences are in none of their pages:", *untrue]))


if __name__ == "__main__":
    main()
