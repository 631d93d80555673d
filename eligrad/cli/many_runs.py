"""What `eligrad sweep`, `two-stage` and `reproduce` have in common."""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import tyro

from eligrad._base.system import environment_variable
from eligrad._base.text import printable
from eligrad.cli import messages
from eligrad.cli.modules import look_here
from eligrad.sweeps.executors import EXECUTORS, checked_executor, executor_class, make_executor

if TYPE_CHECKING:
    from eligrad.runs.configuration import Run
    from eligrad.sweeps.driver import Report
    from eligrad.sweeps.executors import Executor
    from eligrad.sweeps.spec import Spec

    ExecutorOptions = Any
else:
    ExecutorOptions = dataclasses.make_dataclass(
        "ExecutorOptions",
        [(name, tyro.conf.OmitArgPrefixes[executor_class(name).Options]) for name in EXECUTORS],
        frozen=True,
    )


def _default_options() -> Any:
    return cast(Any, ExecutorOptions)(*(executor_class(name).Options() for name in EXECUTORS))


@dataclasses.dataclass(frozen=True)
class Training:
    """How runs are trained."""

    executor: str = "local"
    """local: processes of this machine; ray: a Ray cluster; slurm: batch jobs, by submitit."""
    workers: int | None = None
    """Jobs at once: by default one for each core if memory allows, or one on a GPU."""
    options: tyro.conf.OmitArgPrefixes[ExecutorOptions] = dataclasses.field(
        default_factory=_default_options
    )
    progress: bool = True
    """Whether to draw a progress bar."""
    debug: bool = False
    """Whether to show where in the program an error occurred."""

    def make_executor(self) -> Executor:
        """The executor that the options ask for."""
        options = getattr(self.options, self.executor, None)
        return make_executor(self.executor, self.workers, options)


def run(command: str, training: Training, train: Callable[[], int]) -> int:
    """Calls `train` and returns its exit code; prints errors as one line, unless for debugging."""

    def checked() -> int:
        checked_executor(training.executor, training.workers)
        return train()

    return messages.run(command, checked, debug=training.debug)


def read_spec(path: Path) -> Spec:
    """The spec of a file; modules that it names may be in the current folder."""
    from eligrad.envs.names import module_of
    from eligrad.sweeps import spec as specs

    if path.suffix == ".py":
        look_here()
    # A Python file may import JAX.
    with environment_variable("JAX_PLATFORMS", "cpu"):
        spec = specs.read_spec(path)
    modules = {module_of(env) for part in spec.parts for env in part.envs} - {None}
    if any(importlib.util.find_spec(str(each).partition(".")[0]) is None for each in modules):
        look_here()
    return spec


def resolve(spec: Spec) -> list[Run]:
    """All runs of a spec; JAX uses only the CPU from now on."""
    from eligrad.sweeps import resolve

    resolve.named_runs(spec)  # JAX is loaded here, and not for a mistake in the file
    import jax

    # Workers train in processes of their own: this one must not take an accelerator.
    jax.config.update("jax_platforms", "cpu")
    return resolve.resolve(spec)


def print_report(
    report: Report, command: list[str], store: Path | None, *, table: bool = True
) -> int:
    """Prints the result of a sweep; returns the exit code: 1 if runs failed, 130 after Ctrl-C.

    Args:
        report: The result.
        command: The words of the command after `eligrad`, without the store.
        store: The store, if the user named one.
        table: Whether to print a row for each configuration.
    """
    for note in report.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    if table:
        from eligrad.sweeps.table import as_text

        print(as_text(report))
    for name, trace in report.failures.items():
        print(f"\n{name} failed:\n{trace.rstrip()}", file=sys.stderr)
    if report.failures:
        count = len(report.failures)
        print(f"\n{count} of {len(report.runs)} runs failed; see above", file=sys.stderr)
    if report.stopped_by is not None:
        option = [] if store is None else ["--store", str(store)]
        again = shlex.join(["eligrad", *command, *option])
        print(f"\nstopped; {report.unfinished} runs are left. To continue:\n  {again}")
        return 128 + report.stopped_by
    return 1 if report.failures else 0
