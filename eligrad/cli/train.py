"""`eligrad train`: trains an agent, writes a run folder, prints a table of returns."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import logging
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from jax.errors import JaxRuntimeError
from tyro.constructors import PrimitiveConstructorSpec

from eligrad import optim, rules
from eligrad._base.checks import whole_number
from eligrad._base.errors import UnknownName
from eligrad.agents import AGENTS, registry
from eligrad.agents.registry import EXPLORATION_FRACTION
from eligrad.cli.modules import Modules, import_typed, look_here
from eligrad.engines import Diverged, EnvironmentFault, OutOfMemory, WorkerDied
from eligrad.engines.devices import device_for_each_run, keep_compiled_programs
from eligrad.envs.names import module_of
from eligrad.runs.config import plan_in_file, read_options, rollout_of, whole_rollouts
from eligrad.runs.folder import RunFolder, RunInUseError
from eligrad.runs.summary import as_text
from eligrad.training import Interrupted, resume, train
from eligrad.training.build import check_imported
from eligrad.training.callbacks import EvaluateEvery


def _count(name: str) -> PrimitiveConstructorSpec[int]:
    """A whole number that may be written as 1e6."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: whole_number(f"--{name}", words[0], typed=True),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def _optional(metavar: str) -> Any:
    """An option without a default value; its help says what happens without it."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def _needed(metavar: str) -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="(required without --resume)")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train several seeds of an agent, and write a run folder with metrics, checkpoints and curve.

    Agents: AGENTS. Settings and defaults below are those of AGENT (of qrc without one).
    Ctrl-C stops after the current chunk and saves.
    """

    agent: Annotated[str, tyro.conf.Positional, _needed("AGENT")] = ""
    """Name of the agent."""
    env: Annotated[str, tyro.conf.Positional, _needed("ENV")] = ""
    """Name of the environment, such as MinAtar/Breakout-v1, gymnax/CartPole-v1 or Acrobot-v1;
    my_module:Mine-v0 is one that your own module registers; it may be in the current folder."""
    settings: tyro.conf.OmitArgPrefixes[Any] = None
    steps: Annotated[int, _count("steps")] = 1_000_000
    """Environment steps of each seed; 1e6 is accepted."""
    seeds: Annotated[int, _count("seeds")] = 8
    """Number of seeds, trained together."""
    seed: int = 0
    """The first seed."""
    max_episode_steps: Annotated[int | None, _optional("N")] = None
    """Truncate episodes after this many steps; by default the limit of the environment."""
    out: Annotated[Path | None, _optional("FOLDER")] = None
    """New folder for the run; by default one under runs/, named after agent, environment, time."""
    resume: Annotated[Path | None, _optional("FOLDER")] = None
    """Continue the run in this folder: without AGENT, ENV and settings; --steps may be larger."""
    modules: Modules = ()
    """Import this module first: one that registers your agent or environment, or the module of the
    environment of a run that you resume and trust."""
    config: Annotated[Path | None, _optional("FILE|FOLDER")] = None
    """Begin a run as this TOML file says (agent, env, steps, seeds, [settings]), or once more the
    run in this folder: without AGENT, ENV and settings, perhaps with other --steps."""
    chunk: Annotated[Annotated[int, _count("chunk")] | None, _optional("N")] = None
    """Steps between two updates of the progress bar; by default about 1000."""
    checkpoint_every: Annotated[
        Annotated[int, _count("checkpoint-every")] | None, _optional("N")
    ] = None
    """Steps between two checkpoints, a multiple of --chunk; by default a twentieth of the steps."""
    logger: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="tensorboard|wandb")
    ] = ()
    """Also send the metrics to this logger; give the option once for each logger."""
    eval_every: Annotated[Annotated[int, _count("eval-every")] | None, _optional("N")] = None
    """Play ten episodes without learning about every N steps; their mean return is the metric
    evaluation_return."""
    processes: Annotated[Annotated[int, _count("processes")] | None, _optional("N")] = None
    """Processes that share the seeds, for environments outside JAX; by default one for each core.
    """
    progress: bool = True
    """Whether to draw a progress bar."""
    cache: bool = True
    """Whether to keep compiled programs in ~/.cache/eligrad for the next run."""
    debug: bool = False
    """Whether to show where in the program an error occurred."""


def _command_of(config: Any) -> type[Train]:
    """The command for an agent: `Train` with the agent's own settings as options."""
    settings, fields = type(config), list[Any]()
    open_choices = {
        "rule": (rules.names(), "Which rule moves the parameters of value and h."),
        "optimizer": (optim.names(), "Which optimiser makes steps of the rule's updates."),
    }
    shown = []
    for name, (choices, help_text) in open_choices.items():
        if hasattr(config, name):
            option = tyro.conf.arg(metavar="|".join(choices), help=help_text)
            shown.append((name, Annotated[str, option], getattr(config, name)))
    settings = dataclasses.make_dataclass("Settings", shown, bases=(settings,), frozen=True)
    if hasattr(config, "exploration_steps"):
        # Follows from the steps and the fraction.
        hidden = Annotated[Any, tyro.conf.Fixed, tyro.conf.Suppress]
        settings = dataclasses.make_dataclass(
            "Settings",
            [("exploration_steps", hidden, dataclasses.field(default=0.0))],
            bases=(settings,),
            frozen=True,
        )
        help_text = "Share of the steps over which ε falls from --epsilon-start to --epsilon-end."
        fraction = Annotated[float, tyro.conf.arg(help=help_text)]
        default = dataclasses.field(default=EXPLORATION_FRACTION)
        fields.append(("exploration_fraction", fraction, default))
    own = dataclasses.field(default_factory=lambda: settings(**vars(config)))
    fields.append(("settings", tyro.conf.OmitArgPrefixes[settings], own))
    command = dataclasses.make_dataclass("Train", fields, bases=(Train,), frozen=True)
    command.__doc__ = str(Train.__doc__).replace("AGENTS", ", ".join(AGENTS))
    return command


def parse(arguments: list[str]) -> Train:
    """The command line as an object, with the defaults of the agent or of the run it names."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--resume", type=Path)
    finder.add_argument("--config", type=Path)
    found = finder.parse_known_args(arguments)[0]
    if found.resume is not None:
        return _parse_resume(arguments, found.resume)
    if found.config is not None:
        return _parse_config(arguments, found.config)
    assumed = next((word for word in arguments if word in AGENTS), "qrc")
    command = _cli(arguments, _defaults(assumed))
    if not command.env:
        raise ValueError("an agent and an environment are needed, such as qrc MinAtar/Breakout-v1")
    registry.get(command.agent)
    return command if command.agent == assumed else _cli(arguments, _defaults(command.agent))


def _defaults(agent: str, /, settings: Any = None, **options: Any) -> Train:
    """The command of an agent, with the options and settings that it has."""
    command = _command_of(registry.get(agent).config if settings is None else settings)
    return command(**options)


def _parse_resume(arguments: list[str], run: Path) -> Train:
    plan = plan_in_file(RunFolder.open(run).config["plan"], run / "config.json")
    if plan.agent is None or plan.env is None:
        raise ValueError(
            f"{run} was trained from Python with a custom agent or environment: continue "
            "it with eligrad.training.resume(run, agent=…, env=…)"
        )
    options: dict[str, Any] = {}
    explored = getattr(plan.settings, "exploration_steps", None)
    if isinstance(explored, (int, float)):  # not an array, with which each run has its own
        options["exploration_fraction"] = explored / plan.steps
    stored = _defaults(
        plan.agent,
        agent=plan.agent,
        env=plan.env,
        settings=plan.settings,
        steps=plan.steps,
        seeds=len(plan.seeds),
        seed=plan.seeds[0],
        max_episode_steps=plan.max_episode_steps,
        chunk=plan.chunk,
        checkpoint_every=plan.checkpoint_every,
        **options,
    )
    command = _cli(arguments, stored)
    given, kept = (_flat(each) for each in (command, stored))
    for name in given:
        same = np.array_equal(given[name], kept[name])
        if not same and name not in _FREE_ON_RESUMING:
            raise ValueError(
                f"{name} is {given[name]}, but {run} was trained with {kept[name]}; only --steps "
                "may change on resuming"
            )
    return command


def _parse_config(arguments: list[str], path: Path) -> Train:
    options = read_options(path)
    named = {name: options[name] for name in ("agent", "env")}
    default = _defaults(options["agent"], **named, config=path)
    command = _cli(arguments, default)
    given, without = (_flat(each) for each in (command, default))
    for name in given:
        if given[name] != without[name] and name not in _FREE_ON_RESUMING | {"out"}:
            raise ValueError(f"{name} is {given[name]}, and --config is given; write it in {path}")
    return command


_FAULTS = (
    EnvironmentFault, Diverged, WorkerDied, OutOfMemory, OSError, MemoryError, JaxRuntimeError,
)  # fmt: skip
_FREE_ON_RESUMING = {
    "steps", "processes", "resume", "modules", "logger", "eval_every", "progress", "cache", "debug",
}  # fmt: skip


def _flat(command: Train) -> dict[str, Any]:
    return vars(command.settings) | {k: v for k, v in vars(command).items() if k != "settings"}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def option_names() -> list[str]:
    """The options of all agents."""
    every = dict.fromkeys(name for agent in AGENTS for name in _flat(_defaults(agent)))
    hidden = ("agent", "env", "exploration_steps")
    return [_option(name) for name in every if name not in hidden]


def _cli(arguments: list[str], default: Train) -> Train:
    known = list(_flat(default))
    for word in arguments:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        here = registry.names_here(name, known)
        if word.startswith("--") and name not in known and here:
            raise UnknownName("option", _option(name), map(_option, known), map(_option, here))
    # tyro's help leaves out what was given already: the agent's name.
    named = next((f" {word}" for word in arguments[:1] if word in AGENTS), "")
    return tyro.cli(type(default), prog=f"eligrad train{named}", args=arguments, default=default)


def main(arguments: list[str]) -> int:
    """Trains as the arguments say; returns the exit code."""
    debug = "--debug" in arguments
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = _say
                # JAX logs the traceback of an error in a callback; the message is enough.
                logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)
            finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
            finder.add_argument("--import", action="append", default=[], dest="modules")
            # Before the rest is read: a module may register the agent.
            import_typed(finder.parse_known_args(arguments)[0].modules)
            return _run(parse(arguments))
    except (ValueError, TypeError, ImportError, *_FAULTS) as error:
        if debug:
            raise
        print(f"eligrad train: {str(error) or repr(error)}", file=sys.stderr)
        return 2


def _say(message: Warning | str, *_: object) -> None:
    """Prints a warning without the line of the program that gave it."""
    print(f"eligrad train: {message}", file=sys.stderr)


def _run(command: Train) -> int:
    device_for_each_run(command.seeds)
    if command.cache:
        keep_compiled_programs()
    folder = command.resume or command.out or _make_default_folder(command)
    try:
        if command.resume is not None:
            resume(
                folder,
                steps=command.steps,
                processes=command.processes,
                progress=command.progress,
                loggers=command.logger,
                callbacks=_callbacks(command),
            )
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
        if command.debug:
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
    trusted = [] if module is None else ["--import", module]
    return shlex.join(["eligrad", "train", "--resume", str(folder), *trusted])


def _begin(command: Train, folder: Path) -> None:
    if command.config is None:
        settings = {k: v for k, v in vars(command.settings).items() if k != "exploration_steps"}
        if "exploration_fraction" in vars(command):
            settings["exploration_fraction"] = vars(command)["exploration_fraction"]
        options = {
            "steps": command.steps,
            "seeds": range(command.seed, command.seed + command.seeds),
            "max_episode_steps": command.max_episode_steps,
            "chunk": command.chunk,
            "checkpoint_every": command.checkpoint_every,
        }
    else:
        options = read_options(command.config)
        settings = options.pop("settings")
        if command.steps != Train.steps or "steps" not in options:
            options["steps"] = command.steps
        options = {k: v for k, v in options.items() if k not in ("agent", "env")}
    steps = whole_number("steps", options["steps"])
    rollout = int(settings.get("rollout", rollout_of(command.settings)))
    if steps % rollout:
        print(
            f"{command.agent} learns from whole rollouts of {rollout:,} steps: --steps is rounded "
            f"up to {whole_rollouts(steps, rollout):,}"
        )
    train(
        command.agent,
        command.env,
        out=folder,
        processes=command.processes,
        progress=command.progress,
        loggers=command.logger,
        callbacks=_callbacks(command),
        **options,
        **settings,
    )


def _callbacks(command: Train) -> list[EvaluateEvery]:
    return [] if command.eval_every is None else [EvaluateEvery(command.eval_every)]


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
