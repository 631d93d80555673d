"""Runs begun and gone on with: `train` and `resume`; the command line does nothing else."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from eligrad._base.checks import whole_number
from eligrad._machine import cores
from eligrad.agents import PRESETS, ActorCritic, QLambda, QLambdaConfig
from eligrad.engines.engine import Engine, make_engine
from eligrad.engines.multiprocess import Crew
from eligrad.envs import HostEnvironment
from eligrad.rules import _checks as check
from eligrad.runs import config as planning
from eligrad.runs.config import Agent, Plan, World
from eligrad.runs.fit import check_networks
from eligrad.runs.folder import RunFolder
from eligrad.training.loggers import check_sinks
from eligrad.training.session import Callback, Result, Session

Arguments = ParamSpec("Arguments")


def prepare(
    agent: str | Agent,
    env: str | World | Callable[..., Any],
    *,
    steps: int | float,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    exploration_fraction: float = planning.EXPLORATION_FRACTION,
    max_episode_steps: int | None = None,
    env_params: dict[str, Any] | None = None,
    chunk: int | None = None,
    checkpoint_every: int | None = None,
    processes: int | None = 1,
    progress: bool = False,
    sinks: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Session:
    """Trains `seeds` copies of an agent for `steps` environment steps each.

    `agent` is a name of `eligrad.agents.PRESETS`, with any field of its config to be changed given
    by keyword (`lam=0.9`), or an agent of your own. `env` is a name for `eligrad.envs.make`, an
    environment, or a Gymnasium class or a function that makes one. `seeds` is their number or a
    list of them. A setting that is a number may be a list with a value for each of these: all runs
    are one program, whatever their settings. ε falls over `exploration_fraction` of the steps,
    unless `exploration_steps` is given. Agents that learn from rollouts end with a whole one.
    With `out` the run is written to that new folder; an interrupted one goes on with `resume`.
    Runs in environments outside JAX may be shared out among `processes` (None: one for each core)
    by a script that guards its main part with `if __name__ == "__main__"`.
    `sinks` ("tensorboard", "wandb") get every chunk's metrics too.

    `callbacks` get the `Session` after each chunk; one that returns False ends training.
    `prepare` takes the same arguments and returns that session without running it.

    The first Ctrl-C or SIGTERM ends training after the present chunk, saves, and raises
    `Interrupted`, which is a KeyboardInterrupt.
    """
    if not isinstance(agent, (str, QLambda, ActorCritic)):
        raise TypeError(f"agent is a {type(agent).__name__}; a name or an agent is accepted")
    check.within("exploration_fraction", exploration_fraction, 0.0, 1.0)
    check_sinks(sinks, None if out is None else Path(out))
    steps = whole_number("steps", steps)
    each = planning.each_seed(seeds)
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
        check_networks(made, world)
    rollout = settings.get("rollout", 1)
    steps = planning.whole_rollouts(steps, rollout)
    if chunk is not None:
        chunk = min(whole_number("chunk", chunk), steps)
    else:
        chunk = planning.chunk_for(steps, rollout)
    if checkpoint_every is not None:
        checkpoint_every = whole_number("checkpoint_every", checkpoint_every)
    plan = Plan(
        agent=agent if isinstance(agent, str) else None,
        settings=settings,
        env=env if isinstance(env, str) else None,
        max_episode_steps=max_episode_steps,
        env_params=planning.plain_params(env_params),
        seeds=each,
        steps=steps,
        chunk=chunk,
        checkpoint_every=checkpoint_every or planning.checkpoint_every_for(steps, chunk),
    )
    params = planning.make_params(world, plan.env_params)
    folder = None if out is None else RunFolder.create(Path(out))
    engine = _make_engine(plan, made, world, params, processes)
    return Session(plan, made, world, engine, folder, progress, sinks, callbacks)


def _run_to_the_end(prepare: Callable[Arguments, Session]) -> Callable[Arguments, Result]:
    @functools.wraps(prepare)
    def train(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with contextlib.closing(prepare(*arguments, **options)) as session:
            return session.run()

    train.__name__ = train.__qualname__ = "train"
    # Else `help` and editors would say that it returns what `prepare` does.
    train.__annotations__ = prepare.__annotations__ | {"return": "Result"}
    told = inspect.signature(prepare).replace(return_annotation="Result")
    train.__signature__ = told  # pyright: ignore[reportAttributeAccessIssue]
    return train


train = _run_to_the_end(prepare)
"""`prepare`, and then training to the end; takes the same arguments and returns the `Result`."""


def resume(
    run: str | Path,
    *,
    steps: int | float | None = None,
    agent: Agent | None = None,
    env: World | Callable[..., Any] | None = None,
    processes: int | None = 1,
    progress: bool = False,
    sinks: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Goes on with a run from its last checkpoint as if it had never stopped.

    `steps` is a new total. An agent or environment that was made by hand must be given again. Some
    simulators outside JAX do not tell their state (Atari's, for one): their runs go on in new
    episodes, with a warning.
    """
    folder = RunFolder.open(Path(run))
    check_sinks(sinks, folder.path)
    plan = planning.plan_in_file(folder.config["plan"], folder.path / "config.json")
    if steps is not None:
        plan = planning.grown(plan, steps)
    for what, name, given in (("agent", plan.agent, agent), ("environment", plan.env, env)):
        if (name is None) != (given is not None):
            how = "made by hand: pass it again" if name is None else f"{name!r}: pass no other"
            raise ValueError(f"the {what} of {folder.path} was {how}")
    world = planning.world_of(plan, folder.path, env)
    made = agent
    if made is None:
        made = planning.make_agent(str(plan.agent), plan.settings, world)
    params = planning.make_params(world, plan.env_params)
    engine = _make_engine(plan, made, world, params, processes)
    session = Session(plan, made, world, engine, folder, progress, sinks, callbacks)
    with contextlib.closing(session):
        return session.run()


def _make_engine(
    plan: Plan, agent: Agent, env: World, params: Any, processes: int | None
) -> Engine:
    """The engine of a plan, in as many processes as asked for and of use."""
    shareable = isinstance(env, HostEnvironment) and None not in (plan.agent, plan.env)
    if processes is None:
        processes = cores() if shareable else 1
    processes = min(whole_number("processes", processes), len(plan.seeds))
    if processes == 1:
        return make_engine(agent, env, params, plan.seeds)
    if not shareable:
        raise ValueError(
            f"processes is {processes}; more than 1 is for an agent and an environment given by "
            "name, and for environments outside JAX (others use all cores as it is)"
        )
    return Crew(plan, processes, agent, env)
