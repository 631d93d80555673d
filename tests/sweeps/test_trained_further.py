"""Runs of a sweep that somebody went on with: `eligrad train --resume`."""

from __future__ import annotations

import shutil

import pytest

from eligrad.analysis.load import load_episodes
from eligrad.runs.folder import RunFolder
from eligrad.sweeps import worker
from eligrad.sweeps.store import Store
from eligrad.sweeps.table import as_text
from tests.sweeps.small_sweeps import outcomes, quick_training
from tests.sweeps.test_store import RUNS, damage, straight, sweep

__all__ = ["quick_training", "straight"]
pytestmark = pytest.mark.usefixtures("quick_training")


def test_a_run_that_was_trained_further_stays_and_its_first_steps_count(straight):
    """By our own command: it is no damage, and more steps are not averaged with fewer."""
    folder = sorted((straight / "runs").iterdir())[1]
    asked_for = as_text(sweep(straight))
    run = next(run for run in RUNS if run.name == folder.name)
    summary = Store(straight).summary(run)
    worker.resume(folder)  # there is nothing left to train, but another session is written down
    assert sweep(straight).notes == ()
    worker.resume(folder, steps=800)
    (note,) = sweep(straight).notes
    assert note.startswith(f"{folder} was trained further, to 800 steps, and stays as it is")
    assert RunFolder(folder).summary["steps"] == 800
    assert as_text(sweep(straight)) == asked_for
    assert Store(straight).summary(run) == summary
    assert len(load_episodes(straight)) == 8 + 16


@pytest.mark.parametrize("what", ["metrics/episodes/*.parquet", "summary.json", "config.json"])
def test_damage_to_a_run_that_was_trained_further_is_named(straight, what):
    expected = outcomes(straight)
    folder, other = sorted((straight / "runs").iterdir())
    worker.resume(folder, steps=800)
    victim = sorted(folder.glob(what))[-1]
    damage(victim, "altered")
    (note,) = sweep(straight).notes
    assert f"{victim} is damaged" in note
    assert (folder.with_name(f"{folder.name}.damaged-1")).is_dir()
    assert outcomes(straight) == expected
    # Sealed, but not this run's.
    shutil.copy(other / "config.json", folder)
    (note,) = sweep(straight).notes
    assert f"{folder / 'config.json'} is damaged: it is another run's" in note
