"""`eligrad evaluate`: the return of a trained agent over whole episodes, without learning."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from eligrad._base.text import printable
from eligrad.cli import messages
from eligrad.cli.modules import Modules, import_typed

if TYPE_CHECKING:
    from eligrad.analysis.bootstrap import Estimate


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Play episodes with every seed of a run, and print mean returns with 95 % intervals.

    The agent does not learn, and the run does not change. The interval of a seed is over its
    episodes, the interval of all seeds over their means.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """A run folder, also one that is being trained, or a file that an agent was saved to."""
    episodes: int = 100
    """Episodes of each seed."""
    modules: Modules = ()
    """Import this module first: the one of the run's environment, if you trust it."""
    env: str | None = None
    """The environment to play in, for an agent that was saved without one."""
    seed: int = 0
    """Seed of the episodes: decides what is random in the environment."""
    sampled: bool = False
    """Draw actions as in training, instead of taking the best ones."""
    max_steps: int = 100_000
    """Cut off an episode that has not ended after this many steps."""


def main(arguments: list[str]) -> int:
    """Prints the returns that the arguments ask for; returns the exit code."""
    command = tyro.cli(Evaluate, prog="eligrad evaluate", args=arguments)
    return messages.run("evaluate", lambda: _evaluate(command))


def _evaluate(command: Evaluate) -> int:
    # JAX is loaded here, and not for a mistyped option.
    import numpy as np

    import eligrad
    from eligrad.agents.registry import per_run
    from eligrad.analysis import statistics
    from eligrad.engines.devices import keep_compiled_programs

    import_typed(command.modules)
    keep_compiled_programs()
    agent = eligrad.load(command.run, env=command.env)
    returns = agent.evaluate(
        command.episodes,
        deterministic=not command.sampled,
        seed=command.seed,
        max_steps=command.max_steps,
    )
    title, steps = printable(agent.session.title), agent.num_timesteps
    print(f"{title}: return of an episode after {steps:,} steps")
    # A row for each run; several may have one seed, with other settings.
    rows = returns["return"].to_numpy().reshape(-1, command.episodes)
    differ = {k: v for k, v in per_run(agent.session.plan.settings).items() if np.ptp(v)}
    for place, (seed, row) in enumerate(zip(agent.session.plan.seeds, rows, strict=True)):
        count = "1 episode" if len(row) == 1 else f"{len(row):,} episodes"
        own = "".join(f", {name} {values[place]:g}" for name, values in differ.items())
        print(_line(f"seed {seed}", statistics.mean({"": row}), count + own))
    if len(rows) > 1 and not differ:
        over = statistics.mean({"": rows.mean(axis=1)})
        print(_line("all seeds", over, f"{len(rows)} seeds"))
    return 0


def _line(name: str, mean: Estimate, of: str) -> str:
    interval = "" if math.isnan(mean.low) else f" [{mean.low:.4g}, {mean.high:.4g}]"
    return f"{name:>12}{mean.value:>12.4g}{interval}, {of}"
