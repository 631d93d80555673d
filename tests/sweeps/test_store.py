"""A store when things go wrong: killed at any write, damaged, full, shared, or asked too early."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings

import pytest

from eligrad._base.errors import DamagedFileWarning
from eligrad.analysis.load import load_episodes, load_runs
from eligrad.runs.folder import RunFolder
from eligrad.sweeps import worker
from eligrad.sweeps.driver import StoreFull, run_sweep, train_runs
from eligrad.sweeps.jobs import Job, TaskResult
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.store import Store
from eligrad.training import Interrupted
from tests.sweeps.small_sweeps import Inline, outcomes, quick_training, small

__all__ = ["quick_training"]
NIGHTLY = pytest.mark.nightly
pytestmark = pytest.mark.usefixtures("quick_training")


RUNS = resolve(small(seeds=1))


def sweep(store):
    """Trains two runs in one program, here and now; nothing may be left out."""
    report = train_runs(RUNS, store, Inline(workers=1))
    assert (report.failures, report.unfinished) == ({}, 0)
    return report


@pytest.fixture
def straight(tmp_path):
    """The store of an undisturbed sweep."""
    store = tmp_path / "straight"
    assert sweep(store).notes == ()
    return store


def test_the_same_again_trains_nothing(straight):
    executor = Inline()
    report = train_runs(RUNS, straight, executor)
    assert executor.tasks == []
    assert report.unfinished == 0


def test_a_larger_sweep_trains_only_what_is_new(straight):
    executor = Inline()
    run_sweep(small(seeds=3), straight, executor=executor)
    assert sorted(run.seed for task in executor.tasks for run in task.job.runs) == [1, 1, 2, 2]
    assert len(load_runs(straight)) == 6


def test_run_folders_of_train_are_several_runs(tmp_path):
    """Also where one folder holds several seeds or settings, as `eligrad train` writes it."""
    shared = {"steps": 400, "max_episode_steps": None, "env_params": {}}
    worker.train("qrc", "A", seeds=[3, 4], out=tmp_path / "one", **shared)
    worker.train("qrc", "A", seeds=[3, 3], lam=[0.5, 0.6], out=tmp_path / "two", **shared)
    runs, episodes = load_runs(tmp_path), load_episodes(tmp_path)
    assert list(runs["run"]) == ["one#0", "one#1", "two#0", "two#1"]
    assert list(runs["seed"]) == [3, 4, 3, 3]
    assert list(runs["lam"]) == [0.8, 0.8, 0.5, 0.6]
    assert runs["config_hash"].nunique() == 3
    for run, seed in zip(runs["run"], runs["seed"], strict=True):
        mine = episodes[episodes["run"] == run]
        assert set(mine["seed"]) == {seed}
        assert len(mine) == 8
    assert len(load_runs(tmp_path / "one")) == 2
    lasts = episodes[episodes["step"] == 400].set_index("run")["return"]
    assert lasts.nunique() == 4


class Killed(BaseException):
    """As if the process had ended here."""


def die_at(monkeypatch, place, name, moment):
    """Lets the `moment`-th call of a function be the last thing that happens; counts them."""
    real, calls = getattr(place, name), []

    def dying(*arguments, **options):
        calls.append(name)
        if len(calls) == moment:
            raise Killed
        return real(*arguments, **options)

    monkeypatch.setattr(place, name, dying)
    return calls


def survives(store):
    """Whoever reads now finds nothing half."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if (store / "runs").exists():
            assert load_runs(store)["finished"].all()
            load_episodes(store)


@pytest.mark.parametrize(
    "name",
    [
        "replace",
        "rename",
        *(pytest.param(n, marks=pytest.mark.nightly) for n in ("unlink", "mkdir")),
    ],
)
def test_killed_at_every_single_write(straight, tmp_path, monkeypatch, name):
    """Every file and folder takes its place by one call: each of them is the last one once."""
    expected = outcomes(straight)
    for moment in range(1, 1000):
        store = tmp_path / f"{name}-{moment}"
        with monkeypatch.context() as patch:
            die_at(patch, pathlib.Path, name, moment)
            try:
                sweep(store)
            except Killed:
                pass
            else:
                break  # that many there are not
        survives(store)
        assert sweep(store).notes == ()
        assert outcomes(store) == expected
        assert [path.name for path in (store / "jobs").iterdir()] == []
        shutil.rmtree(store)
    assert moment > {"replace": 14, "rename": 2, "unlink": 3, "mkdir": 10}[name]


@pytest.mark.parametrize("name", ["rename", pytest.param("replace", marks=NIGHTLY)])
def test_killed_while_a_program_fails(straight, tmp_path, monkeypatch, name):
    """At every write: no run is lost, and each of them succeeds alone."""

    def fail_together(train):
        def failing(*arguments, **options):
            train(*arguments, **options)
            (program,) = store.glob("jobs/*/program")
            if len(RunFolder(program).config["plan"]["seeds"]) > 1:
                raise RuntimeError("bad company")

        return failing

    for training in ("train", "resume"):
        monkeypatch.setattr(worker, training, fail_together(getattr(worker, training)))
    expected = outcomes(straight)
    for moment in range(1, 100):
        store = tmp_path / f"{moment}"
        with monkeypatch.context() as patch:
            die_at(patch, pathlib.Path, name, moment)
            try:
                sweep(store)
            except Killed:
                pass
            else:
                break
        survives(store)
        # Killed before or after it failed together.
        together = "2 runs failed and tried once more: RuntimeError: bad company"
        assert sweep(store).notes in ((), (together,))
        assert outcomes(store) == expected
        assert len(list((store / "runs").iterdir())) == 2
        assert list((store / "failures").iterdir()) == list((store / "jobs").iterdir()) == []
    assert moment > {"replace": 20, "rename": 4}[name]


def test_a_program_that_dies_twice_is_trained_run_by_run(straight, tmp_path, monkeypatch):
    """Its worker may have been killed by chance once; then one of the runs may be the cause."""
    attempts = []

    class Dying(Inline):
        def start(self, task):
            attempts.append(len(task.job.runs))
            with monkeypatch.context() as patch:
                if len(task.job.runs) > 1:
                    die_at(patch, RunFolder, "write_summary", 1)
                try:
                    super().start(task)
                except Killed:
                    self._ended.append((task, TaskResult("died", "killed")))

    report = train_runs(RUNS, tmp_path / "store", Dying(workers=1))
    assert (report.failures, report.unfinished) == ({}, 0)
    assert report.notes == ("2 runs failed and tried once more: killed",) * 2
    assert attempts == [2, 2, 1, 1]
    assert outcomes(tmp_path / "store") == outcomes(straight)


@pytest.mark.parametrize("what", ["checkpoint-*.npz", "metrics/episodes/*.parquet", "config.json"])
@pytest.mark.parametrize("how", ["cut", "altered"])
def test_damage_to_a_program_is_named_and_undone(straight, tmp_path, monkeypatch, what, how):
    store = tmp_path / "store"
    with monkeypatch.context() as patch:
        die_at(patch, Store, "finish", 1)
        with pytest.raises(Killed):
            sweep(store)
    (program,) = store.glob("jobs/*/program")
    victim = sorted(program.glob(what))[-1]
    damage(victim, how)
    report = sweep(store)
    assert len(report.notes) == 1
    anew = what == "config.json"
    assert ("program" if anew else victim.name) in report.notes[0]
    assert ("beginning anew" if anew else "continuing from") in report.notes[0]
    assert outcomes(store) == outcomes(straight)


def test_two_damaged_checkpoints_begin_anew(straight, tmp_path, monkeypatch):
    store = tmp_path / "store"
    with monkeypatch.context() as patch:
        die_at(patch, Store, "finish", 1)
        with pytest.raises(Killed):
            sweep(store)
    victims = sorted(store.glob("jobs/*/program/checkpoint-*.npz"))
    assert len(victims) == 2
    for victim in victims:
        damage(victim, "cut")
    report = sweep(store)
    told = " ".join(report.notes)
    assert all(victim.name in told for victim in victims)
    assert "beginning anew" in told
    assert outcomes(store) == outcomes(straight)


def damage(path, how):
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 3
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :])


@pytest.fixture
def apart(tmp_path):
    """The store of the same sweep with each run in a folder of its own."""
    store = tmp_path / "apart"
    train_runs(RUNS, store, Inline(workers=2))
    assert len(list((store / "runs").iterdir())) == 2
    return store


@pytest.mark.parametrize("how", ["cut", "altered"])
@pytest.mark.parametrize(
    "what", ["metrics/episodes/*.parquet", "summary.json", "config.json", "checkpoint-*.npz"]
)
def test_damage_to_a_finished_run_is_named_and_undone(apart, what, how):
    expected = outcomes(apart)
    folder, other = sorted((apart / "runs").iterdir())
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    victim = next(folder.glob(what))
    damage(victim, how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs, episodes = load_runs(apart), load_episodes(apart)
    if what.startswith("metrics"):
        assert victim.name in str(caught[0].message)
        assert set(episodes["run"]) == set(runs["run"]) - {f"runs/{folder.name}"}
    if how == "cut" and what in ("summary.json", "config.json"):
        assert folder.name in str(caught[0].message)
        assert len(runs) == 1
    (note,) = sweep(apart).notes
    assert str(victim) in note
    assert f"{folder} is renamed to {folder.name}.damaged-1 and trained again" in note
    assert (folder.with_name(f"{folder.name}.damaged-1")).is_dir()
    assert outcomes(apart) == expected
    assert {path: path.read_bytes() for path in before} == before


def test_all_runs_of_a_damaged_folder_are_trained_again(straight):
    expected = outcomes(straight)
    (folder,) = (straight / "runs").iterdir()
    damage(folder / "summary.json", "cut")
    assert len(sweep(straight).notes) == 1
    assert outcomes(straight) == expected


def test_a_folder_in_the_way_of_a_finished_job_is_kept(straight, tmp_path, monkeypatch):
    """Such as one that was damaged after the sweep had begun."""
    store, finish = tmp_path / "store", Store.finish

    def late(self, claim):
        target = store / "runs" / claim.job.id
        target.mkdir()
        (target / "config.json").write_text("{")
        with pytest.warns(DamagedFileWarning, match=r"config\.json is damaged.*; left out"):
            finish(self, claim)

    monkeypatch.setattr(Store, "finish", late)
    sweep(store)
    assert outcomes(store) == outcomes(straight)
    assert len(list(store.glob("runs/*.damaged-1/config.json"))) == 1


def test_a_full_disk_is_said_and_what_is_there_stays_readable(straight, tmp_path, monkeypatch):
    """Full after every number of writes, until there are enough."""
    expected = outcomes(straight)
    for writes in range(1000):
        store = tmp_path / f"{writes}"
        with monkeypatch.context() as patch:
            done = []

            def fsync(descriptor, done=done, writes=writes):
                done.append(descriptor)
                if len(done) > writes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, "fsync", fsync)
            if not is_full(store):
                break
        survives(store)
        assert sweep(store).notes == ()
        assert outcomes(store) == expected
        shutil.rmtree(store)
    assert writes > 15


def is_full(store) -> bool:
    """Whether a sweep ends for want of space, and says so."""
    try:
        sweep(store)
    except StoreFull as error:
        return bool(re.search("No space left on device.*free some space", str(error)))
    return False


def test_a_failed_run_is_retried_once_and_one_that_succeeds_has_not_failed(tmp_path, monkeypatch):
    calls, train = [], worker.train

    def fourth_time_lucky(*arguments, **options):
        calls.append(options["seeds"])
        if len(calls) < 4:
            raise RuntimeError("no luck")
        return train(*arguments, **options)

    monkeypatch.setattr(worker, "train", fourth_time_lucky)
    spec = small(seeds=1, grid={"lam": [0.9]})
    store = tmp_path / "store"
    for attempts in (2, 3):
        report = run_sweep(spec, store, executor=Inline())
        assert len(calls) == attempts
        (trace,) = report.failures.values()
        assert "Traceback" in trace
        assert "RuntimeError: no luck" in trace
        assert len(list((store / "failures").iterdir())) == 1
    report = run_sweep(spec, store, executor=Inline())
    assert (report.failures, report.unfinished) == ({}, 0)
    assert list((store / "failures").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_same_again_goes_on(straight, tmp_path, monkeypatch, number, capfd):
    expected, store = outcomes(straight), tmp_path / "store"
    with monkeypatch.context() as patch:

        def stopped(*arguments, **options):
            signal.raise_signal(number)
            raise Interrupted(number, 0, None)

        patch.setattr(worker, "train", stopped)
        report = train_runs(RUNS, store, Inline(workers=1))
    assert (report.stopped_by, report.failures, report.unfinished) == (number, {}, 2)
    assert "once more stops at once" in capfd.readouterr().err
    assert sweep(store).stopped_by is None
    assert outcomes(store) == expected


def test_a_claim_keeps_others_out_until_its_owner_dies(tmp_path):
    store = Store(tmp_path / "store").create()
    first, second, third, fourth = resolve(small())
    code = f"""
import json, sys, time
from eligrad.sweeps.store import Store
from eligrad.sweeps.jobs import TaskResult
from eligrad.sweeps.jobs import Job
claim = Store({str(store.path)!r}).claim(Job.from_json(json.loads(sys.stdin.readline())))
print(len(claim.job.runs), flush=True)
time.sleep(600)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        taken = Job((first, second))
        owner.stdin.write(json.dumps(taken.to_json()) + "\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "2\n"
        assert store.claim(taken) is None
        assert store.is_claimed(taken.id)
        assert store.claim(Job((second,))) is None
        # Runs of others are left out of a claim.
        mine = store.claim(Job((second, third, fourth)))
        assert mine.job.runs == (third, fourth)
        mine.release()
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()
    assert not store.is_claimed(taken.id)
    left = store.claim(taken)
    assert left.job == taken
    left.release()


def test_waiting_for_runs_that_another_process_trains(tmp_path, monkeypatch):
    """A sweep ends when everything is there, whoever trained it."""
    store = Store(tmp_path / "store").create()
    runs = resolve(small())
    claim = store.claim(Job(tuple(runs[:2])))
    naps = []

    def sleep(seconds, real=time.sleep):
        naps.append(seconds)
        if len(naps) == 3:
            claim.release()  # the other one gave up
        real(0.01)

    monkeypatch.setattr("eligrad.sweeps.driver.time.sleep", sleep)
    executor = Inline()
    report = run_sweep(small(), store.path, executor=executor)
    assert report.unfinished == 0
    trained = [run.name for task in executor.tasks for run in task.job.runs]
    assert sorted(trained) == sorted(run.name for run in runs)
    assert len(naps) >= 3


def test_folders_that_are_no_stores(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match="is no store, and not empty"):
        run_sweep(small(), tmp_path, executor=Inline())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    later = Store(tmp_path / "later").create()
    (later.path / "store.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="the store has format 99"):
        run_sweep(small(), later.path, executor=Inline())
