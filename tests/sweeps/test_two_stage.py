"""The two-stage protocol: what it chooses, what it trains afterwards, and what it refuses."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from eligrad.analysis.load import load_episodes, load_runs
from eligrad.analysis.report import write_report
from eligrad.runs.records import STAGE_ONE, STAGE_TWO
from eligrad.sweeps import two_stage
from eligrad.sweeps.choice import normalise
from eligrad.sweeps.driver import train_runs
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import SpecError, parse
from eligrad.sweeps.two_stage import TwoStage
from tests.sweeps.small_sweeps import Inline, quick_training

__all__ = ["quick_training"]

SPEC = """
steps = 400
seeds = 3
agents = ["qrc", "qc"]
envs = ["Probe/OffPolicy-v0", "Probe/Trace-v0"]
[grid]
lam = [0.0, 0.5, 0.9]
[stage_two]
seeds = 4
"""


def planned(text: str) -> TwoStage:
    spec = parse(tomllib.loads(text))
    return TwoStage.of(spec, resolve(spec))


@pytest.mark.usefixtures("quick_training")
def test_one_configuration_of_each_agent_on_fresh_seeds(tmp_path):
    store = tmp_path / "store"
    plan = planned(SPEC)
    assert len(plan.runs) == 2 * 2 * 3 * 3
    assert plan.fresh_seeds == (3, 4, 5, 6)
    report = train_runs(plan.runs, store / STAGE_ONE, Inline())
    assert report.unfinished == 0
    candidates, choices = plan.choose(store)
    two_stage.write_choice(plan, store, candidates, choices)
    fresh = plan.second_stage(choices)
    train_runs(fresh, store / STAGE_TWO, Inline())

    # The same from the tables alone.
    first = load_runs(store / STAGE_ONE)
    assert (first["stage"] == 1).all()  # so that comparisons warn
    means = first.pivot_table("return_area", ["agent", "lam"], "env")
    scores = normalise(means.to_numpy()).mean(axis=1)
    expected = {}
    for agent in ("qrc", "qc"):
        mine = np.flatnonzero(means.index.get_level_values("agent") == agent)
        expected[agent] = means.index[mine[np.argmax(scores[mine])]][1]
    second = load_runs(store / STAGE_TWO)
    assert len(second) == 2 * 2 * 4
    assert set(second["seed"]) == {3, 4, 5, 6}
    assert dict(second.groupby("agent", observed=True)["lam"].unique().explode()) == expected
    assert set(second["env"]) == set(first["env"])

    # The store as a whole has the fresh runs alone, and so has a folder with the store in it.
    for path in (store, tmp_path):
        whole = load_runs(path)
        assert set(whole["seed"]) == {3, 4, 5, 6}
        assert len(whole) == len(second)
    assert set(load_episodes(store)["seed"]) == {3, 4, 5, 6}
    write_report(store, store / "report.html", "title")
    page = (store / "report.html").read_text()
    assert "--seeds 4 --seed 3" in page
    assert "--seed 0" not in page

    # Another choice, of more seeds for example: what an earlier one trained is not reported.
    told = json.loads((store / "choice.json").read_text())
    fewer = told | {"runs": told["runs"][:3]}
    (store / "choice.json").write_text(json.dumps(fewer))
    assert len(load_runs(store)) == 3
    (store / "choice.json").write_text(json.dumps(told))
    assert len(load_runs(store)) == len(second)

    assert {each["agent"]: each["chosen"]["settings"]["lam"] for each in told["agents"]} == expected
    for each in told["agents"]:
        assert len(each["all"]) == 3
        assert sum(row["chosen_share"] for row in each["all"]) == pytest.approx(1)
        assert min(each["regret"].values()) >= 0
    (store / "choice.json").unlink()  # folders of these names are not enough
    assert len(load_runs(store)) == len(first) + len(second)
    text = two_stage.choice_as_text(plan, candidates, choices)
    assert "QRC(λ): chosen of 3 configurations" in text
    assert f"lam={expected['qc']:g}" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 4", ""), "stage_two.seeds is missing"),
        (("seeds = 4", "seeds = [7, 2]"), r"stage_two.seeds has \[2\], which stage 1 uses too"),
        (("seeds = 4", "seeds = 0"), "stage_two.seeds is 0"),
        (
            (
                "[grid]",
                "[[part]]\n[[part]]\nagents = ['gq2']\nenvs = ['Probe/Trace-v0']\n[part.grid]",
            ),
            "one of gq2 lacks",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(change, message):
    with pytest.raises(SpecError, match=message):
        planned(SPEC.replace(*change))


def test_images_and_vectors_need_settings_that_hold_for_both():
    mixed = SPEC.replace('"Probe/Trace-v0"', '"MinAtar/Breakout-v1"')
    with pytest.raises(
        SpecError, match=r"one of qrc lacks .*name regularize, step_size, optimizer"
    ):
        planned(mixed)
    plan = planned(mixed.replace("[grid]", "[grid]\noptimizer = ['sgd']"))
    assert len(plan.runs) == 2 * 2 * 3 * 3
