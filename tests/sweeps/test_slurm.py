"""The SLURM executor, by submitit: on its local stand-in, and the script it would submit."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from eligrad.sweeps.driver import run_sweep
from eligrad.sweeps.executors import make_executor
from eligrad.sweeps.executors.slurm import Resumable, SlurmExecutor, SlurmOptions
from eligrad.sweeps.jobs import Job, Task
from eligrad.sweeps.resolve import resolve
from tests.sweeps.small_sweeps import Inline, outcomes, small, sweep_and_kill_a_worker

submitit = pytest.importorskip(
    "submitit", reason="submitit is not installed: pip install 'eligrad[executors]'"
)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # submitit's own
DOCS = Path(__file__).parents[2] / "docs" / "experiments.md"


@pytest.mark.nightly
def test_batch_jobs_train_what_one_process_does(tmp_path, quick_compilation):
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    spec = small(steps=1000)
    run_sweep(spec, undisturbed, executor=Inline())
    local = make_executor("slurm", 2, SlurmOptions(slurm_cluster="local"))
    report = run_sweep(spec, store, executor=local)
    assert (report.failures, report.unfinished) == ({}, 0)
    assert outcomes(store) == outcomes(undisturbed)


@pytest.mark.nightly
def test_a_killed_batch_job_costs_no_run(tmp_path, quick_compilation):
    undisturbed, store = tmp_path / "undisturbed", tmp_path / "store"
    spec = small(steps=3000)
    run_sweep(spec, undisturbed, executor=Inline())
    local = make_executor("slurm", 2, SlurmOptions(slurm_cluster="local"))
    report = sweep_and_kill_a_worker(spec, store, local, b"submitit.core._submit")
    assert (report.failures, report.unfinished) == ({}, 0)
    assert outcomes(store) == outcomes(undisturbed)


def test_a_job_at_its_time_limit_is_submitted_again(tmp_path):
    (run, *_) = resolve(small())
    task = Task(str(tmp_path), Job((run,)))
    again = Resumable().checkpoint(task)
    assert isinstance(again.function, Resumable)
    assert again.args == (task,)


def test_the_batch_script_is_the_one_in_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    executor = SlurmExecutor(None, SlurmOptions(slurm_partition="cpu", slurm_timeout_min=720))
    inner = executor.submitter(Path("runs/fig3-paper/slurm"))._executor
    script = inner._make_submission_file_text(inner._submitit_command_str, "…")
    script = re.sub(r"/sweep-\w+/", "/sweep-…/", script)
    for folder in (os.getcwd(), os.path.dirname(sys.executable), str(DOCS.parents[1])):
        script = script.replace(f"{folder}/", "")
    script = re.sub(r"(?<=core._submit ).*", "…", script)
    lines = script.splitlines()
    directives = [line for line in lines if line.startswith("#SBATCH")]
    assert "#SBATCH --partition=cpu" in directives
    assert "#SBATCH --cpus-per-task=1" in directives
    assert "#SBATCH --time=720" in directives
    (shown,) = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", DOCS.read_text(), re.S)
    assert shown.splitlines() == [line for line in lines if line]


def test_without_slurm_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="there is no srun on this machine"):
        make_executor("slurm")
