"""Tables of made-up runs, with the columns of `load_runs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from eligrad.agents import TITLES
from eligrad.analysis.frames import COLUMNS


def runs_of(
    agent: str, scores: Mapping[str, Sequence[float]], first_seed: int = 0, **columns: Any
) -> pd.DataFrame:
    """Finished runs of one configuration: for each environment, scores by seed."""
    others = {*COLUMNS} - {"max_episode_steps", "steps"}
    settings = {name: value for name, value in columns.items() if name not in others}
    rows = [
        {
            "run": f"{env}-{agent}-{sorted(settings.items())}-s{seed}",
            "agent": agent,
            "title": TITLES.get(agent, agent),
            "env": env,
            "seed": seed,
            "steps": 1000,
            "step": 1000,
            "finished": True,
            "config_hash": f"{env}-{agent}-{sorted(settings.items())}",
            "diverged_step": None,
            "return_last": score,
            "steps_per_second": 100.0 + seed,
        }
        | columns
        for env, values in scores.items()
        for seed, score in enumerate(values, first_seed)
    ]
    return pd.DataFrame(rows).astype({"diverged_step": "Int64", "return_last": "float64"})
