"""What a store of others, and the folder where a sweep is started, can make a sweep do."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eligrad
from eligrad._base.errors import DamagedFileError
from eligrad.runs.checksums import what_is_wrong
from eligrad.runs.configuration import Run
from eligrad.sweeps.driver import run_sweep, train_runs
from eligrad.sweeps.executors import local, make_executor, safe_path
from eligrad.sweeps.executors.slurm import SlurmOptions
from eligrad.sweeps.jobs import Job, Task
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.store import Store
from tests.sweeps.small_sweeps import Inline, outcomes, quick_training, small

__all__ = ["quick_training"]
WANTED = resolve(small(seeds=1))
EVIL = "evil_module:X-v0"


def renamed(run: Run, env: str) -> Run:
    """The same run in another environment."""
    return Run(dataclasses.replace(run.configuration, env=env), run.seed)


@pytest.fixture
def evil_module(tmp_path, monkeypatch):
    """A module that could be imported, and must not be."""
    (tmp_path / "evil_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "evil_module" not in sys.modules


@pytest.mark.usefixtures("evil_module", "quick_training")
@pytest.mark.parametrize("company", [[], WANTED[:1], WANTED])
def test_a_sweep_trains_only_what_it_asked_for(tmp_path, company):
    """Not a job of the store that names a module, alone or together with runs of the sweep."""
    store = Store(tmp_path / "store").create()
    planted = Job((renamed(WANTED[0], EVIL), *company))
    folder = store.path / "jobs" / planted.id
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(planted.to_json()))
    executor = Inline()
    report = train_runs(WANTED, store.path, executor)
    assert (report.failures, report.unfinished) == ({}, 0)
    assert {run.name for task in executor.tasks for run in task.job.runs} == {
        run.name for run in WANTED
    }


@pytest.mark.usefixtures("evil_module", "quick_training")
def test_a_plan_in_the_folder_of_a_job_is_not_followed(tmp_path):
    """The job is the sweep's own; what it would go on with is not."""
    run_sweep(small(seeds=1), tmp_path / "right", executor=Inline(workers=1))
    store = Store(tmp_path / "store").create()
    claim = store.claim(Job(tuple(WANTED)))
    claim.release()
    program = tmp_path / "store" / "jobs" / claim.job.id / "program"
    (finished,) = (tmp_path / "right" / "runs").iterdir()
    finished.rename(program)
    config = json.loads((program / "config.json").read_text())
    config["plan"]["env"] = EVIL
    del config["sha256"]
    (program / "config.json").write_text(json.dumps(config))
    report = train_runs(WANTED, store.path, Inline(workers=1))
    (note,) = report.notes
    assert "config.json is damaged: it is not the job's; beginning anew" in note
    assert report.unfinished == 0


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """The current folder, with files by the names of installed modules, which must not be imported.

    As by mistake, PYTHONPATH names it, too: by an empty entry.
    """
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("eligrad", "filelock", "importlib", "jax", "json", "ray", "runpy", "submitit"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    yield folder
    assert not (tmp_path / "executed").exists()


@pytest.mark.filterwarnings("ignore")  # submitit and Ray leave files open
@pytest.mark.usefixtures("hostile_folder")
@pytest.mark.parametrize("name", ["local", "slurm", pytest.param("ray", marks=pytest.mark.nightly)])
def test_workers_look_for_the_modules_of_the_sweep_and_for_no_others(name, tmp_path, monkeypatch):
    if name == "slurm":  # submitit's stand-in for a cluster starts a process of its own
        monkeypatch.delenv("PYTHONPATH")
    if name != "local":
        pytest.importorskip({"slurm": "submitit"}.get(name, name), reason="eligrad[executors]")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_module.py").write_text("raise RuntimeError('this is mine')")
    store = Store("store").create()
    options = SlurmOptions(slurm_cluster="local") if name == "slurm" else None
    executor = make_executor(name, 2, options)
    for env, path in (("my_module:A-v0", (str(tmp_path / "mine"),)), ("my_module:B-v0", ())):
        executor.start(Task("store", Job((renamed(WANTED[0], env),)), path=path))
    ended = []
    while len(ended) < 2:
        ended += executor.poll()
        time.sleep(0.05)
    executor.close()
    messages = {str(task.job.runs[0].configuration.env): each.message for task, each in ended}
    assert "RuntimeError: this is mine" in messages["my_module:A-v0"]
    assert "there is no 'my_module' to import" in messages["my_module:B-v0"]
    assert store.finished() == {}


@pytest.mark.usefixtures("hostile_folder")
def test_no_file_in_the_current_folder_says_whether_there_is_an_accelerator(monkeypatch):
    monkeypatch.setattr(local, "_plugin_packages", lambda: True)
    assert not local.has_accelerator()


@pytest.mark.usefixtures("hostile_folder")
def test_workers_use_the_eligrad_that_started_them(tmp_path):
    """It may be another one than that which Python would import."""
    script = Path(safe_path.__file__)
    copy = tmp_path / "another" / script.relative_to(Path(eligrad.__file__).parents[1])
    copy.parent.mkdir(parents=True)
    copy.write_text(script.read_text())
    (tmp_path / "another" / "eligrad" / "__init__.py").write_text("name = 'another'")
    program = "import eligrad, sys; print(eligrad.name, *sys.argv[1:])"
    command = [sys.executable, "-P", str(copy), "-u", "-c", program, "a", "-b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("another a -b\n", "")


@pytest.mark.usefixtures("quick_training")
def test_the_path_of_workers(tmp_path, monkeypatch):
    """That of the process that sweeps, where the sweep names a module; else nothing."""
    executor = Inline()
    train_runs(WANTED, tmp_path / "store", executor)
    assert {task.path for task in executor.tasks} == {()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    executor = Inline()
    named = [renamed(run, "tests.sweeps.small_sweeps:Test/Fragile-v0") for run in WANTED]
    train_runs(named, tmp_path / "store", executor)
    ((first, *others),) = {task.path for task in executor.tasks}
    assert first == os.getcwd()
    assert others == [os.path.abspath(folder) for folder in sys.path[1:]]
    assert Task.from_json(json.loads(json.dumps(executor.tasks[0].to_json()))) == executor.tasks[0]


def flips(content: bytes, every: int = 1):
    """The content with one of its bits flipped: each, or one out of so many."""
    for bit in range(0, 8 * len(content), every):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


@pytest.mark.parametrize("content", [None, b'{\n  "format": 1\n}\n'])
def test_every_flipped_bit_of_store_json_is_named(tmp_path, content):
    """Also in that of an earlier version, which has no checksum."""
    about = Store(tmp_path / "store").create().path / "store.json"
    for flipped in flips(content or about.read_bytes()):
        about.write_bytes(flipped)
        with pytest.raises(DamagedFileError, match=r"store\.json is damaged"):
            Store(tmp_path / "store").create()


@pytest.mark.usefixtures("quick_training")
def test_flipped_bits_of_checksums_json_are_noticed(tmp_path):
    train_runs(WANTED, tmp_path / "store", Inline(workers=1))
    (folder,) = (tmp_path / "store" / "runs").iterdir()
    assert what_is_wrong(folder) is None
    file = folder / "checksums.json"
    for flipped in flips(file.read_bytes(), every=7):
        file.write_bytes(flipped)
        assert what_is_wrong(folder) is not None


@pytest.mark.usefixtures("quick_training")
def test_a_store_that_an_earlier_version_began_goes_on_in_the_present_format(tmp_path):
    store = Store(tmp_path / "store").create()
    (store.path / "store.json").write_text('{"format": 1}')
    train_runs(WANTED, store.path, Inline(workers=1))
    assert json.loads((store.path / "store.json").read_text())["format"] == 2
    assert len(outcomes(store.path)) == 3 + 2


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_without_file_locks(tmp_path, monkeypatch, number):
    """Where the system has no flock at all, locks are files; else the store is refused."""

    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    if number == errno.ENOSYS:
        report = train_runs(WANTED, tmp_path / "store", Inline())
        assert (report.failures, report.unfinished) == ({}, 0)
        assert list((tmp_path / "store" / "jobs").iterdir()) == []
    else:
        with pytest.raises(OSError, match="store has no file locks, which the store of a sweep"):
            train_runs(WANTED, tmp_path / "store", Inline())


@pytest.mark.parametrize("name", ["runs", "jobs", "failures", "logs"])
def test_a_link_in_a_store_reaches_no_other_folder(tmp_path, name):
    (tmp_path / "precious" / "thesis").mkdir(parents=True)
    store = Store(tmp_path / "store").create()
    (store.path / name).rmdir()
    (store.path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(DamagedFileError, match=f"{name} is a link to .*precious"):
        run_sweep(small(), store.path, executor=Inline())
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["thesis"]


def test_a_log_is_written_to_no_link_and_to_no_pipe(tmp_path):
    store = Store(tmp_path / "store").create()
    link, pipe = (Job((run,)) for run in WANTED)
    (tmp_path / "profile").write_text("mine")
    (store.path / "logs" / f"{link.id}.log").symlink_to(tmp_path / "profile")
    os.mkfifo(store.path / "logs" / f"{pipe.id}.log")
    for job in (link, pipe):
        with pytest.raises(OSError, match=job.id):
            store.open_log(job)
