"""The training loop: advances an engine by chunks, and writes metrics and checkpoints between."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
from jax.errors import JaxRuntimeError

from eligrad._base.interruption import Interrupted, Interruption
from eligrad.agents.protocol import Agent
from eligrad.engines.devices import compile_seconds, return_freed_memory
from eligrad.engines.engine import Engine
from eligrad.engines.episodes import Record
from eligrad.engines.faults import EnvironmentFault, chunk_failed
from eligrad.engines.simulators import HostEngine
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.spaces import space_to_json
from eligrad.runs import plot as figure
from eligrad.runs.checkpoint import CheckpointError
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import Tables, tables_of_chunk, with_metrics
from eligrad.runs.plan import Plan, env_seeds
from eligrad.runs.provenance import provenance
from eligrad.runs.summary import summarise
from eligrad.training.build import title
from eligrad.training.loggers import Loggers, Subject
from eligrad.training.progress import Progress


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a training."""

    agent: Agent
    state: Any
    """The last state of all runs; `state.agent` is that of the agents."""
    episodes: pa.Table
    """Columns run, seed, step, return, length; `.to_pandas()` makes a data frame of it."""
    chunks: pa.Table
    summary: dict[str, Any]
    folder: Path | None


Callback = Callable[["Session"], bool | Mapping[str, Any] | None]
"""Called after each chunk. Training ends where it returns False; a dict of numbers that it returns
becomes metrics of that chunk."""


class Session:
    """One session of one run; `run` may be called again, with more steps in the plan.

    Args:
        plan: what to train.
        agent: the agent of the plan.
        env: the environment of the plan.
        engine: the loop that steps the agent and the environment.
        folder: where to write the run; None: nowhere.
        progress: whether to draw a progress bar.
        loggers: names of programs to send the metrics to.
        callbacks: each gets the session after each chunk; one that returns False ends training.
    """

    def __init__(
        self,
        plan: Plan,
        agent: Agent,
        env: Environment | HostEnvironment,
        engine: Engine,
        folder: RunFolder | None = None,
        progress: bool = False,
        loggers: Sequence[str] = (),
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.plan, self.agent, self.env, self.folder = plan, agent, env, folder
        self.title = title(plan, env)
        self.show_progress = progress
        self.logger_names, self.loggers = loggers, Loggers()
        self.callbacks = as_callbacks(callbacks)
        pa.array(np.zeros(1))  # the first one imports pandas, which is no time of training
        self.engine = engine
        self.restored = False
        self.chunks, self.clock, self._compiled = 0, 0.0, 0.0
        self.step, self.saved_step = 0, 0
        self.columns: dict[str, np.ndarray] = {}
        self.saved, self.unsaved = list[Tables](), list[Tables]()

    @property
    def config(self) -> dict[str, Any]:
        """What the folder's `config.json` says of the run itself."""
        actions = space_to_json(self.env.action_space)
        return {"plan": self.plan.to_json(), "actions": actions}

    def run(self) -> Result:
        """Trains to the end of the plan, or until a signal or a callback says so."""
        self._start_clock()  # what the caller did since the last call is no time of training
        # Before the first file is written: after every signal the message names the run.
        locked = contextlib.nullcontext() if self.folder is None else self.folder.locked()
        with Interruption() as interruption, locked:
            if self.folder is not None and not self.restored:
                self._restore(self.folder)
            elif self.folder is not None:  # the plan may have grown
                self.folder.write_config(self.folder.config | self.config)
            self.restored = True
            runs, steps = self.engine.count, self.plan.steps
            with Progress(self.title, runs, steps, self.step, self.show_progress) as bar:
                wanted = True
                while wanted and self.step < steps and interruption.signal_number is None:
                    self._advance(bar)
                    try:
                        wanted = self._call_back()
                    finally:  # a callback that fails loses nothing
                        self.loggers.write(self.unsaved[-1], self.step)
                        if self.step % self.plan.checkpoint_every == 0:
                            self._save()
                self._save()
                result = self._conclude()
        # In the last chunk, too: the caller may have more to stop than this run.
        if interruption.signal_number is not None:
            raise Interrupted(interruption.signal_number, self.step, result.folder)
        return result

    def tables(self) -> Tables:
        """All metrics so far."""
        return Tables.join([*self.saved, *self.unsaved])

    def close(self) -> None:
        """Frees what the engine and the loggers hold."""
        self.loggers.close()
        self.engine.close()

    def _restore(self, folder: RunFolder) -> None:
        previous = folder.config if (folder.path / "config.json").exists() else {"sessions": []}
        step, state = folder.restore(self.engine.state)
        if step > self.plan.steps:
            raise ValueError(
                f"steps is {self.plan.steps}, but {folder.path} is at step {step} already"
            )
        self.go_on_from(step, state, folder.checkpoint_at(step))
        self.saved = [folder.tables()]
        session = provenance() | {"from_step": self.step}
        if folder.lost:
            session["lost_metrics"] = folder.lost
        folder.write_config(self.config | {"sessions": [*previous["sessions"], session]})
        self.loggers.open(
            self.logger_names, Subject(folder.path, self.title, folder.config, self.step)
        )

    def go_on_from(self, step: int, state: Any, path: Path) -> None:
        """Takes the state of a step that was saved to a file; errors name the file."""
        try:
            self.engine.state = state
        except ValueError as error:  # its simulators are not those at hand
            raise CheckpointError(f"{path} cannot be restored: {error}") from error
        self.step = self.saved_step = step
        if step and isinstance(self.engine, HostEngine) and not self.engine.state.simulators:
            warnings.warn(
                f"the state of {self.env.name!r} cannot be restored ({self.engine.obstacle}); "
                "all runs continue in new episodes",
                stacklevel=4,
            )
            self.engine.interrupt(env_seeds(self.plan.seeds, step))

    def _advance(self, bar: Progress) -> None:
        """One chunk; chunks end at the same steps however often a run was stopped."""
        start_step = self.step
        steps = min(self.plan.chunk - start_step % self.plan.chunk, self.plan.steps - start_step)
        startup = 0.0
        if not self.chunks:  # until now, an engine and a folder were made
            startup = time.perf_counter() - self.clock
            self._compiled = compile_seconds()
        try:
            record = self.engine.advance(steps)
            _wait(record)
            self._check_faults(record)
        except (MemoryError, JaxRuntimeError) as error:
            raise chunk_failed(
                error, self.env.name, (start_step + 1, start_step + steps)
            ) from error
        if not self.chunks:  # all programs are made
            return_freed_memory()
        self.chunks += 1
        self.step += steps
        # All time is some chunk's: that of making the engine, too, of callbacks and writing files.
        seconds, compiling = self._start_clock()
        startup += compiling
        # In one layout, whatever the engine: the order of a sum decides its last bit.
        metrics = {name: np.ascontiguousarray(values) for name, values in record.metrics.items()}
        columns = self.agent.report(metrics) | (record.info or {})
        diverged = self.agent.diverged(metrics)
        tables = tables_of_chunk(
            record, columns, diverged, self.plan.seeds, start_step, seconds, startup
        )
        self.columns = columns
        self.unsaved.append(tables)
        shown = {name: float(np.mean(columns[name])) for name in self.agent.progress_metrics}
        bar.advance(steps, tables, shown)

    def _start_clock(self) -> tuple[float, float]:
        """Returns the seconds since the last call, and those of them spent on compiling."""
        clock, compiled = self.clock, self._compiled
        self.clock, self._compiled = time.perf_counter(), compile_seconds()
        return self.clock - clock, self._compiled - compiled

    def _call_back(self) -> bool:
        """Calls all callbacks and keeps their metrics; returns whether training continues."""
        answers = [callback(self) for callback in self.callbacks]
        for answer in answers:
            if isinstance(answer, Mapping):
                self.unsaved[-1] = with_metrics(self.unsaved[-1], answer)
            elif answer is not None and (np.ndim(answer) or np.asarray(answer).dtype != bool):
                raise TypeError(
                    f"a callback returned {answer!r}; None, True or False (to end training), or a "
                    "dict of metrics is accepted"
                )
        return all(each is None or isinstance(each, Mapping) or each for each in answers)

    def _check_faults(self, record: Record) -> None:
        steps = np.asarray(self.engine.fault_step)
        faulty = np.flatnonzero(steps >= 0)
        if not faulty.size:
            return
        run = faulty[np.argmin(steps[faulty])]
        returns = np.asarray(record.episode_return)[run, : max(0, steps[run] - self.step)]
        wrong = returns[~np.isfinite(returns)]
        culprit = f"a reward ({wrong[0]})" if wrong.size else "an observation"
        kept = ""
        if self.folder is not None and self.saved_step:
            kept = f"; the checkpoint of step {self.saved_step:,} is kept in {self.folder.path}"
        raise EnvironmentFault(
            f"{self.env.name!r} gave {culprit} that is not finite, to seed "
            f"{self.plan.seeds[run]} at step {steps[run]:,}{kept}"
        )

    def _save(self) -> None:
        if self.saved_step == self.step:
            return
        tables = Tables.join(self.unsaved)
        if self.folder is not None:
            self.folder.save(self.step, self.engine.state, tables, self.config)
        # As they are: joined, all rows of the run would be copied each time.
        self.saved_step, self.saved, self.unsaved = self.step, [*self.saved, tables], []
        return_freed_memory()

    def _conclude(self) -> Result:
        tables = self.tables()
        summary = summarise(tables, self.plan.seeds, self.step) | {
            "title": self.title,
            "finished": self.step == self.plan.steps,
            "remarks": self.agent.remarks(self.columns) if self.columns else [],
        }
        result = Result(
            agent=self.agent,
            state=self.engine.state,
            episodes=tables.episodes,
            chunks=tables.chunks,
            summary=summary,
            folder=None if self.folder is None else self.folder.path,
        )
        if self.folder is not None:
            self.folder.write_summary(summary)
            if self.step:
                figure.draw(tables, self.plan.seeds, self.step, self.title, self.folder.curve)
        return result


def as_callbacks(callback: Any) -> list[Callback]:
    """One callback, or several, or None, as a list; raises TypeError for what is none."""
    several = isinstance(callback, Sequence)
    given = list(callback) if several else [] if callback is None else [callback]
    for each in given:
        if not callable(each) or isinstance(each, type):
            raise TypeError(
                f"callback is {each!r}; functions of the session are accepted, or objects such as "
                "StopAtReturn(1.0)"
            )
    metrics = [each.metric for each in given if hasattr(each, "metric")]
    for metric in metrics:
        if metrics.count(metric) > 1:
            raise ValueError(
                f"several callbacks have the metric {metric!r}; one is accepted: give another "
                "metric= to the others"
            )
    return given


def _wait(arrays: Any) -> None:
    """Waits for JAX arrays and handles signals meanwhile."""
    pending: list[Any] = [leaf for leaf in jax.tree.leaves(arrays) if isinstance(leaf, jax.Array)]
    while not all(leaf.is_ready() for leaf in pending):
        time.sleep(0.001)
