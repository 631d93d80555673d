"""What a worker does with a job: claim it, train it, move it to the finished runs.

`python -m eligrad.sweeps.worker` is the same as a process of its own: it reads a task from its
standard input as JSON, stops and saves when that input ends, and prints the outcome as JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import signal
import sys
import threading
import traceback
import warnings
from typing import Any, Literal

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad.engines import keep_compiled_programs
from eligrad.envs.names import import_module_of
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.configuration import Configuration, Run
from eligrad.runs.folder import RunFolder
from eligrad.sweeps.jobs import Job
from eligrad.sweeps.spec import run_setup
from eligrad.sweeps.store import Claim, Store
from eligrad.training import Interrupted, resume, train

LONGEST = 20_000
"""Characters of a traceback that are kept."""
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclasses.dataclass(frozen=True)
class Task:
    """A job, and where to train it."""

    store: str
    job: Job
    setup: str | None = None
    """A Python file to run first."""
    path: tuple[str, ...] = ()
    """Folders to look for modules in, after all that are installed."""

    def to_json(self) -> dict[str, Any]:
        """JSON values, for another process."""
        return vars(self) | {"job": self.job.to_json()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Task:
        """What `to_json` gave."""
        job, path = Job.from_json(content["job"]), tuple(content["path"])
        return cls(**content | {"job": job, "path": path})


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a task ended."""

    kind: Literal["finished", "taken", "stopped", "failed", "died", "full"]
    """`taken`: somebody else has it; `stopped`: by a signal, and saved; `died`: without a word;
    `full`: there is no space left to write to."""
    message: str = ""
    """A traceback, or what is known of the end."""
    notes: tuple[str, ...] = ()
    """What the user should hear of nevertheless, such as damaged files."""


def work(task: Task) -> Outcome:
    """Trains a job to its end, from wherever it was left, and delivers its runs."""
    store = Store(task.store)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        outcome = _attempt(store, task)
    notes = []
    for warning in caught:
        if issubclass(warning.category, DamagedFileWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return dataclasses.replace(outcome, notes=tuple(notes))


def _attempt(store: Store, task: Task) -> Outcome:
    claim = None
    try:
        claim = store.claim(task.job)
        if claim is None:
            return Outcome("taken")
        try:
            run_setup(task.setup)
            _train(claim)
        except OSError as error:
            if error.errno in FULL:
                raise
            return _failed(store, claim)
        except Exception:
            return _failed(store, claim)
        store.finish(claim)
        return Outcome("finished")
    except Interrupted as stop:
        return Outcome("stopped", str(stop))
    except OSError as error:
        if error.errno not in FULL:
            raise
        return Outcome("full", f"{store.path}: {error.strerror}")
    finally:
        if claim is not None:
            claim.release()


def _failed(store: Store, claim: Claim) -> Outcome:
    """Removes a job of several runs: one bad run must not stop the others, which begin anew."""
    trace = traceback.format_exc()
    if len(claim.job.runs) > 1:
        claim.release()
        store.drop(claim.job)
    return Outcome("failed", trace)


def _train(claim: Claim) -> None:
    program, runs = claim.program, claim.job.runs
    shared = runs[0].configuration
    print(f"{len(runs)} runs of {shared.agent} on {shared.env}", file=sys.stderr, flush=True)
    if (program / "config.json").exists():
        try:
            _check_plan(claim)
            # The job itself asks for it, and not only a file.
            import_module_of(str(shared.env))
            resume(program)
            return
        except (CheckpointError, DamagedFileError, KeyError, IndexError) as error:
            aside = program.with_name("program.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            program.rename(aside)
            warnings.warn(f"{program}: {error}; beginning anew", DamagedFileWarning, stacklevel=2)
    else:  # a first attempt that did not get as far as that
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
        **settings,
    )


def _check_plan(claim: Claim) -> None:
    """Refuses a program that is not about the runs of its job."""
    plan = RunFolder(claim.program).config["plan"]
    found = [Run(Configuration.of_plan(plan, i), seed) for i, seed in enumerate(plan["seeds"])]
    if sorted(run.name for run in found) != sorted(run.name for run in claim.job.runs):
        raise CheckpointError("config.json is damaged: it is not the job's")


def work_on_one_core(task: Task) -> Outcome:
    """The same in a process that has not used JAX yet, and may share its machine."""
    use_one_core()
    keep_compiled_programs()
    sys.path += [folder for folder in task.path if folder not in sys.path]
    return work(task)


def use_one_core() -> None:
    """Keeps XLA's CPU code from starting threads of its own; before JAX is first used."""
    flag = "--xla_cpu_multi_thread_eigen=false"
    flags = os.environ.get("XLA_FLAGS", "")
    if flag not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()


def main() -> None:
    """A worker process: a task on standard input, its outcome on standard output."""
    # What environments print must not mix with the outcome.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = Task.from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_stop_with_the_driver, daemon=True).start()
    outcome = work_on_one_core(task)
    # No more than a pipe holds, since nobody reads before the end.
    outcome = dataclasses.replace(
        outcome, message=outcome.message[-LONGEST:], notes=outcome.notes[:20]
    )
    # A driver that was killed does not listen any more; what was done is in the store.
    with contextlib.suppress(BrokenPipeError), answer:
        answer.write(json.dumps(dataclasses.asdict(outcome)))


def _stop_with_the_driver() -> None:
    """Standard input ends when the driver does, even if it is killed."""
    # Not sys.stdin, whose lock this thread would still hold when the interpreter ends.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
