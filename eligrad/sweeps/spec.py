"""Specs of sweeps: agents, environments, seeds, and the settings to try.

In TOML:

    steps = 1e6
    seeds = 5                           # 0 … 4; or a list
    agents = ["qrc", "q-lambda"]
    envs = ["MinAtar/Breakout-v1"]
    info = []                           # numbers in the info of Gymnasium, as metrics

    [fixed]                             # one value for all
    gamma = 0.99

    [grid]                              # every combination
    lam = [0.8, 0.9]
    step_size = [1e-3, 1e-4]

    [[list]]                            # these combinations and no others
    rule = "tdrc"
    beta = 1.0

    [random]                            # so many draws
    samples = 20
    seed = 0
    [random.draw]
    h_scale = { log_uniform = [0.01, 1.0] }

Every point of the grid is combined with every entry of the list and every draw. Any setting of an
agent can be named, and `exploration_fraction`, `max_episode_steps` and `env_params.NAME`. Fields
that are not the same for all agents go into several `[[part]]` tables of the same form; the fields
above them are common to all. In Python the same is a `Sweep`, or several in a `Spec`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
import runpy
import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eligrad._base.checks import MOST_RUNS, MOST_STEPS
from eligrad._base.errors import Mistakes, UnknownName
from eligrad.envs.names import module_of
from eligrad.runs.configuration import ENV_PARAMS

MOST_BYTES = 2**24
"""The largest TOML file."""
_DISTRIBUTIONS = ("uniform", "log_uniform", "choice")


class SpecError(ValueError):
    """An invalid spec; the message names the field and what it accepts."""


@dataclasses.dataclass(frozen=True)
class Draws:
    """Settings drawn at random; the same seed gives the same ones."""

    draw: Mapping[str, Mapping[str, Sequence[Any]]]
    """The distribution of each field: `{uniform: [low, high]}`, `{log_uniform: [low, high]}` or
    `{choice: [...]}`."""
    samples: int
    """The number of combinations."""
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.samples) is not int or self.samples < 1:
            raise SpecError(f"random.samples is {self.samples!r}; 1 or more is accepted")
        if not self.draw:
            raise SpecError("random.draw is empty; name the fields to be drawn")
        for field, distribution in self.draw.items():
            _check_distribution(f"random.draw.{field}", distribution)

    def combinations(self) -> list[dict[str, Any]]:
        """The samples. Each field has its own random stream: the others do not change it."""
        streams = {field: random.Random(f"{self.seed}/{field}") for field in self.draw}
        return [
            {
                field: _drawn(distribution, streams[field])
                for field, distribution in self.draw.items()
            }
            for _ in range(self.samples)
        ]


def _check_distribution(where: str, distribution: Any) -> None:
    example = "{ log_uniform = [1e-6, 1e-2] }"
    if not isinstance(distribution, Mapping) or len(distribution) != 1:
        raise SpecError(
            f"{where} is {distribution!r}; one distribution, such as {example}, is accepted"
        )
    ((kind, values),) = distribution.items()
    if kind not in _DISTRIBUTIONS:
        raise UnknownName(f"distribution in {where},", kind, _DISTRIBUTIONS)
    _check_values(f"{where}.{kind}", values)
    if kind == "choice":
        return
    low_high = list(values)
    numbers = all(_is_number(value) for value in low_high)
    if not (numbers and len(low_high) == 2 and low_high[0] < low_high[1]):
        raise SpecError(f"{where}.{kind} is {low_high}; [low, high] is accepted")
    if kind == "log_uniform" and low_high[0] <= 0:
        raise SpecError(f"{where}.{kind} is {low_high}; numbers above 0 are accepted")


def _drawn(distribution: Mapping[str, Sequence[Any]], stream: random.Random) -> Any:
    ((kind, values),) = distribution.items()
    # Python promises for random() alone that later versions give the same numbers.
    share = stream.random()
    if kind == "choice":
        return values[int(share * len(values))]
    low, high = values
    if kind == "uniform":
        return low + share * (high - low)
    return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings to try, each in every environment and with every seed."""

    agents: Sequence[str]
    envs: Sequence[str]
    steps: int | float
    """Environment steps of each run."""
    seeds: int | Sequence[int] = 5
    """Their number, from 0 on, or a list of them."""
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    grid: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    list: Sequence[Mapping[str, Any]] = ()
    random: Draws | None = None
    info: Sequence[str] = ()
    """Numbers in the `info` of Gymnasium environments that become metrics. Runs that a store has
    already are not trained again for them."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(getattr(self, name))
        self._check_overlap()

    def _check_overlap(self) -> None:
        """Raises `SpecError` for a field that two tables set: one of them would have no effect."""
        owners: dict[str, str] = {}
        listed = {field for entry in self.list for field in flat(entry)}
        drawn = self.random.draw if self.random else {}
        tables = {"fixed": flat(self.fixed), "grid": flat(self.grid), "list": listed}
        for table, fields in (tables | {"random": drawn}).items():
            for field in fields:
                if owners.setdefault(field, table) != table:
                    raise SpecError(f"{field} is in {owners[field]} and in {table}; one is enough")

    @property
    def count(self) -> int:
        """The number of runs."""
        seeds = self.seeds if isinstance(self.seeds, int) else len(self.seeds)
        points = math.prod(len(values) for values in flat(self.grid).values())
        drawn = self.random.samples if self.random else 1
        settings = points * (len(self.list) or 1) * drawn
        return len(self.agents) * len(self.envs) * settings * seeds

    @property
    def seed_list(self) -> tuple[int, ...]:
        """All seeds."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else tuple(self.seeds)

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The changed settings of each configuration."""
        grid = flat(self.grid)
        points = [
            dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
        ]
        listed = [flat(entry) for entry in self.list] or [{}]
        drawn = self.random.combinations() if self.random else [{}]
        for point, entry, sample in itertools.product(points, listed, drawn):
            yield {**flat(self.fixed), **point, **entry, **sample}


@dataclasses.dataclass(frozen=True)
class Spec:
    """A whole experiment: one sweep, or several that share a store."""

    parts: Sequence[Sweep]
    name: str = ""
    stage_two: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """For the two-stage protocol: `seeds`, their number or a list."""
    setup: Path | None = None
    """A Python file that every worker runs first; it may register environments."""
    mistakes: Sequence[Exception] = ()
    """What is wrong in its file; `resolve` reports it with all that it finds itself."""

    def __post_init__(self) -> None:
        if not self.parts and not self.mistakes:
            raise SpecError("part is empty; at least one is accepted")
        count = sum(part.count for part in self.parts)
        if count > MOST_RUNS:
            raise SpecError(f"the sweep has {count:.6g} runs; up to {MOST_RUNS:,} are accepted")


def read_spec(path: str | Path) -> Spec:
    """The spec in a .toml or .py file; a Python one defines `sweep`, a `Sweep` or a `Spec`."""
    path = Path(path).expanduser()
    if path.suffix not in (".toml", ".py"):
        raise SpecError(f"{path} ends in {path.suffix!r}; .toml and .py are accepted")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix == ".toml":
        return _read_toml(path)
    found = run_setup(str(path.resolve())).get("sweep")
    if isinstance(found, Sweep):
        found = Spec([found])
    if not isinstance(found, Spec):
        raise SpecError(f"{path} defines sweep as {found!r}; a Sweep or a Spec is accepted")
    return dataclasses.replace(found, name=found.name or path.stem, setup=path.resolve())


def _read_toml(path: Path) -> Spec:
    if (size := path.stat().st_size) > MOST_BYTES:
        raise SpecError(f"{path} has {size:,} bytes; up to {MOST_BYTES:,} are accepted")
    try:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SpecError(f"{path} is no TOML: {error}") from error
        return parse(content, name=path.stem)
    except RecursionError:
        raise SpecError(f"{path} is no spec: its tables are nested too deeply") from None


@functools.cache
def run_setup(path: str | None) -> dict[str, Any]:
    """The names that a Python file defines; it is run once in each process. None: no names."""
    return {} if path is None else runpy.run_path(path)


_SWEEP = tuple(field.name for field in dataclasses.fields(Sweep))
_SPEC = ("name", "part", "stage_two")


def parse(content: Mapping[str, Any], name: str = "") -> Spec:
    """The spec of a TOML file's content, without the fields in which there are mistakes."""
    mistakes = Mistakes()
    _check_keys("field of a sweep", content, (*_SWEEP, *_SPEC), mistakes)
    common = {key: value for key, value in content.items() if key in _SWEEP}
    parts = content.get("part", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise SpecError("part is no list of tables; write [[part]] above each")
    if not isinstance(name := content.get("name", name), str):
        mistakes.note(SpecError(f"name is {name!r}; a text is accepted"))
    stage_two = content.get("stage_two", {})
    with mistakes.noted():
        _check_keys("field of stage_two", stage_two, ("seeds",), mistakes)
        if "seeds" in stage_two:
            _check_seeds(stage_two["seeds"], "stage_two.seeds")
    sweeps = [sweep for part in parts if (sweep := _sweep(_joined(common, part), mistakes))]
    return Spec(sweeps, str(name), stage_two, mistakes=tuple(mistakes.found.values()))


def _joined(common: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a part, with the common ones; tables of settings are merged."""
    joined = {**common, **part}
    for name in ("fixed", "grid"):
        if name in common and isinstance(part.get(name), Mapping):
            joined[name] = {**flat(common[name]), **flat(part[name])}
    return joined


def _sweep(table: Mapping[str, Any], mistakes: Mistakes) -> Sweep | None:
    """The sweep of the fields that are sound; None without agents or environments."""
    _check_keys("field of a sweep", table, _SWEEP, mistakes)
    for needed in ("agents", "envs", "steps"):
        if needed not in table:
            mistakes.note(SpecError(f"{needed} is missing"))
    sound: dict[str, Any] = {"steps": 1}
    for name, check in _CHECKS.items():
        if name in table:
            with mistakes.noted():
                check(table[name])
                sound[name] = table[name]
    if "random" in table:
        with mistakes.noted():
            sound["random"] = _draws(table["random"])
    if {"agents", "envs"} <= sound.keys():
        with mistakes.noted():
            return Sweep(**sound)
    return None


def _draws(table: Any) -> Draws:
    mistakes = Mistakes()
    _check_keys(
        "field of random", table, tuple(f.name for f in dataclasses.fields(Draws)), mistakes
    )
    for needed in ("draw", "samples"):
        if needed not in table:
            mistakes.note(SpecError(f"random.{needed} is missing"))
    if type(seed := table.get("seed", 0)) is not int:
        mistakes.note(SpecError(f"random.seed is {seed!r}; a whole number is accepted"))
    mistakes.report()
    return Draws(**{**table, "draw": _flat_distributions(table["draw"])})


def _check_names(name: str, names: Any) -> None:
    _check_values(name, names)
    if not all(isinstance(value, str) for value in names):
        raise SpecError(f"{name} is {names!r}; a list of names is accepted")


def _check_info(info: Any) -> None:
    if not isinstance(info, Sequence) or len(info) > 0:
        _check_names("info", info)


def _check_envs(envs: Any) -> None:
    _check_names("envs", envs)
    for env in envs:
        module = module_of(env)
        if module is not None and not all(part.isidentifier() for part in module.split(".")):
            raise SpecError(f"envs has {env!r}, but {module!r} is no name of a module")


def _check_steps(steps: Any) -> None:
    if not _is_number(steps):
        raise SpecError(f"steps is {steps!r}; a number is accepted")


def _check_table(name: str, table: Any) -> None:
    if not isinstance(table, Mapping):
        raise SpecError(f"{name} is {table!r}; a table is accepted")


def _check_grid(grid: Any) -> None:
    _check_table("grid", grid)
    for field, values in flat(grid).items():
        _check_values(f"grid.{field}", values)


def _check_list(entries: Any) -> None:
    if not isinstance(entries, Sequence):
        raise SpecError(f"list is {entries!r}; a list of tables is accepted")
    for entry in entries:
        if not isinstance(entry, Mapping) or not entry:
            raise SpecError(f"list has the entry {entry!r}; tables of settings are accepted")


def _check_keys(what: str, table: Any, known: Sequence[str], mistakes: Mistakes) -> None:
    _check_table(what.rpartition(" of ")[2], table)
    for key in table:
        if key not in known:
            mistakes.note(UnknownName(what, key, known))


def _check_values(name: str, values: Any) -> None:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence):
        raise SpecError(f"{name} is {values!r}; a list is accepted")
    if not len(values):
        raise SpecError(f"{name} is empty; at least one value is accepted")
    seen = set()
    for value in values:
        key = value if isinstance(value, Hashable) else repr(value)
        if key in seen:
            raise SpecError(f"{name} has {value!r} twice")
        seen.add(key)


def _check_seeds(seeds: Any, name: str = "seeds") -> None:
    accepted = "a number of seeds, or a list of different ones from 0 to 2³¹ - 1, is accepted"
    if type(seeds) is int:
        sound = 1 <= seeds <= MOST_RUNS
    elif isinstance(seeds, Sequence) and len(seeds) > 0:
        sound = all(type(seed) is int and 0 <= seed <= MOST_STEPS for seed in seeds)
        sound = sound and len(set(seeds)) == len(seeds)
    else:
        sound = False
    if not sound:
        raise SpecError(f"{name} is {seeds!r}; {accepted}")


_CHECKS = {
    "agents": functools.partial(_check_names, "agents"),
    "envs": _check_envs,
    "steps": _check_steps,
    "seeds": _check_seeds,
    "fixed": functools.partial(_check_table, "fixed"),
    "grid": _check_grid,
    "list": _check_list,
    "info": _check_info,
}
"""Each raises `SpecError` for a field of a sweep that is empty or of the wrong type."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with dotted names for the tables in it: `{"a": {"b": 1}}` gives `{"a.b": 1}`."""
    result = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            result.update({f"{key}.{inner}": each for inner, each in flat(value).items()})
        else:
            result[key] = value
    return result


def _flat_distributions(table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise SpecError(f"random.draw is {table!r}; a table is accepted")
    inner = table.get("env_params", {})
    if not isinstance(inner, Mapping):
        raise SpecError(f"random.draw.env_params is {inner!r}; a table is accepted")
    distributions = {ENV_PARAMS + name: distribution for name, distribution in inner.items()}
    return {
        **{name: value for name, value in table.items() if name != "env_params"},
        **distributions,
    }
