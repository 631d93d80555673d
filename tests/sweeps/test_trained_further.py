"""Runs of a sweep that somebody went on with: `eligrad train --resume`."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from eligrad.analysis.load import load_episodes
from eligrad.runs.configuration import Run
from eligrad.runs.folder import RunFolder
from eligrad.sweeps import worker
from eligrad.sweeps.driver import train_runs
from eligrad.sweeps.store import Store
from eligrad.sweeps.table import as_text
from tests.sweeps.small_sweeps import Inline, outcomes, quick_training
from tests.sweeps.test_store import RUNS, Killed, apart, damage, die_at, straight, sweep

__all__ = ["apart", "quick_training", "straight"]
pytestmark = pytest.mark.usefixtures("quick_training")


def test_a_folder_that_was_trained_further_stays_and_its_first_steps_count(straight):
    """By our own command: it is no damage, and more steps are not averaged with fewer."""
    (folder,) = (straight / "runs").iterdir()
    asked_for = as_text(sweep(straight))
    summaries = Store(straight).summaries(RUNS)
    assert len(summaries) == 2
    worker.resume(folder)  # there is nothing left to train, but another session is written down
    assert sweep(straight).notes == ()
    worker.resume(folder, steps=800)
    (note,) = sweep(straight).notes
    assert note.startswith(f"{folder} was trained further, to 800 steps, and stays as it is")
    assert RunFolder(folder).summary["steps"] == 800
    assert as_text(sweep(straight)) == asked_for
    assert Store(straight).summaries(RUNS) == summaries
    assert len(load_episodes(straight)) == 2 * 16


def test_a_sweep_of_so_many_steps_finds_what_was_trained_further(straight):
    (folder,) = (straight / "runs").iterdir()
    longer = [Run(dataclasses.replace(run.configuration, steps=800), run.seed) for run in RUNS]
    assert Store(straight).summaries(longer) == {}
    worker.resume(folder, steps=800)
    executor = Inline()
    report = train_runs(longer, straight, executor)
    assert (report.notes, report.unfinished, executor.tasks) == ((), 0, [])
    summaries = Store(straight).summaries(longer).values()
    own = RunFolder(folder).summary["seeds"]
    assert [each["return_all"] for each in summaries] == [each["return_all"] for each in own]


def test_while_it_is_trained_further_its_first_steps_count(straight, monkeypatch):
    (folder,) = (straight / "runs").iterdir()
    summaries = Store(straight).summaries(RUNS)
    with monkeypatch.context() as patch:
        die_at(patch, RunFolder, "save", 2)
        with pytest.raises(Killed):
            worker.resume(folder, steps=800)
    assert Store(straight).summaries(RUNS) == summaries
    longer = [Run(dataclasses.replace(run.configuration, steps=800), run.seed) for run in RUNS]
    assert Store(straight).summaries(longer) == {}
    assert outcomes(straight)
    sweep(straight)


@pytest.mark.parametrize("what", ["metrics/episodes/*.parquet", "summary.json", "config.json"])
def test_damage_to_a_run_that_was_trained_further_is_named(apart, what):
    expected = outcomes(apart)
    folder, other = sorted((apart / "runs").iterdir())
    worker.resume(folder, steps=800)
    victim = sorted(folder.glob(what))[-1]
    damage(victim, "altered")
    (note,) = sweep(apart).notes
    assert f"{victim} is damaged" in note
    assert (folder.with_name(f"{folder.name}.damaged-1")).is_dir()
    assert outcomes(apart) == expected
    # Sealed, but not this run's.
    shutil.copy(other / "config.json", folder)
    (note,) = sweep(apart).notes
    assert f"{folder / 'config.json'} is damaged: it is another run's" in note
    assert outcomes(apart) == expected
