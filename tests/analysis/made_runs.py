"""Tables of runs that were never trained, as `load_runs` and `load_episodes` would give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from eligrad.agents import PRESETS, TITLES
from eligrad.analysis.load import setting_values
from eligrad.runs.configuration import Configuration

SESSION = {
    "started": "2026-01-02T03:04:05+00:00",
    "versions": {"python": "3.11.7", "jax": "0.10.2"},
    "machine": "Linux-6",
    "device": "1 × cpu (cpu)",
    "git_commit": "0123456789abcdef-dirty",
    "from_step": 0,
}


@dataclasses.dataclass
class Made:
    """All that a report is made of."""

    runs: pd.DataFrame
    episodes: pd.DataFrame
    configs: dict[str, dict[str, Any]]


def made(
    agents: Sequence[str] = ("qrc", "q-lambda"),
    envs: Sequence[str] = ("MinAtar/Breakout-v1",),
    seeds: int = 3,
    steps: int = 1000,
    changes: Sequence[dict[str, Any]] = ({},),
    length: int = 10,
    **outcome: Any,
) -> Made:
    """Every agent in every environment with every change of its settings, and every seed.

    Returns rise along a run and differ from one seed to the next; `length` is the shortest episode.
    """
    random = np.random.default_rng(0)
    rows, episodes, configs = [], [], {}
    for agent, env, change in ((a, e, c) for a in agents for e in envs for c in changes):
        settings = dict(vars(PRESETS[agent]))
        if "exploration_steps" in settings:
            settings["exploration_steps"] = 0.2 * steps
        settings |= change
        configuration = Configuration(agent, settings, env, steps)
        for seed in range(seeds):
            run = f"runs/{configuration.hash}-s{seed}"
            about = {
                "run": run,
                "agent": agent,
                "title": TITLES[agent],
                "env": env,
                "seed": seed,
                "config_hash": configuration.hash,
            }
            lengths = random.integers(length, 2 * length, size=steps // length)
            step = np.cumsum(lengths)
            within = step <= steps
            returns = (step / steps * (1 + 3 * random.random()) + random.random(step.size))[within]
            episodes.append(
                pd.DataFrame(
                    {"step": step[within], "return": returns, "length": lengths[within]}
                ).assign(**about)
            )
            last = returns[step[within] > 0.9 * steps]
            rows.append(
                about
                | {
                    "steps": steps,
                    "step": steps,
                    "finished": True,
                    "max_episode_steps": None,
                    "diverged_step": None,
                    "return_last": last.mean(),
                    "return_all": returns.mean(),
                    "return_area": np.average(returns, weights=lengths[within]),
                    "seconds": 2.0,
                    "steps_per_second": 1000.0 * (1 + seed),
                }
                | setting_values(configuration)
                | outcome
            )
            sessions = [SESSION]
            about_run = {"configuration": dataclasses.asdict(configuration), "sessions": sessions}
            configs[run] = about_run
    runs = pd.DataFrame(rows)
    runs = runs.astype({"max_episode_steps": "Int64", "diverged_step": "Int64"})
    return Made(runs, pd.concat(episodes, ignore_index=True), configs)
