"""Starts or continues the run that `eligrad train` asks for, and prints a table of returns."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import shlex
import sys
from pathlib import Path
from typing import Any

from jax.errors import JaxRuntimeError

from eligrad._base.checks import whole_number
from eligrad.cli.modules import look_here
from eligrad.cli.train import Train
from eligrad.engines import Diverged, EnvironmentFault, OutOfMemory, WorkerDied
from eligrad.engines.devices import (
    calling_thread,
    device_for_each_run,
    keep_compiled_programs,
    one_thread,
)
from eligrad.engines.trained import check_imported
from eligrad.envs import HostEnvironment
from eligrad.envs.names import is_gymnasium, module_of
from eligrad.runs.folder import RunFolder, RunInUseError
from eligrad.runs.plan import read_options, rollout_of, whole_rollouts
from eligrad.runs.summary import as_text
from eligrad.training import Interrupted, prepare, resume
from eligrad.training.callbacks import EvaluateEvery

_FAULTS = (
    EnvironmentFault, Diverged, WorkerDied, OutOfMemory, OSError, MemoryError, JaxRuntimeError,
)  # fmt: skip


def run(command: Train) -> int:
    """Trains as the options say, and prints the result or an error; returns the exit code."""
    folder = command.resume or command.out or _make_default_folder(command)
    try:
        device_for_each_run(command.seeds)
        if command.seeds == 1 and rollout_of(command.settings) == 1:
            if is_gymnasium(command.env):  # a compiled loop would not hear Ctrl-C
                calling_thread()
            one_thread()
        if command.cache:
            keep_compiled_programs()
        if command.resume is not None:
            made = resume(folder, steps=command.steps, **_how(command)).summary["steps"]
            if RunFolder(folder).config["sessions"][-1]["from_step"] == made:
                print(f"{folder} is finished; a larger --steps continues it")
        else:
            if command.config is not None:
                check_imported(command.env, command.config)
            elif module_of(command.env) is not None:
                look_here()
            _begin(command, folder)
    except Interrupted as stop:
        print(_report(folder))
        if stop.step < command.steps:
            print(
                f"\nstopped at step {stop.step:,} of {command.steps:,}; to continue:\n  "
                f"{_go_on(command, folder)}"
            )
        return 128 + stop.signal_number
    except _FAULTS as error:
        if command.debug or isinstance(error, BrokenPipeError):
            raise
        print(f"eligrad train: {str(error) or repr(error)}", file=sys.stderr)
        elsewhere = isinstance(error, (FileExistsError, RunInUseError))
        if not elsewhere and (folder / "config.json").is_file():
            print("to continue from the last checkpoint, once the cause is fixed:", file=sys.stderr)
            print(f"  {_go_on(command, folder)}", file=sys.stderr)
        return 2
    finally:
        if folder not in (command.resume, command.out):
            # Removed if it is empty.
            with contextlib.suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()
    print(_report(folder))
    return 0


def _go_on(command: Train, folder: Path) -> str:
    """The command that resumes a run."""
    module = module_of(command.env)
    # Only what the user types is imported, not what a file names.
    options = [] if module is None else ["--import", module]
    if command.eval_every is not None:
        options += ["--eval-every", str(command.eval_every)]
    for logger in command.logger:
        options += ["--logger", logger]
    return shlex.join(["eligrad", "train", "--resume", str(folder), *options])


def _begin(command: Train, folder: Path) -> None:
    if command.config is None:
        settings = command.chosen
        names = ("steps", "max_episode_steps", "chunk", "checkpoint_every", "info")
        options = {name: getattr(command, name) for name in names}
        options["seeds"] = range(command.seed, command.seed + command.seeds)
    else:
        options = read_options(command.config)
        settings = options.pop("settings")
        options["steps"] = command.steps
        options = {k: v for k, v in options.items() if k not in ("agent", "env")}
    steps = whole_number("steps", options["steps"])
    rollout = int(settings.get("rollout", rollout_of(command.settings)))
    if steps % rollout:
        print(
            f"{command.agent} learns from whole rollouts of {rollout:,} steps: --steps is rounded "
            f"up to {whole_rollouts(steps, rollout):,}"
        )
    session = prepare(
        command.agent, command.env, out=folder, **_how(command), **options, **settings
    )
    with contextlib.closing(session):
        if isinstance(session.env, HostEnvironment) and session.env.note is not None:
            print(session.env.note)
        session.run()


def _how(command: Train) -> dict[str, Any]:
    """The options that a new run and a resumed one have in common."""
    callbacks = [] if command.eval_every is None else [EvaluateEvery(command.eval_every)]
    options = {"processes": command.processes, "progress": command.progress}
    return options | {"loggers": command.logger, "callbacks": callbacks}


def _make_default_folder(command: Train) -> Path:
    """Makes a new folder under runs/, also if other commands start in the same second."""
    time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    env = command.env.replace("/", "-").replace(":", "-")
    for n in itertools.count(1):
        folder = Path("runs") / (f"{command.agent}-{env}-{time}" + (f"-{n}" if n > 1 else ""))
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")


def _report(folder: Path) -> str:
    """Returns the table of returns, the speed, and the paths of the results."""
    summary = RunFolder(folder).summary
    rate = summary["steps_per_second"]
    lines = [
        "",
        f"{summary['title']}: return of an episode after {summary['steps']:,} steps",
        "",
        as_text(summary),
        "",
        f"{rate:,.0f} steps/s, all seeds together; {summary['seconds']:.0f} s in all, about "
        f"{summary['startup_seconds']:.0f} s of them to compile" if rate else "no step taken",
        *(f"note:  {remark}" for remark in summary.get("remarks", [])),
        f"run:   {folder}",
    ]  # fmt: skip
    if (folder / "curve.png").exists():
        lines.append(f"curve: {folder / 'curve.png'}")
    return "\n".join(lines)
