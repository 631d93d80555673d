"""`eligrad train`: its options, made from the settings of an agent. `start.py` trains."""

from __future__ import annotations

import argparse
import dataclasses
import logging
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tyro.constructors import PrimitiveConstructorSpec

from eligrad import optim, rules
from eligrad._base.checks import whole_number
from eligrad._base.errors import UnknownName
from eligrad.agents import AGENTS, registry
from eligrad.agents.registry import EXPLORATION_FRACTION
from eligrad.cli import messages
from eligrad.cli.modules import Modules, import_typed
from eligrad.envs.names import check_name
from eligrad.runs.plan import each_seed, plan_in_file, read_options


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
    info: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = ()
    """A number in the info of a Gymnasium environment, such as x_velocity: its mean over a chunk
    becomes the metric info_NAME; give the option once for each."""
    out: Annotated[Path | None, _optional("FOLDER")] = None
    """New folder for the run; by default one under runs/, named after agent, environment, time."""
    resume: Annotated[Path | None, _optional("FOLDER")] = None
    """Continue the run in this folder: without AGENT, ENV and settings; --steps may be larger."""
    modules: Modules = ()
    """Import this module first: one that registers your agent or environment, or the module of the
    environment of a run that you resume and trust."""
    config: Annotated[Path | None, _optional("FILE|FOLDER")] = None
    """Start a run from this TOML file (agent, env, steps, seeds, [settings]), or repeat the
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
    typed: Annotated[tuple[str, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """The names of the options that were given."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The agent's settings that were given."""
        every = vars(self.settings) | vars(self)
        return {name: every[name] for name in self.typed if name not in _OF_THE_COMMAND}


_OF_THE_COMMAND = {field.name for field in dataclasses.fields(Train)}


def _command_of(config: Any) -> type[Train]:
    """The command for an agent: `Train` with the agent's own settings as options."""
    shown, fields = list[Any](), list[Any]()
    for name, choices, help_text in (
        ("rule", rules.names(), "Which rule moves the parameters of value and h."),
        ("optimizer", optim.names(), "Which optimiser makes steps of the rule's updates."),
    ):
        if hasattr(config, name):
            option = tyro.conf.arg(metavar="|".join(choices), help=help_text)
            shown.append((name, Annotated[str, option], getattr(config, name)))
    if hasattr(config, "exploration_steps"):
        # Follows from the steps and the fraction.
        hidden = Annotated[Any, tyro.conf.Fixed, tyro.conf.Suppress]
        shown.append(("exploration_steps", hidden, 0.0))
        help_text = "Share of the steps over which ε falls from --epsilon-start to --epsilon-end."
        fraction = Annotated[float, tyro.conf.arg(help=help_text)]
        fields.append(("exploration_fraction", fraction, EXPLORATION_FRACTION))
    settings = dataclasses.make_dataclass("Settings", shown, bases=(type(config),), frozen=True)
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
    check_name(command.env)
    if command.agent != assumed:
        command = _cli(arguments, _defaults(command.agent))
    command.settings.check()
    return dataclasses.replace(command, typed=_typed(arguments, command))


def _typed(arguments: list[str], command: Train) -> tuple[str, ...]:
    """The names of the options that were given."""
    words = {word.partition("=")[0].replace("_", "-") for word in arguments}
    return tuple(n for n in _flat(command) if words & {_option(n), _option(f"no_{n}")})


def _defaults(agent: str, /, settings: Any = None, **options: Any) -> Train:
    """The command of an agent, with the options and settings that it has."""
    entry = registry.get(agent)
    command = _command_of(entry.config if settings is None else settings)
    if settings is None and entry.for_vectors:
        others = ", ".join(f"{_option(name)} {value}" for name, value in entry.for_vectors.items())
        command.__doc__ = (
            f"{command.__doc__}\n\n    Where observations are vectors the defaults are {others}, "
            "unless another --optimizer is given."
        )
    return command(**options)


def _parse_resume(arguments: list[str], run: Path) -> Train:
    from eligrad.runs.folder import RunFolder

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
    names = ("agent", "env", "settings", "steps", "max_episode_steps", "chunk", "checkpoint_every")
    options |= {name: getattr(plan, name) for name in names}
    options |= {"seeds": len(plan.seeds), "seed": plan.seeds[0], "info": tuple(plan.info)}
    stored = _defaults(plan.agent, **options)
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
    of_file = {name: options[name] for name in ("agent", "env")}
    if "steps" in options:
        of_file["steps"] = whole_number("steps", options["steps"])
    if not (seeds := each_seed(options.get("seeds", 1))):
        raise ValueError("seeds are []; different ones, at least 1, are accepted")
    of_file |= {"seeds": len(seeds), "seed": seeds[0]}
    default = _defaults(options["agent"], **of_file, config=path)
    command = _cli(arguments, default)
    given, without = (_flat(each) for each in (command, default))
    typed = _typed(arguments, command)
    for name in given.keys() - _FREE_ON_RESUMING - {"out", "config"}:
        if name in typed or given[name] != without[name]:
            how = f"write it in {path}"
            if path.is_dir():
                how = (
                    "for another one write a TOML file; beside a run --steps and --out may be given"
                )
            raise ValueError(f"{name} is {given[name]}, and --config is given; {how}")
    return command


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
    hidden = ("agent", "env", "exploration_steps", "typed")
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
    if not debug:
        # JAX logs the traceback of an error in a callback; the message is enough.
        logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)
    return messages.run("train", lambda: _train(arguments), debug=debug)


def _train(arguments: list[str]) -> int:
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--import", action="append", default=[], dest="modules")
    # Before the rest is read: a module may register the agent.
    import_typed(finder.parse_known_args(arguments)[0].modules)
    command = parse(arguments)
    # JAX is loaded here, and not for a mistyped option.
    from eligrad.cli import start

    return start.run(command)
