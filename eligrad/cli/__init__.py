"""Deep reinforcement learning with gradient eligibility traces."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys

import eligrad
from eligrad._base.errors import UnknownName
from eligrad._base.optional import needs_train
from eligrad._base.text import printable

COMMANDS = {
    "train": "train an agent, or continue a run: eligrad train qrc MinAtar/Breakout-v1",
    "sweep": "train many settings and seeds: eligrad sweep spec.toml",
    "two-stage": "sweep, choose one configuration, train it on fresh seeds",
    "reproduce": "train what a figure of the paper shows: eligrad reproduce fig3 --scale smoke",
    "runs": "list, show, compare and remove runs: eligrad runs ls",
    "report": "write one page about many runs: curves, tables, settings: eligrad report runs",
    "play": "record a video of an episode, with value, h and TD error: eligrad play RUN",
    "evaluate": "play episodes with a trained agent, and print returns: eligrad evaluate RUN",
    "watch": "live view of a running training: eligrad watch RUN",
    "compare": "compare two sets of runs, with tests and intervals: eligrad compare A B",
    "completion": "print a script that lets bash or zsh complete commands: eligrad completion bash",
    "demo": "show that TD(λ) diverges and gradient TD(λ) does not: about a minute",
}
"""Each has its own --help, and a module of its name, with _ for -."""
_TRAINS = ("train", "sweep", "two-stage", "reproduce")


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that the first argument names, with the others."""
    try:
        try:
            _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has ended, as in `eligrad runs ls | head`
        # Python writes the rest of the buffer when it ends: to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + getattr(signal, "SIGPIPE", 13))  # Windows has no such signal


def _run(arguments: list[str] | None) -> None:
    # The options of `train` come from classes that import JAX: imported only for it.
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="eligrad",
        usage="eligrad COMMAND [OPTIONS]",
        description=__doc__,
        epilog="commands, each with its own --help:\n"
        + "\n".join(f"  {name:<12}{summary}" for name, summary in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=eligrad.__version__)
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="what to do")
    command = parser.parse_args(arguments[:1]).command
    if command is None:
        parser.print_help()
        sys.exit(2)
    if command not in COMMANDS:
        error = UnknownName("command", printable(command), COMMANDS)
        print(f"eligrad: {error}\neligrad --help lists all commands", file=sys.stderr)
        sys.exit(2)
    if command in _TRAINS and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C before training starts, or a second one, ends the process at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with needs_train("the command line"):
            module = importlib.import_module(f"eligrad.cli.{command.replace('-', '_')}")
    except ImportError as error:
        if not isinstance(error.__cause__, ModuleNotFoundError):
            raise  # it is installed, and broken
        sys.exit(f"eligrad: {error}")
    sys.exit(module.main([_with_home(each) for each in arguments[1:]]))


def _with_home(argument: str) -> str:
    """An argument with ~ as the home folder, which shells leave as it is in --out=~/runs."""
    option, equals, value = argument.rpartition("=")
    return option + equals + os.path.expanduser(value) if value.startswith("~/") else argument
