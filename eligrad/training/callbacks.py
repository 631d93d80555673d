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
from eligrad.runs.metrics import with_metrics
from eligrad.training import saved
from eligrad.training.evaluation import Evaluation
from eligrad.training.session import Session

RECENT = 20
"""Episodes of each run that count as recent."""


class StopAtReturn:
    """Ends training once the recent episodes of every run have at least this mean return."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, session: Session) -> bool:
        """Returns whether training continues."""
        recent = [np.zeros(0)] * session.engine.count
        for tables in reversed([*session.saved, *session.unsaved]):
            run, returns = (np.asarray(tables.episodes[name]) for name in ("run", "return"))
            recent = [np.append(returns[run == i], later) for i, later in enumerate(recent)]
            if min(map(len, recent)) >= RECENT:
                return any(np.mean(each[-RECENT:]) < self.threshold for each in recent)
        return True


class EvaluateEvery:
    """Plays whole episodes without learning, and keeps the returns.

    `history` has a pair for each time: the step, and returns of shape [runs, episodes].

    Args:
        steps: about how many there are between two evaluations.
        episodes: how many each run plays.
        keep_best: a file to which all runs are saved when their mean return is the highest so far;
            a run that is continued remembers it.
        metric: the column of each run's mean return; several evaluations need several.
    """

    def __init__(
        self,
        steps: int | float,
        *,
        episodes: int = 10,
        keep_best: str | Path | None = None,
        metric: str = "evaluation_return",
    ) -> None:
        self.metric = metric
        self.steps, self.episodes = whole_number("steps", steps), whole_number("episodes", episodes)
        self.keep_best = None if keep_best is None else Path(keep_best).expanduser()
        self.history: list[tuple[int, np.ndarray]] = []
        self._due: int | None = None
        self._evaluate: Evaluation | None = None
        self._best: float | None = None

    def __call__(self, session: Session) -> None:
        """Evaluates if an evaluation is due."""
        if self._due is None:  # training may have begun beyond step 0
            start_step = (session.step - 1) // session.plan.chunk * session.plan.chunk
            self._due = start_step - start_step % self.steps + self.steps
        if session.step < self._due:
            return
        self._due = session.step - session.step % self.steps + self.steps
        if self._evaluate is None or self._evaluate.env is not session.env:
            self._evaluate = Evaluation(session.env)
        agents = session.engine.state.agent
        params = change_params(session.env, session.plan.env_params)
        returns = self._evaluate(session.agent, agents, episodes=self.episodes, params=params)
        self.history.append((session.step, returns))
        if self.keep_best is not None and self._best is None:
            self._best = (
                _best_evaluation(session, self.metric) if self.keep_best.exists() else -np.inf
            )
        # Before the agent is saved, so that the file holds its own score.
        means = {self.metric: returns.mean(axis=1)}
        session.unsaved[-1] = with_metrics(session.unsaved[-1], means)
        if self.keep_best is not None and returns.mean() > self._best:
            self._best = returns.mean()
            saved.save(session, self.keep_best)


def _best_evaluation(session: Session, metric: str) -> float:
    """The highest mean return of the run's evaluations so far."""
    chunks = session.tables().chunks
    if metric not in chunks.column_names:
        return -np.inf
    means = chunks.group_by("step").aggregate([(metric, "mean")])
    known = means[f"{metric}_mean"].drop_null().to_pylist()
    return max((mean for mean in known if not np.isnan(mean)), default=-np.inf)
