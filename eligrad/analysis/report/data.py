"""The data of the page as JSON values: curves, statistics, configurations, versions, commands.

An algorithm of the page is a line of `eligrad.analysis.lines`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from eligrad.analysis.frames import (
    Table,
    differing_settings,
    fixed_columns,
    learning_curves,
    repeated,
    scores,
    scores_so_far,
)
from eligrad.analysis.lines import Line, lines_of
from eligrad.analysis.report.commands import commands
from eligrad.analysis.statistics import bounds_of, iqm, normalise
from eligrad.runs.returns import have_a_value, mean_and_error

POINTS = 100
"""Points of a curve; the page can join them, so more than a picture has."""
FIGURES = 5
"""Significant figures of a number on the page."""
MANY = 12
"""With more algorithms than this, the page begins with the best of each agent."""
WIDE = 8.0
"""A log axis is used if the largest value is this many times the smallest."""
DASH_ARRAYS = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}
"""Matplotlib's words for dashes, in SVG's."""
LEVEL = 0.95
"""How often a confidence interval is to hold the mean; the page says it too."""
MEASURES = {"last": "return_last", "area": "return_area", "all": "return_all"}

Configs = Mapping[str, Mapping[str, Any]]
"""For each run its "configuration" (agent, env, settings, …) and its "sessions"."""


def report_data(runs: Table, episodes: Table, configs: Configs) -> dict[str, Any]:
    """All of it; the page's scripts compute nothing but smoothing."""
    # Of several runs with one configuration and seed, the one that came furthest.
    furthest = runs.sort_values("step", ascending=False, kind="stable")
    repeats = repeated(furthest)
    runs = _with_scores(furthest[~repeats].sort_index().reset_index(drop=True), episodes)
    lines = lines_of(runs)
    algorithms = _algorithms(lines)
    settings = differing_settings(runs)
    environments = list(dict.fromkeys(runs["env"]))
    for place, line in enumerate(lines):
        runs.loc[line.runs.index, "algorithm"] = place
    runs = runs.astype({"algorithm": int}).assign(environment=runs["env"].map(environments.index))
    cells = runs.groupby(["environment", "algorithm"])
    statistics = [_statistics(env, algorithm, each) for (env, algorithm), each in cells]
    curves = _curves(runs, episodes)
    alike = runs.groupby(["environment", "algorithm", "config_hash"])
    return {
        "algorithms": algorithms,
        "environments": [env or "a custom environment" for env in environments],
        "facts": _facts(runs, curves, len(lines), len(environments), int(repeats.sum())),
        "shown": _shown_first(algorithms, statistics),
        "curves": curves,
        "statistics": statistics,
        "aggregate": _aggregate(runs),
        "settings": {name: _axis(name, algorithms) for name in settings},
        "differing": list(dict.fromkeys(name for each in algorithms for name in each["settings"])),
        "configurations": [
            _configuration(env, algorithm, each, configs) for (env, algorithm, _), each in alike
        ],
        "runs": [_run(row) for row in runs.to_dict("records")],
        "sessions": _sessions(configs),
    }


def _with_scores(runs: Table, episodes: Table) -> Table:
    """Runs without a summary yet, scored by the episodes that they have ended so far."""
    unscored = runs["return_all"].isna()
    if not unscored.any():
        return runs
    return runs.fillna(scores_so_far(runs[unscored], episodes))


def _algorithms(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Label, style, and those settings in which algorithms differ; to have none is to differ."""
    agreed = [_agreed(line.runs) for line in lines]
    names = dict.fromkeys(name for each in agreed for name in each)
    kept = [n for n in names if len({str(each.get(n)) for each in agreed}) > 1]
    return [
        {
            "agent": line.agent,
            "title": line.runs["title"].iloc[0],
            "label": line.label,
            "colour": line.style.colour,
            "dash": DASH_ARRAYS[line.style.dash],
            "settings": {name: settings[name] for name in kept if name in settings},
        }
        for line, settings in zip(lines, agreed, strict=True)
    ]


def _agreed(runs: Table) -> dict[str, Any]:
    """Settings with one value in all of these runs."""
    known = {name: runs[name].dropna() for name in fixed_columns(runs)}
    return {
        name: values.tolist()[0]
        for name, values in known.items()
        if len(values) == len(runs) and values.map(str).nunique() == 1
    }


def _curves(runs: Table, episodes: Table) -> list[dict[str, Any]]:
    """Seeds, lines and their mean: of the runs that ended an episode; the others are counted."""
    points = dict(list(learning_curves(runs, episodes, POINTS).groupby("run")))
    found = []
    for (environment, algorithm), members in runs.groupby(["environment", "algorithm"]):
        each = np.stack([points[run]["return"].to_numpy() for run in members["run"]])
        known = have_a_value(each)
        mean, error = mean_and_error(each[known])
        found.append(
            {
                "environment": environment,
                "algorithm": algorithm,
                "seeds": members["seed"][known].tolist(),
                "steps": numbers(points[members["run"].iloc[0]]["step"]),
                "each": [numbers(row) for row in each[known]],
                "mean": numbers(mean),
                "error": numbers(error),
                "interval": _interval(int(known.sum())),
                "diverged": members["diverged_step"].dropna().tolist(),
                "without_episode": int((~known).sum()),
            }
        )
    return found


def _interval(runs: int) -> float | None:
    """Half the confidence interval of a mean of this many runs, in standard errors."""
    return number(stats.t.ppf((1 + LEVEL) / 2, runs - 1)) if runs > 1 else None


def _statistics(environment: int, algorithm: int, runs: Table) -> dict[str, Any]:
    """Means over the seeds that have a value, with their standard errors.

    Runs that are not finished are left out, unless none is.
    """
    measures, finished = {}, runs["finished"].astype(bool)
    counted = runs[finished] if finished.any() else runs
    for name, column in MEASURES.items():
        mean, error = mean_and_error(counted[column].dropna().to_numpy(np.float64))
        measures[name] = {"mean": number(mean), "error": number(error)}
    return {
        "environment": environment,
        "algorithm": algorithm,
        **measures,
        "steps": int(runs["steps"].max()),
        "seeds": len(runs),
        "finished": int(finished.sum()),
        "diverged": int(runs["diverged_step"].notna().sum()),
        "without_episode": int(runs["return_all"].isna().sum()),
        "speed": number(runs["steps_per_second"].median()),
    }


def _aggregate(runs: Table) -> list[dict[str, Any]]:
    """The IQM over environments of algorithms whose finished runs all have a score, in all of them.

    An environment in which all configurations are equal has no scale, and is left out.
    """
    runs = runs[runs["finished"].astype(bool)]
    scored = runs["return_last"].notna()
    runs = runs[scored.groupby(runs["algorithm"]).transform("all")]
    if runs["env"].nunique() < 2:
        return []
    bounds = {env: each for env, each in bounds_of(runs).items() if each[0] < each[1]}
    runs = runs[runs["env"].isin(bounds)]
    found = []
    for algorithm, members in runs.groupby("algorithm"):
        if members["env"].nunique() == len(bounds) > 1:
            estimate = iqm(normalise(scores(members), bounds))
            row = {name: number(value) for name, value in vars(estimate).items()}
            found.append({"algorithm": algorithm, **row, "runs": len(members)})
    return found


def _shown_first(
    algorithms: Sequence[dict[str, Any]], statistics: list[dict[str, Any]]
) -> list[int]:
    """All, or of very many the best of each agent: it beats most of the agent's others by area."""
    if len(algorithms) <= MANY:
        return list(range(len(algorithms)))
    beaten = [0] * len(algorithms)
    for one, other in itertools.product(statistics, repeat=2):
        alike = all(one[name] == other[name] for name in ("environment", "steps"))
        ours, theirs = (algorithms[row["algorithm"]]["agent"] for row in (one, other))
        mean, bar = (row["area"]["mean"] for row in (one, other))
        # An algorithm that ended no episode there beats none.
        if alike and ours == theirs and mean is not None and (bar is None or mean > bar):
            beaten[one["algorithm"]] += 1
    places = range(len(algorithms))
    agents = [each["agent"] for each in algorithms]
    return [
        max((place for place in places if agents[place] == agent), key=beaten.__getitem__)
        for agent in dict.fromkeys(agents)
    ]


def _axis(name: str, algorithms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The values that a setting was given, in order."""
    settings = [each["settings"] for each in algorithms]
    values = list({str(each[name]): each[name] for each in settings if name in each}.values())
    if not all(isinstance(value, (int, float)) for value in values):
        return {"values": sorted(map(str, values)), "log": False}
    values.sort()
    return {"values": values, "log": bool(0 < values[0] <= values[-1] / WIDE)}


def _configuration(
    environment: int, algorithm: int, runs: Table, configs: Configs
) -> dict[str, Any]:
    configuration = configs[runs["run"].iloc[0]]["configuration"]
    seeds = sorted(runs["seed"].tolist())
    return {
        "environment": environment,
        "algorithm": algorithm,
        "seeds": ", ".join(map(str, seeds)),
        "configuration": dict(configuration),
        "commands": commands(configuration, seeds),
    }


def _facts(
    runs: Table,
    curves: Sequence[dict[str, Any]],
    algorithms: int,
    environments: int,
    repeats: int,
) -> str:
    def count(size: int, what: str) -> str:
        return f"{size} {what}" if size == 1 else f"{size} {what}s"

    unfinished, diverged = int((~runs["finished"]).sum()), int(runs["diverged_step"].notna().sum())
    without = sum(curve["without_episode"] for curve in curves)
    parts = [
        count(len(runs), "run"),
        count(algorithms, "algorithm"),
        count(environments, "environment"),
        f"{unfinished} not finished" if unfinished else "all finished",
        f"{diverged} diverged" if diverged else "none diverged",
        *([f"{without} without an episode"] if without else []),
        *([f"{count(repeats, 'repetition')} of a seed left out"] if repeats else []),
    ]
    return " · ".join(parts)


def _run(row: dict[str, Any]) -> dict[str, Any]:
    diverged = row["diverged_step"]
    return {
        **{
            name: row[name] for name in ("run", "environment", "algorithm", "seed", "steps", "step")
        },
        "finished": bool(row["finished"]),
        "diverged": None if pd.isna(diverged) else int(diverged),
        **{name: number(row[column]) for name, column in MEASURES.items()},
        "seconds": number(row["seconds"]),
    }


def _sessions(configs: Configs) -> list[dict[str, Any]]:
    """Where and with what runs were trained; equal ones once, with how many runs and when."""
    found: dict[str, dict[str, Any]] = {}
    for run, config in configs.items():
        for session in config["sessions"]:
            about = {name: session.get(name) for name in ("machine", "device", "git_commit")}
            about["versions"] = session.get("versions", {})
            known = found.setdefault(str(about), about | {"runs": set(), "started": []})
            known["runs"].add(run)
            known["started"].append(session.get("started", ""))
    for each in found.values():
        started = each.pop("started")
        each |= {"runs": len(each["runs"]), "first": min(started), "last": max(started)}
    return list(found.values())


def number(value: Any) -> float | None:
    """A number to the figures that are shown; JSON has neither NaN nor infinity."""
    value = float(value)
    return float(f"{value:.{FIGURES}g}") if math.isfinite(value) else None


def numbers(values: Any) -> list[float | int | None]:
    """Many of them; whole ones without the point, which is shorter."""
    found = [number(value) for value in values]
    return [int(v) if v is not None and v == int(v) else v for v in found]
