"""`train` starts a run, `resume` continues one."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from eligrad._base.checks import whole_number
from eligrad.agents import registry
from eligrad.agents.protocol import Agent
from eligrad.engines.trained import check_same_actions, check_same_settings, environment_of
from eligrad.envs import Environment, HostEnvironment
from eligrad.envs.registry import as_environment, plain_params
from eligrad.runs.folder import RunFolder
from eligrad.runs.plan import (
    Plan,
    checkpoint_every_for,
    chunk_for,
    each_seed,
    grown,
    plan_in_file,
    rollout_of,
    whole_rollouts,
)
from eligrad.training.build import build_engine
from eligrad.training.loggers import check_loggers
from eligrad.training.session import Callback, Result, Session

Arguments = ParamSpec("Arguments")


def prepare(
    agent: str | Agent,
    env: str | Environment | HostEnvironment | Callable[..., Any],
    *,
    steps: int | float,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    max_episode_steps: int | None = None,
    env_params: dict[str, Any] | None = None,
    info: Sequence[str] = (),
    chunk: int | None = None,
    checkpoint_every: int | None = None,
    processes: int | None = 1,
    progress: bool = False,
    loggers: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    network: Any = None,
    **settings: Any,
) -> Session:
    """Prepares a training of `seeds` copies of an agent: `Session.run` starts it.

    `train` takes the same arguments, runs the session to its end and returns the `Result`. The
    first Ctrl-C or SIGTERM ends training after the current chunk, saves, and raises `Interrupted`,
    which is a KeyboardInterrupt.

    Args:
        agent: the name of a registered agent (`eligrad.agents.AGENTS`), or an agent of your own.
        env: a name for `eligrad.envs.make`, an environment, or a Gymnasium class or a function that
            makes one.
        steps: environment steps of each seed. Agents that learn from rollouts end with a whole one.
        seeds: their number, or a list of them.
        out: a new folder to write the run to; `resume` continues an interrupted one.
        max_episode_steps: truncate episodes after this many steps.
        env_params: changes of a JAX environment's numbers, by name.
        info: numbers in the `info` of a Gymnasium environment, by name. The mean of each over a
            chunk is the metric `info_NAME`.
        chunk: steps between two updates of the progress bar, calls of callbacks, checks of Ctrl-C.
        checkpoint_every: steps between two checkpoints, a multiple of `chunk`.
        processes: how many share the runs of an environment outside JAX (None: one for each core);
            a script that asks for several guards its main part with `if __name__ == "__main__"`.
        progress: whether to draw a progress bar.
        loggers: where metrics are sent too: "tensorboard", "wandb".
        callbacks: each gets the `Session` after each chunk; one that returns False ends training.
        network: one of your own, for an agent given by name.
        settings: those of the agent's settings class, by name (`lam=0.9`). A number may be a list
            with a value for each seed: all runs are one program. ε falls over the share
            `exploration_fraction` of the steps, unless `exploration_steps` is given.
    """
    if not isinstance(agent, (str, Agent)):
        raise TypeError(f"agent is a {type(agent).__name__}; a name or an agent is accepted")
    check_loggers(loggers, None if out is None else Path(out).expanduser())
    steps = whole_number("steps", steps)
    each = each_seed(seeds)
    environment = as_environment(env, max_episode_steps, info)
    if isinstance(agent, str):
        shape = environment.observation_space.shape
        config = registry.make_settings(
            agent, settings, runs=len(each), steps=steps, observation_shape=shape
        )
        made = registry.build(agent, config, environment, network)
    elif settings or network is not None:
        given = sorted(settings) + (["network"] if network is not None else [])
        raise ValueError(f"{given} go with an agent's name; set them in the agent")
    else:
        made, config = agent, agent.config
        config.check()
        registry.check_fit(made, environment)
    rollout = rollout_of(config)
    steps = whole_rollouts(steps, rollout)
    chunk = chunk_for(steps, rollout) if chunk is None else whole_number("chunk", chunk)
    if checkpoint_every is not None:
        checkpoint_every = whole_number("checkpoint_every", checkpoint_every)
    if chunk > steps:
        chunk = checkpoint_every = steps
    plan = Plan(
        agent=agent if isinstance(agent, str) and network is None else None,
        settings=config,
        env=env if isinstance(env, str) else None,
        max_episode_steps=max_episode_steps,
        env_params=plain_params(env_params),
        seeds=each,
        steps=steps,
        chunk=chunk,
        checkpoint_every=checkpoint_every or checkpoint_every_for(steps, chunk),
        info=list(info),
    )
    folder = None if out is None else RunFolder.create(Path(out).expanduser())
    engine = build_engine(plan, made, environment, processes)
    return Session(plan, made, environment, engine, folder, progress, loggers, callbacks)


def _run_to_the_end(prepare: Callable[Arguments, Session]) -> Callable[Arguments, Result]:
    @functools.wraps(prepare)
    def train(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if "steps" not in options:
            given = f"; given are {', '.join(options)}" if options else ""
            raise TypeError(f"train needs steps, those of each seed, as in steps=1e6{given}")
        with contextlib.closing(prepare(*arguments, **options)) as session:
            return session.run()

    train.__name__ = train.__qualname__ = "train"
    # Else `help` and editors would say that it returns what `prepare` does.
    train.__annotations__ = prepare.__annotations__ | {"return": "Result"}
    signature = inspect.signature(prepare).replace(return_annotation="Result")
    train.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
    return train


train = _run_to_the_end(prepare)
"""Trains to the end, and returns the `Result`; takes the arguments of `prepare`:
`train("qrc", "MinAtar/Breakout-v1", steps=1e6, seeds=8, out="runs/breakout", lam=0.9)`."""


def resume(
    run: str | Path,
    *,
    steps: int | float | None = None,
    agent: Agent | None = None,
    env: Environment | HostEnvironment | Callable[..., Any] | None = None,
    processes: int | None = 1,
    progress: bool = False,
    loggers: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Continues a run from its last checkpoint as if it had never stopped.

    The state of some simulators outside JAX cannot be read (Atari's, for example): their runs
    continue in new episodes, with a warning.

    Args:
        run: the run folder.
        steps: a new total of steps.
        agent: the agent again, if it is a custom one.
        env: the environment again, if it is a custom one.
        processes: as for `train`.
        progress: as for `train`.
        loggers: as for `train`.
        callbacks: as for `train`.
    """
    folder = RunFolder.open(Path(run).expanduser())
    check_loggers(loggers, folder.path)
    plan = plan_in_file(folder.config["plan"], folder.path / "config.json")
    if steps is not None:
        plan = grown(plan, steps)
    for what, name, given in (("agent", plan.agent, agent), ("environment", plan.env, env)):
        if (name is None) != (given is not None):
            how = "a custom one: pass it again" if name is None else f"{name!r}: pass no other"
            raise ValueError(f"the {what} of {folder.path} is {how}")
    if agent is not None:
        check_same_settings(agent, plan, folder.path)
    environment = environment_of(plan, folder.path, env)
    check_same_actions(folder.config, folder.path, environment)
    made = registry.build(str(plan.agent), plan.settings, environment) if agent is None else agent
    engine = build_engine(plan, made, environment, processes)
    session = Session(plan, made, environment, engine, folder, progress, loggers, callbacks)
    with contextlib.closing(session):
        return session.run()
