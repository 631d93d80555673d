"""The two-stage protocol: many configurations on few seeds, one of them on fresh seeds.

Stage 1 trains all runs of a spec. A rule (`choice.py`) chooses one configuration of each agent for
all environments. Stage 2 trains that one with seeds that stage 1 did not use, and only its results
are reported: those of stage 1 are biased by the choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eligrad._base.files import write_json
from eligrad.agents import TITLES, registry
from eligrad.runs.configuration import Configuration, Run
from eligrad.runs.records import CHOICE, STAGE_ONE
from eligrad.sweeps import choice as choosing
from eligrad.sweeps.choice import Candidates, Choice
from eligrad.sweeps.spec import Spec, SpecError
from eligrad.sweeps.table import differences, own_fields

SHOWN = 10
"""Configurations of each agent that a table shows."""


@dataclasses.dataclass(frozen=True)
class TwoStage:
    """The runs of stage 1 and the seeds of stage 2."""

    spec: Spec
    runs: tuple[Run, ...]
    """The runs of stage 1."""
    fresh_seeds: tuple[int, ...]

    @classmethod
    def of(cls, spec: Spec, runs: Sequence[Run]) -> TwoStage:
        """The protocol of a spec and its runs; raises `SpecError` if a stage is not possible."""
        used = {run.seed for run in runs}
        wanted = spec.stage_two.get("seeds")
        if wanted is None:
            raise SpecError("stage_two.seeds is missing: how many fresh seeds, say 30")
        if isinstance(wanted, int):
            wanted = range(max(used) + 1, max(used) + 1 + wanted)
        overlap = used & set(wanted)
        if overlap:
            raise SpecError(
                f"stage_two.seeds has {sorted(overlap)}, which stage 1 uses too; fresh ones only"
            )
        _check_complete(runs)
        return cls(spec, tuple(runs), tuple(wanted))

    def choose(self, store: Path) -> tuple[Candidates, list[Choice]]:
        """The scores of all configurations in stage 1, and the one chosen for each agent."""
        candidates = self._candidates(store / STAGE_ONE)
        return candidates, choosing.choose(candidates)

    def second_stage(self, choices: Sequence[Choice]) -> list[Run]:
        """The runs of stage 2: the chosen configurations on all environments, with new seeds."""
        variants = list(_variants(self.runs))
        chosen = {variants[choice.chosen] for choice in choices}
        configurations = {run.configuration.hash: run.configuration for run in self.runs}
        kept = [each for each in configurations.values() if each.variant in chosen]
        return [Run(each, seed) for each in kept for seed in self.fresh_seeds]

    def configurations(self) -> list[Configuration]:
        """The configurations to choose from, in the order of the spec."""
        return [runs[0].configuration for runs in _variants(self.runs).values()]

    def _candidates(self, store: Path) -> Candidates:
        # Not at the top: it imports pyarrow, and mistakes in a file are reported without.
        from eligrad.sweeps.store import Store

        variants = _variants(self.runs)
        envs = tuple(dict.fromkeys(str(run.configuration.env) for run in self.runs))
        seeds = sorted({run.seed for run in self.runs})
        areas = np.full((len(variants), len(envs), len(seeds)), np.nan)
        summaries = Store(store).summaries(self.runs)
        for row, runs in enumerate(variants.values()):
            for run in runs:
                area = summaries.get(run.name, {}).get("return_area")
                column = envs.index(str(run.configuration.env))
                areas[row, column, seeds.index(run.seed)] = np.nan if area is None else area
        agents = tuple(str(runs[0].configuration.agent) for runs in variants.values())
        return Candidates(agents, envs, areas)


def write_choice(
    plan: TwoStage, store: Path, candidates: Candidates, choices: Sequence[Choice]
) -> None:
    """Writes `choice.json`: the rule, the score of each configuration, and the chosen ones.

    Args:
        plan: The protocol.
        store: The folder of both stages.
        candidates: The scores that `choose` returned.
        choices: The choices that it returned.
    """
    settings = [own_fields(each) for each in plan.configurations()]
    content = {
        "rule": "mean over environments of the area under the learning curve, normalised to [0, 1] "
        "over all configurations of an environment; ties by mean rank",
        "stage_one_seeds": sorted({run.seed for run in plan.runs}),
        "stage_two_seeds": list(plan.fresh_seeds),
        "runs": [run.name for run in plan.second_stage(choices)],
        "agents": [choosing.as_json(choice, candidates, settings) for choice in choices],
    }
    write_json(store / CHOICE, content)


def choice_as_text(plan: TwoStage, candidates: Candidates, choices: Sequence[Choice]) -> str:
    """A table for each agent: its best configurations, and how sure the choice is."""
    configurations = plan.configurations()
    lines = []
    for choice in choices:
        lines += ["", f"{TITLES[choice.agent]}: chosen of {len(choice.members)} configurations"]
        lines.append(f"{'score':>8}{'rank':>7}{'chosen':>8}  settings")
        for index in choice.members[:SHOWN]:
            numbers = f"{choice.scores[index]:8.3f}{choice.ranks[index]:7.2f}"
            share = f"{100 * choice.chosen_share[index]:.0f} %"
            settings = differences(configurations[index], configurations)
            lines.append(f"{numbers}{share:>8}  {settings or '(the only one)'}")
        regret = [
            f"{env} {value:.3f}"
            for env, value in zip(candidates.envs, choice.regret(), strict=True)
        ]
        lines.append(f"below the best configuration of each environment by: {', '.join(regret)}")
    lines.append("")
    draws = f"{choosing.RESAMPLES:,} draws"
    lines.append(f"score: mean of normalised areas under the curve; chosen: share of {draws} of")
    lines.append("the seeds, with replacement, in which the rule chooses that configuration")
    return "\n".join(lines)


def _variants(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in environment and seed alone, in the order of the spec."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.configuration.variant, []).append(run)
    return groups


def _check_complete(runs: Sequence[Run]) -> None:
    """Raises `SpecError` for a configuration that was not tried on all environments and seeds."""
    everything = {(run.configuration.env, run.seed) for run in runs}
    for group in _variants(runs).values():
        tried = {(run.configuration.env, run.seed) for run in group}
        missing = sorted(map(str, everything - tried))
        if missing:
            agent = str(group[0].configuration.agent)
            hint = ""
            if others := registry.get(agent).for_vectors:
                hint = (
                    ". Its defaults are not the same for images and for vectors: for one "
                    f"configuration on both, name {', '.join(others)}"
                )
            raise SpecError(
                f"the two-stage protocol compares all configurations on the same environments and "
                f"seeds; one of {agent} lacks {missing[0]}{hint}"
            )
