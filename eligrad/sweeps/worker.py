"""Trains one job of a sweep, from its checkpoint if it has one.

`python -P executors/safe_path.py -m eligrad.sweeps.worker` does so in a process of its own. It
reads a `Task` as JSON from standard input, saves and stops when that input ends, and prints a
`TaskResult` as JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import faulthandler
import json
import os
import shutil
import signal
import sys
import threading
import traceback
import warnings

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad.engines import keep_compiled_programs
from eligrad.envs.names import import_module_of
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.configuration import Configuration, Run
from eligrad.runs.folder import RunFolder
from eligrad.runs.records import DAMAGE
from eligrad.sweeps.jobs import Task, TaskResult
from eligrad.sweeps.spec import run_setup
from eligrad.sweeps.store import Claim, Store
from eligrad.training import Interrupted, resume, train

PATIENCE = 300.0
"""Seconds in which a worker must have saved and ended after the end of its driver."""
LONGEST = 20_000
"""Characters of a traceback that are kept."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that is full, or whose quota is used up."""


def work(task: Task) -> TaskResult:
    """Trains a job to its end and moves it to the finished runs of the store."""
    store = Store(task.store)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        result = _attempt(store, task)
    notes = []
    for warning in caught:
        if issubclass(warning.category, DamagedFileWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return dataclasses.replace(result, notes=tuple(notes))


def _attempt(store: Store, task: Task) -> TaskResult:
    claim = None
    try:
        claim = store.claim(task.job)
        if claim is None:
            return TaskResult("taken")
        try:
            run_setup(task.setup)
            _train(claim)
        except Exception as error:
            if getattr(error, "errno", None) in FULL:
                raise
            return _failed(store, claim)
        store.finish(claim)
        return TaskResult("finished")
    except Interrupted as stop:
        return TaskResult("stopped", str(stop))
    except OSError as error:
        if error.errno not in FULL:
            raise
        return TaskResult("disk full", f"{store.path}: {error.strerror}")
    finally:
        if claim is not None:
            claim.release()


def _failed(store: Store, claim: Claim) -> TaskResult:
    """Removes a job of several runs: one bad run must not stop the others, which begin anew."""
    trace = traceback.format_exc()
    if len(claim.job.runs) > 1:
        claim.release()
        store.drop(claim.job)
    return TaskResult("failed", trace)


def _train(claim: Claim) -> None:
    program, runs = claim.program, claim.job.runs
    shared = runs[0].configuration
    print(f"{len(runs)} runs of {shared.agent} on {shared.env}", file=sys.stderr, flush=True)
    if (program / "config.json").exists():
        try:
            _check_plan(claim)
            # The sweep asks for this environment, and not only a file.
            import_module_of(str(shared.env))
            resume(program)
            return
        except (CheckpointError, DamagedFileError) as error:
            aside = program.with_name("program.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            program.rename(aside)
            warnings.warn(f"{program}: {error}; beginning anew", DamagedFileWarning, stacklevel=2)
    else:  # an earlier process ended before it wrote the config
        shutil.rmtree(program, ignore_errors=True)
    settings = {}
    for name, first in shared.settings.items():
        each = [run.configuration.settings[name] for run in runs]
        # One value where all agree: settings that shape the program accept no list.
        settings[name] = first if all(value == first for value in each) else each
    train(
        str(shared.agent),
        str(shared.env),
        steps=shared.steps,
        seeds=[run.seed for run in runs],
        out=program,
        max_episode_steps=shared.max_episode_steps,
        env_params=shared.env_params,
        info=shared.info,
        **settings,
    )


def _check_plan(claim: Claim) -> None:
    """Raises `DamagedFileError` if a run folder is not about the runs of its job."""
    try:
        plan = RunFolder(claim.program).config["plan"]
        found = [Run(Configuration.of_plan(plan, i), seed) for i, seed in enumerate(plan["seeds"])]
        names = sorted(run.name for run in found)
    except DAMAGE as error:
        raise DamagedFileError(f"config.json is damaged: {error}") from error
    if names != sorted(run.name for run in claim.job.runs):
        raise DamagedFileError("config.json is damaged: it is not the job's")


def work_on_one_core(task: Task) -> TaskResult:
    """Trains a job on one core, in a process that has not used JAX before."""
    use_one_core()
    keep_compiled_programs()
    sys.path += [folder for folder in task.path if folder not in sys.path]
    return work(task)


def use_one_core() -> None:
    """Keeps XLA's CPU code from starting threads; has an effect before JAX is first used."""
    flag = "--xla_cpu_multi_thread_eigen=false"
    flags = os.environ.get("XLA_FLAGS", "")
    if flag not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()


def main() -> None:
    """Reads a task from standard input, trains it, and prints its result."""
    # What environments print must not mix with the result.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = Task.from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_stop_with_the_driver, daemon=True).start()
    result = work_on_one_core(task)
    # No more than a pipe holds, since the driver reads it after the end of this process.
    result = dataclasses.replace(result, message=result.message[-LONGEST:], notes=result.notes[:20])
    # A driver that was killed reads nothing; the store has what was trained.
    with contextlib.suppress(BrokenPipeError), output:
        output.write(json.dumps(dataclasses.asdict(result)))


def _stop_with_the_driver() -> None:
    """Standard input ends when the driver does, even if it is killed."""
    # Not sys.stdin, whose lock this thread would still hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    # An environment that hangs would keep the job locked.
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
