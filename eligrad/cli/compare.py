"""`eligrad compare`: compares two configurations by their runs, with statistical tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from eligrad._base.errors import UnknownName
from eligrad._base.text import printable
from eligrad.cli import messages
from eligrad.runs.configuration import by_size, shown

if TYPE_CHECKING:
    from eligrad.analysis.frames import Table

MANY = 12
"""Values of a setting that a message names."""
Conditions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")]


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare two configurations by their runs, with statistical tests.

    Two folders: eligrad compare runs/qrc runs/q-lambda. Out of one sweep: eligrad compare
    runs/sizes --a lam=0.8 step_size=1e-4 --b lam=0.9 step_size=1e-4.
    """

    first: Annotated[Path, tyro.conf.Positional]
    """A run folder, a folder of runs or a sweep's store."""
    second: Annotated[Path | None, tyro.conf.Positional] = None
    """Another one; by default the same."""
    a: Conditions = ()
    """Which runs of the first folder, by columns of load_runs, such as agent=qrc lam=0.9."""
    b: Conditions = ()
    """Which runs of the second folder."""
    score: Literal["return_last", "return_all", "return_area"] = "return_last"
    """The score of a run: mean return of the last tenth of its steps, mean return of all its
    episodes, or area under its learning curve."""


def main(arguments: list[str]) -> int:
    """Prints the comparison that the arguments ask for; returns the exit code."""
    command = tyro.cli(Compare, prog="eligrad compare", args=arguments)
    return messages.run("compare", lambda: _compare(command))


def _compare(command: Compare) -> int:
    from eligrad.analysis.compare import compare

    if command.second is None and command.a == command.b:
        raise ValueError(
            "one folder is given; a second one is accepted, or --a and --b, which choose "
            "configurations of the one"
        )
    a = choose(_load(command.first), command.a, "--a")
    b = choose(_load(command.second or command.first), command.b, "--b")
    print(compare(a, b, command.score).in_words())
    return 0


def _load(path: Path) -> Table:
    from eligrad.analysis.load import load_runs

    runs: Any = load_runs(path)
    for name in runs.select_dtypes(exclude=["number", "bool"]).columns:
        runs[name] = runs[name].map(lambda each: printable(each) if isinstance(each, str) else each)
    return runs


def choose(runs: Table, conditions: Sequence[str], option: str) -> Table:
    """Returns the runs that meet all conditions; they must be of one configuration.

    Args:
        runs: A data frame as `load_runs` gives it.
        conditions: Each `NAME=VALUE`, with the name of a column. A missing value is `default`; of
            `config_hash` the beginning is enough.
        option: The name of the option, for messages.
    """
    for condition in conditions:
        name, equals, wanted = condition.partition("=")
        if not equals:
            raise ValueError(f"{option} is {condition!r}; NAME=VALUE is accepted, such as lam=0.9")
        if name not in runs.columns:
            raise UnknownName(f"name in {option}:", name, map(str, runs.columns))
        meets = [_is(value, wanted, name) for value in runs[name]]
        if not any(meets):
            raise ValueError(f"{option}: no run has {condition}; there is {_values(runs[name])}")
        runs = runs[meets]
    _check_one_configuration(runs, option)
    return runs


def _is(value: Any, wanted: str, name: str) -> bool:
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return wanted == "default"
    if name == "config_hash":
        return value.startswith(wanted)
    try:
        return float(value) == float(wanted)
    except (TypeError, ValueError):
        return str(value).lower() == wanted.lower()


def _check_one_configuration(runs: Table, option: str) -> None:
    from eligrad.analysis.frames import differing, fixed_columns

    if runs.empty or runs.groupby("env")["config_hash"].nunique().max() < 2:
        return
    names = differing(runs, ["agent", *fixed_columns(runs)]) or ["config_hash"]
    choices = "; ".join(f"{name}: {_values(runs[name])}" for name in names)
    count = runs["config_hash"].nunique()
    raise ValueError(
        f"{count} configurations are found; one is accepted. Choose it by {option} NAME=VALUE, "
        f"with {choices}"
    )


def _values(column: Any) -> str:
    """The values of a column, in order; of very many the first."""
    known = {shown(value): None for value in sorted(column.dropna(), key=by_size)}
    words = [*known, *(["default"] if column.isna().any() else [])]
    return ", ".join(words[:MANY]) + (", …" if len(words) > MANY else "")
