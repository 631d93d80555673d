"""What the page shows, as JSON values: curves, statistics, configurations, versions, commands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from eligrad.analysis.frames import Table, scores
from eligrad.analysis.learning_curves import areas, final_returns, learning_curves
from eligrad.analysis.palette import COLOURS, DASHES, Style, styles
from eligrad.analysis.report.algorithms import Algorithm, differing, group, varied
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
"""Values whose largest is so many times the smallest are drawn on a log axis."""
DASH_ARRAYS = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}
"""Matplotlib's words for dashes, in SVG's."""
MEASURES = {"last": "return_last", "area": "return_area", "all": "return_all"}

Configs = Mapping[str, Mapping[str, Any]]
"""For each run its "configuration" (agent, env, settings, …) and its "sessions"."""


def report_data(runs: Table, episodes: Table, configs: Configs) -> dict[str, Any]:
    """All of it; the page's scripts compute nothing but smoothing."""
    runs = _with_scores(runs, episodes)
    algorithms, place = group(runs)
    settings = varied(runs)
    environments = list(dict.fromkeys(runs["env"]))
    runs = runs.assign(algorithm=place, environment=runs["env"].map(environments.index))
    cells = runs.groupby(["environment", "algorithm"])
    statistics = [_statistics(env, algorithm, each) for (env, algorithm), each in cells]
    curves = _curves(runs, episodes)
    alike = runs.groupby(["environment", "algorithm", "config_hash"])
    return {
        "algorithms": _algorithms(algorithms),
        "environments": [env or "an environment made by hand" for env in environments],
        "facts": _facts(runs, curves, algorithms, environments),
        "shown": _shown_first(algorithms, statistics),
        "curves": curves,
        "statistics": statistics,
        "aggregate": _aggregate(runs),
        "settings": {name: _axis(name, algorithms) for name in settings},
        "differing": differing(algorithms),
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
    runs, those = runs.copy(), runs[unscored]
    means = episodes.groupby("run", observed=True)["return"].mean()
    runs.loc[unscored, "return_all"] = means.reindex(those["run"]).to_numpy(np.float64)
    runs.loc[unscored, "return_last"] = final_returns(those, episodes)
    runs.loc[unscored, "return_area"] = areas(those, episodes)
    return runs


def _algorithms(algorithms: Sequence[Algorithm]) -> list[dict[str, Any]]:
    agents = [each.agent for each in algorithms]
    drawn = styles(agents)
    if len(set(agents)) == 1:
        # Nobody else needs a colour: every line of the one agent gets its own.
        looks = itertools.cycle(itertools.product(DASHES, COLOURS))
        drawn = [Style(colour, dash, "") for _, (dash, colour) in zip(agents, looks, strict=False)]
    kept = differing(algorithms)
    return [
        {
            "agent": algorithm.agent,
            "label": algorithm.label,
            "colour": style.colour,
            "dash": DASH_ARRAYS[style.dash],
            "settings": {n: v for n, v in algorithm.settings.items() if n in kept},
        }
        for algorithm, style in zip(algorithms, drawn, strict=True)
    ]


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
                "diverged": members["diverged_step"].dropna().tolist(),
                "without_episode": int((~known).sum()),
            }
        )
    return found


def _statistics(environment: int, algorithm: int, runs: Table) -> dict[str, Any]:
    """Means over the seeds that have a value, with their standard errors."""
    measures = {}
    for name, column in MEASURES.items():
        mean, error = mean_and_error(runs[column].dropna().to_numpy(np.float64))
        measures[name] = {"mean": number(mean), "error": number(error)}
    return {
        "environment": environment,
        "algorithm": algorithm,
        **measures,
        "seeds": len(runs),
        "finished": int(runs["finished"].sum()),
        "diverged": int(runs["diverged_step"].notna().sum()),
        "without_episode": int(runs["return_all"].isna().sum()),
        "speed": number(runs["steps_per_second"].median()),
    }


def _aggregate(runs: Table) -> list[dict[str, Any]]:
    """The IQM over environments of those algorithms that have a score in all of them."""
    runs = runs[runs["return_last"].notna()]
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


def _shown_first(algorithms: Sequence[Algorithm], statistics: list[dict[str, Any]]) -> list[int]:
    """All, or where that is too many the best of each agent: it beats most of its kin by area."""
    if len(algorithms) <= MANY:
        return list(range(len(algorithms)))
    beaten = [0] * len(algorithms)
    for one, other in itertools.product(statistics, repeat=2):
        same_world = one["environment"] == other["environment"]
        ours, theirs = (algorithms[row["algorithm"]].agent for row in (one, other))
        mean, bar = (row["area"]["mean"] for row in (one, other))
        # Who ended no episode there beats nobody.
        if same_world and ours == theirs and mean is not None and (bar is None or mean > bar):
            beaten[one["algorithm"]] += 1
    places = range(len(algorithms))
    agents = dict.fromkeys(each.agent for each in algorithms)
    return [
        max((p for p in places if algorithms[p].agent == a), key=beaten.__getitem__) for a in agents
    ]


def _axis(name: str, algorithms: Sequence[Algorithm]) -> dict[str, Any]:
    """The values that a setting was given, in order."""
    values: list[Any] = [each.settings[name] for each in algorithms if name in each.settings]
    values = list({str(value): value for value in values}.values())
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
    algorithms: Sequence[Algorithm],
    environments: list[str],
) -> str:
    def count(size: int, what: str) -> str:
        return f"{size} {what}" if size == 1 else f"{size} {what}s"

    unfinished, diverged = int((~runs["finished"]).sum()), int(runs["diverged_step"].notna().sum())
    without = sum(curve["without_episode"] for curve in curves)
    parts = [
        count(len(runs), "run"),
        count(len(algorithms), "algorithm"),
        count(len(environments), "environment"),
        f"{unfinished} not finished" if unfinished else "all finished",
        f"{diverged} diverged" if diverged else "none diverged",
        *([f"{without} without an episode"] if without else []),
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
