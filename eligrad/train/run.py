"""Training from the host: chunk after chunk of an engine, with everything written down between.

`train` begins a run and `resume` goes on with one; the command line does nothing else.
"""

from __future__ import annotations

import dataclasses
import operator
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eligrad.agents import PRESETS, ActorCritic, QLambda, QLambdaConfig
from eligrad.envs import HostEnvironment
from eligrad.rules import _checks as check
from eligrad.train import figure
from eligrad.train import plan as planning
from eligrad.train.crew import Crew
from eligrad.train.engines import Engine, make_engine
from eligrad.train.faults import EnvironmentFault
from eligrad.train.folder import RunFolder
from eligrad.train.interruption import Interrupted, Interruption, wait
from eligrad.train.metrics import EpisodeRecord, Tables, tables_of_chunk
from eligrad.train.plan import Agent, Plan, World
from eligrad.train.platform import cores
from eligrad.train.progress import Progress
from eligrad.train.provenance import provenance
from eligrad.train.simulators import HostEngine
from eligrad.train.sinks import Sinks, Subject, check_sinks
from eligrad.train.summary import summarise


@dataclasses.dataclass(frozen=True)
class Result:
    """What training leaves behind."""

    agent: Agent
    state: Any
    """The last state of all runs; `state.agent` is that of the agents."""
    episodes: pa.Table
    """Columns run, seed, step, return, length; `.to_pandas()` makes a data frame of it."""
    chunks: pa.Table
    summary: dict[str, Any]
    folder: Path | None


def train(
    agent: str | Agent,
    env: str | World,
    *,
    steps: int | float,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    exploration_fraction: float = 0.2,
    max_episode_steps: int | None = None,
    env_params: dict[str, Any] | None = None,
    chunk: int | None = None,
    checkpoint_every: int | None = None,
    processes: int | None = 1,
    progress: bool = False,
    sinks: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Trains `seeds` copies of an agent for `steps` environment steps each.

    `agent` is a name of `eligrad.agents.PRESETS`, with any field of its config to be changed given
    by keyword (`lam=0.9`), or an agent of your own. `seeds` is their number or a list of them. A
    setting that is a number may be a list with a value for each of these: all runs are one program,
    whatever their settings. ε falls over `exploration_fraction` of the steps, unless
    `exploration_steps` is given. Agents that learn from rollouts end with a whole one.
    With `out` the run is written to that new folder; an interrupted one goes on with `resume`.
    Runs in environments outside JAX may be shared out among `processes` (None: one for each core)
    by a script that guards its main part with `if __name__ == "__main__"`.
    `sinks` ("tensorboard", "wandb") get every chunk's metrics too.

    The first Ctrl-C or SIGTERM ends training after the present chunk, saves, and raises
    `Interrupted`, which is a KeyboardInterrupt.
    """
    if not isinstance(agent, (str, QLambda, ActorCritic)):
        raise TypeError(f"agent is a {type(agent).__name__}; a name or an agent is accepted")
    check.within("exploration_fraction", exploration_fraction, 0.0, 1.0)
    check_sinks(sinks, None if out is None else Path(out))
    steps = planning.whole_number("steps", steps)
    if isinstance(seeds, Sequence | np.ndarray):
        each = [operator.index(seed) for seed in seeds]
    else:
        each = list(range(operator.index(seeds)))
    world = planning.make_world(env, max_episode_steps)
    if isinstance(agent, str):
        if isinstance(PRESETS.get(agent), QLambdaConfig):
            settings = {"exploration_steps": exploration_fraction * steps} | settings
        settings = planning.make_settings(agent, settings, len(each))
        made = planning.make_agent(agent, settings, world)
    elif settings:
        raise ValueError(f"{sorted(settings)} go with an agent's name; set them in its config")
    else:
        made, settings = agent, planning.settings_of(agent.config)
        if isinstance(made, QLambda):
            planning.number_of_actions(world)
    rollout = settings.get("rollout", 1)
    steps = planning.whole_rollouts(steps, rollout)
    if chunk is not None:
        chunk = min(planning.whole_number("chunk", chunk), steps)
    else:
        chunk = planning.chunk_for(steps, rollout)
    if checkpoint_every is not None:
        checkpoint_every = planning.whole_number("checkpoint_every", checkpoint_every)
    plan = Plan(
        agent=agent if isinstance(agent, str) else None,
        settings=settings,
        env=env if isinstance(env, str) else None,
        max_episode_steps=max_episode_steps,
        env_params=env_params or {},
        seeds=each,
        steps=steps,
        chunk=chunk,
        checkpoint_every=checkpoint_every or planning.checkpoint_every_for(steps, chunk),
    )
    params = planning.make_params(world, plan.env_params)
    folder = None if out is None else RunFolder.create(Path(out))
    engine = _make_engine(plan, made, world, params, processes)
    return _Training(plan, made, world, engine, folder, progress, sinks).run()


def resume(
    run: str | Path,
    *,
    steps: int | float | None = None,
    agent: Agent | None = None,
    env: World | None = None,
    processes: int | None = 1,
    progress: bool = False,
    sinks: Sequence[str] = (),
) -> Result:
    """Goes on with a run from its last checkpoint as if it had never stopped.

    `steps` is a new total. An agent or environment that was made by hand must be given again. Some
    simulators outside JAX do not tell their state (Atari's, for one): their runs go on in new
    episodes, with a warning.
    """
    folder = RunFolder.open(Path(run))
    check_sinks(sinks, folder.path)
    plan = Plan(**folder.config["plan"])
    if steps is not None:
        steps = planning.whole_rollouts(planning.whole_number("steps", steps), plan.rollout)
        # A run that grows is saved more seldom, not more often.
        every = max(plan.checkpoint_every, planning.checkpoint_every_for(steps, plan.chunk))
        plan = dataclasses.replace(plan, steps=steps, checkpoint_every=every)
    for what, name, given in (("agent", plan.agent, agent), ("environment", plan.env, env)):
        if (name is None) != (given is not None):
            how = "made by hand: pass it again" if name is None else f"{name!r}: pass no other"
            raise ValueError(f"the {what} of {folder.path} was {how}")
    world = env if env is not None else planning.make_world(str(plan.env), plan.max_episode_steps)
    made = agent
    if made is None:
        made = planning.make_agent(str(plan.agent), plan.settings, world)
    params = planning.make_params(world, plan.env_params)
    engine = _make_engine(plan, made, world, params, processes)
    return _Training(plan, made, world, engine, folder, progress, sinks).run()


class _Training:
    """One session of one run."""

    def __init__(
        self,
        plan: Plan,
        agent: Agent,
        env: World,
        engine: Engine,
        folder: RunFolder | None,
        progress: bool,
        sinks: Sequence[str],
    ) -> None:
        self.plan, self.agent, self.env, self.folder = plan, agent, env, folder
        self.title = planning.title(plan, env)
        self.show_progress = progress
        self.sink_names, self.sinks = sinks, Sinks()
        self.config: dict[str, Any] = {"plan": dataclasses.asdict(plan)}
        self.clock = time.perf_counter()
        self.engine = engine
        self.seconds: list[float] = []
        self.step, self.saved_step = 0, 0
        self.saved, self.unsaved = Tables.join([]), list[Tables]()

    def run(self) -> Result:
        """Trains to the end, or until a signal."""
        try:
            if self.folder is not None:
                self._restore(self.folder)
            with (
                Interruption() as interruption,
                Progress(
                    self.title, self.engine.count, self.plan.steps, self.step, self.show_progress
                ) as bar,
            ):
                while self.step < self.plan.steps and interruption.signal_number is None:
                    self._advance(bar)
                    if self.step % self.plan.checkpoint_every == 0:
                        self._save()
                self._save()
                result = self._conclude()
        finally:
            self.sinks.close()
            self.engine.close()
        if interruption.signal_number is not None and self.step < self.plan.steps:
            raise Interrupted(interruption.signal_number, self.step, result.folder)
        return result

    def _restore(self, folder: RunFolder) -> None:
        begun = folder.config if (folder.path / "config.json").exists() else {"sessions": []}
        self.step, self.engine.state = folder.restore(self.engine.state)
        if self.step > self.plan.steps:
            raise ValueError(
                f"steps is {self.plan.steps}, but {folder.path} is at step {self.step} already"
            )
        if self.step and isinstance(self.engine, HostEngine) and not self.engine.state.simulators:
            warnings.warn(
                f"the state of {self.env.name!r} cannot be restored ({self.engine.obstacle}); "
                "all runs go on in new episodes",
                stacklevel=3,
            )
            self.engine.interrupt(planning.env_seeds(self.plan.seeds, self.step))
        self.saved_step, self.saved = self.step, folder.tables()
        session = provenance() | {"from_step": self.step}
        folder.write_config(self.config | {"sessions": [*begun["sessions"], session]})
        self.sinks.open(self.sink_names, Subject(folder.path, self.title, folder.config, self.step))

    def _advance(self, bar: Progress) -> None:
        """One chunk; chunks end at the same steps however often a run was stopped."""
        begun_at = self.step
        steps = min(self.plan.chunk - begun_at % self.plan.chunk, self.plan.steps - begun_at)
        record = self.engine.advance(steps)
        wait(record)
        self._check_faults(record)
        self.step += steps
        # All time is some chunk's: that of making the engine, too, and of writing files.
        self.clock, before = time.perf_counter(), self.clock
        self.seconds.append(seconds := self.clock - before)
        measured = self.engine.measure(record)
        tables = tables_of_chunk(record, measured, self.plan.seeds, begun_at, seconds)
        self.unsaved.append(tables)
        self.sinks.write(tables, self.step)
        bar.advance(steps, tables, measured.headline)

    def _check_faults(self, record: EpisodeRecord) -> None:
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
        self.saved_step, self.saved, self.unsaved = self.step, Tables.join([self.saved, tables]), []

    def _conclude(self) -> Result:
        summary = summarise(self.saved, self.plan.seeds, self.step) | {
            "title": self.title,
            "finished": self.step == self.plan.steps,
            "startup_seconds": self._startup_seconds(),
        }
        result = Result(
            agent=self.agent,
            state=self.engine.state,
            episodes=self.saved.episodes,
            chunks=self.saved.chunks,
            summary=summary,
            folder=None if self.folder is None else self.folder.path,
        )
        if self.folder is not None:
            self.folder.write_summary(summary)
            if self.step:
                figure.draw(self.saved, self.plan.seeds, self.step, self.title, self.folder.curve)
        return result

    def _startup_seconds(self) -> float:
        """Compiling, for the most part: what the first chunk took longer than the others."""
        first, *others = self.seconds or [0.0]
        return max(0.0, first - float(np.median(others or [0.0])))


def _make_engine(
    plan: Plan, agent: Agent, env: World, params: Any, processes: int | None
) -> Engine:
    """The engine of a plan, in as many processes as asked for and of use."""
    shareable = isinstance(env, HostEnvironment) and None not in (plan.agent, plan.env)
    if processes is None:
        processes = cores() if shareable else 1
    processes = min(planning.whole_number("processes", processes), len(plan.seeds))
    if processes == 1:
        return make_engine(agent, env, params, plan.seeds)
    if not shareable:
        raise ValueError(
            f"processes is {processes}; more than 1 is for an agent and an environment given by "
            "name, and for environments outside JAX (others use all cores as it is)"
        )
    return Crew(plan, processes, agent, env)
