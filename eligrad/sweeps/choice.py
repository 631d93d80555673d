"""Chooses one configuration for all environments, and says how sure the choice is.

The score of a configuration is the mean over environments of its normalised area under the
learning curve. In each environment the mean over seeds is taken first; then 0 is the worst and 1
the best of all configurations of all agents. A run that failed, or never ended an episode, counts
like the worst run of its environment. Ties are broken by the mean rank over environments, then by
the order of the spec.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

RESAMPLES = 1000
"""Draws of the seeds, by which `chosen_share` is counted."""
_TIE = 1e-9


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The areas under the curves of all configurations."""

    agents: tuple[str, ...]
    """The agent of each configuration."""
    envs: tuple[str, ...]
    areas: np.ndarray
    """[configurations, environments, seeds]; NaN where a run failed or ended no episode."""

    def filled(self) -> np.ndarray:
        """Areas with the worst run of the environment in place of what is missing."""
        known = np.where(np.isnan(self.areas), np.inf, self.areas).min(axis=(0, 2))
        worst = np.where(np.isinf(known), 0.0, known)
        return np.where(np.isnan(self.areas), worst[None, :, None], self.areas)


@dataclasses.dataclass(frozen=True)
class Choice:
    """The configuration chosen for one agent, and how sure the choice is."""

    agent: str
    chosen: int
    """Index of the configuration."""
    members: tuple[int, ...]
    """Indices of all configurations of the agent, the best first."""
    scores: np.ndarray
    """The score of every configuration of every agent."""
    normalised: np.ndarray
    """[configurations, environments]."""
    ranks: np.ndarray
    """Mean rank over environments among the agent's own; 1 is the best."""
    chosen_share: np.ndarray
    """How often each configuration is chosen when seeds are resampled with replacement."""

    def regret(self) -> np.ndarray:
        """How much better the agent's best configuration is in each environment."""
        return self.normalised[list(self.members)].max(axis=0) - self.normalised[self.chosen]


def choose(candidates: Candidates, resamples: int = RESAMPLES) -> list[Choice]:
    """One configuration for each agent, in the order of their first appearance."""
    areas = candidates.filled()
    normalised = normalise(areas.mean(axis=2))
    drawn = _resampled_means(areas, resamples)
    choices = []
    for agent in dict.fromkeys(candidates.agents):
        members = np.flatnonzero(np.array(candidates.agents) == agent)
        if np.isnan(candidates.areas[members]).all():
            raise ValueError(
                f"none of the runs of {agent} in stage 1 has a score: they failed, or ended no "
                "episode; there is nothing to choose by"
            )
        order = _order(normalised, members)
        first = [_order(normalise(each), members)[0] for each in drawn]
        share = np.bincount(first, minlength=len(areas)) / max(1, len(first))
        ranks = np.full(len(areas), np.nan)
        ranks[members] = mean_ranks(normalised[members])
        choices.append(
            Choice(
                agent=agent,
                chosen=int(order[0]),
                members=tuple(int(index) for index in order),
                scores=normalised.mean(axis=1),
                normalised=normalised,
                ranks=ranks,
                chosen_share=share,
            )
        )
    return choices


def normalise(means: np.ndarray) -> np.ndarray:
    """0 for the worst and 1 for the best in each column; 1 where all are equal."""
    low, high = means.min(axis=0), means.max(axis=0)
    spread = high - low
    return np.where(spread > 0, (means - low) / np.where(spread > 0, spread, 1.0), 1.0)


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """The mean over columns of each row's rank, 1 for the largest; equal values share theirs."""
    from scipy.stats import rankdata  # slow to import, for a mistake in a file

    return rankdata(-values, axis=0).mean(axis=1)


def _order(normalised: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The members from the best to the worst."""
    scores = np.round(normalised[members].mean(axis=1) / _TIE)
    return members[np.lexsort((members, mean_ranks(normalised[members]), -scores))]


def _resampled_means(areas: np.ndarray, resamples: int) -> np.ndarray:
    """Means over seeds drawn with replacement, anew for each configuration and environment."""
    seeds = areas.shape[2]
    picks = np.random.default_rng(0).integers(seeds, size=(resamples, *areas.shape))
    return np.take_along_axis(areas[None], picks, axis=3).mean(axis=3)


def as_json(
    choice: Choice, candidates: Candidates, settings: list[dict[str, Any]]
) -> dict[str, Any]:
    """The choice and the scores of all configurations, as JSON values."""
    rows = [
        {
            "settings": settings[index],
            "score": float(choice.scores[index]),
            "mean_rank": float(choice.ranks[index]),
            "chosen_share": float(choice.chosen_share[index]),
            "normalised_area": dict(
                zip(candidates.envs, choice.normalised[index].tolist(), strict=True)
            ),
        }
        for index in choice.members
    ]
    regret = dict(zip(candidates.envs, choice.regret().tolist(), strict=True))
    return {"agent": choice.agent, "chosen": rows[0], "all": rows, "regret": regret}
