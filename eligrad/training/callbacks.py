"""Callbacks between chunks: stop early, evaluate, keep the best. Any function may be one.

def stop_when_late(session):
    return session.step < 50_000  # False ends training

def norm_of_weights(session):  # a metric of your own, one number or one for each run
    return {"norm": optax.global_norm(session.engine.state.agent.w)}
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eligrad._base.checks import whole_number
from eligrad.envs.registry import change_params
from eligrad.training import saved
from eligrad.training.evaluation import evaluate
from eligrad.training.session import Session

RECENT = 20
"""Episodes of each run that count as recent."""


class StopAtReturn:
    """Ends training once the recent episodes of every run have at least this mean return."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, session: Session) -> bool:
        """Returns whether training continues."""
        episodes = session.tables().episodes
        run, returns = np.asarray(episodes["run"]), np.asarray(episodes["return"])
        recent = [returns[run == one][-RECENT:] for one in range(session.engine.count)]
        reached = (len(r) == RECENT and r.mean() >= self.threshold for r in recent)
        return not all(reached)


class EvaluateEvery:
    """Plays whole episodes without learning, about every `steps` steps.

    The mean return of each run becomes the metric `evaluation_return`. `history` has a pair for
    each time: the step, and returns of shape [runs, episodes]. With `keep_best` all runs are saved
    there when their mean return is the highest so far.
    """

    def __init__(
        self, steps: int | float, *, episodes: int = 10, keep_best: str | Path | None = None
    ) -> None:
        self.steps, self.episodes = whole_number("steps", steps), episodes
        self.keep_best = None if keep_best is None else Path(keep_best)
        self.history: list[tuple[int, np.ndarray]] = []
        self._due = self.steps

    def __call__(self, session: Session) -> dict[str, np.ndarray]:
        """Evaluates where it is time for it."""
        if session.step < self._due:
            return {}
        self._due = session.step - session.step % self.steps + self.steps
        agents = session.engine.state.agent
        params = change_params(session.env, session.plan.env_params)
        returns = evaluate(
            session.agent, session.env, agents, episodes=self.episodes, params=params
        )
        best = max((r.mean() for _, r in self.history), default=-np.inf)
        self.history.append((session.step, returns))
        if self.keep_best is not None and returns.mean() > best:
            saved.save(session, self.keep_best)
        return {"evaluation_return": returns.mean(axis=1)}
