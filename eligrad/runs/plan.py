"""The plan of a run: what is trained, checked before anything is compiled. No JAX at import."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eligrad._base.checks import MOST_RUNS, MOST_STEPS, whole_number
from eligrad._base.errors import DamagedFileError, Mistakes, UnknownName
from eligrad._base.files import LARGEST, read_json, regular_size
from eligrad.agents import registry
from eligrad.envs.names import check_name
from eligrad.runs.configuration import ADDED

RUN_FORMAT = 2
"""Version of a run folder's layout. In folders of version 1, which do not say it, tables may be
without the column `run`."""
CHUNK = 1000
"""Default steps of a chunk; signals and the progress bar are handled between chunks."""
CHECKPOINTS = 20
"""Default number of checkpoints of a run."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that defines a run, as `config.json` holds it: enough to start it again."""

    agent: str | None
    """The name of a registered agent; None for a custom agent object."""
    settings: Any
    """The agent's settings: its own dataclass, in which a number may be an array with a value for
    each entry of `seeds`. Read from a file, those of a custom agent are a dict."""
    env: str | None
    """A name for `eligrad.envs.make`; None for a custom environment object."""
    max_episode_steps: int | None
    env_params: dict[str, Any]
    """Parameters of a JAX environment that differ from its defaults, by name."""
    seeds: list[int]
    """One for each run."""
    steps: int
    """Environment steps of each seed."""
    chunk: int
    checkpoint_every: int
    """Steps, a multiple of `chunk`."""
    info: list[str] = dataclasses.field(default_factory=list)
    """Numbers in the `info` of a Gymnasium environment that become metrics."""

    def __post_init__(self) -> None:
        for name in ("steps", "chunk", "checkpoint_every"):
            whole_number(name, getattr(self, name))
        for name in ("steps", "chunk"):
            if getattr(self, name) % self.rollout:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; a multiple of rollout, which is "
                    f"{self.rollout}, is accepted"
                )
        if self.checkpoint_every % self.chunk:
            raise ValueError(
                f"checkpoint_every is {self.checkpoint_every}; a multiple of chunk, which is "
                f"{self.chunk}, is accepted"
            )
        if not self.seeds or len(set(self._runs())) < len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}; different ones, at least 1, are accepted")
        if not all(0 <= seed <= MOST_STEPS for seed in self.seeds):
            raise ValueError(f"seeds are {self.seeds}; numbers from 0 to 2³¹ - 1 are accepted")

    @property
    def rollout(self) -> int:
        """Steps that an agent learns from at once."""
        return rollout_of(self.settings)

    def part(self, runs: Sequence[int]) -> Plan:
        """Returns the plan of some of the runs, by their indices."""
        seeds = [self.seeds[run] for run in runs]
        return dataclasses.replace(
            self, settings=registry.of_runs(self.settings, runs), seeds=seeds
        )

    def _runs(self) -> list[tuple[Any, ...]]:
        """For each run its seed, and its values of the settings in which runs differ."""
        if isinstance(self.settings, dict):
            each = [v for v in self.settings.values() if np.ndim(v) and len(v) == len(self.seeds)]
        else:
            each = [v.tolist() for v in registry.per_run(self.settings).values()]
        return list(zip(self.seeds, *each, strict=True))

    def to_json(self) -> dict[str, Any]:
        """JSON values, as `config.json` holds them."""
        settings = (
            self.settings if isinstance(self.settings, dict) else registry.to_json(self.settings)
        )
        return vars(self) | {"settings": settings}


def plan_in_file(content: Any, path: Path) -> Plan:
    """Returns the plan in a file; raises an error with the file's name for a bad one."""
    try:
        if content["agent"] is not None:
            runs = len(content["seeds"])
            known = vars(registry.get(content["agent"]).config)
            added = {name: value for name, value in ADDED.items() if name in known}
            settings = registry.make_settings(
                content["agent"], added | content["settings"], runs=runs
            )
            content = content | {"settings": settings}
        return Plan(**content)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise DamagedFileError(
            f"the plan in {path} is damaged, or of a later eligrad: {error}"
        ) from error


def rollout_of(settings: Any) -> int:
    """Steps that an agent with these settings learns from at once; 1 for a streaming agent."""
    if isinstance(settings, dict):
        return settings.get("rollout", 1)
    return getattr(settings, "rollout", 1)


def chunk_for(steps: int, rollout: int = 1) -> int:
    """Returns the default chunk: a rollout, or about `CHUNK` steps without rollouts.

    Chunks fill the total, since a last chunk of another size is compiled again.
    """
    if rollout > 1:
        return rollout
    fitting = (n for n in range(CHUNK // 2, CHUNK + 1) if steps % n == 0)
    return max(fitting, default=min(steps, CHUNK))


def whole_rollouts(steps: int, rollout: int) -> int:
    """Returns the steps, rounded up to whole rollouts."""
    return rollout * math.ceil(steps / rollout)


def checkpoint_every_for(steps: int, chunk: int) -> int:
    """Returns the default distance of checkpoints, for about `CHECKPOINTS` of them."""
    return chunk * math.ceil(steps / chunk / CHECKPOINTS)


def grown(plan: Plan, steps: int | float) -> Plan:
    """Returns the plan with a new total of steps; checkpoints do not become more frequent."""
    steps = whole_rollouts(whole_number("steps", steps), plan.rollout)
    if steps == plan.steps:
        return plan
    every = max(plan.checkpoint_every, checkpoint_every_for(steps, plan.chunk))
    return dataclasses.replace(plan, steps=steps, checkpoint_every=every)


def each_seed(seeds: Any) -> list[int]:
    """Returns the seeds 0, 1, … for a number of runs, or the seeds in a list."""
    if isinstance(seeds, np.ndarray):
        seeds = seeds.tolist()
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        seeds = range(whole_number("seeds", seeds))
    if len(seeds) > MOST_RUNS:
        raise ValueError(f"there are {len(seeds):,} seeds; up to {MOST_RUNS:,} are accepted")
    if not all(isinstance(seed, int | np.integer) and 0 <= seed <= MOST_STEPS for seed in seeds):
        raise ValueError(f"seeds are {seeds}; numbers from 0 to 2³¹ - 1 are accepted")
    return [int(seed) for seed in seeds]


def env_seeds(seeds: Sequence[int], start_step: int = 0) -> np.ndarray:
    """Returns the seeds of the environments, which differ from those of the agents."""
    sequences = (np.random.SeedSequence((seed, start_step)) for seed in seeds)
    return np.array([sequence.generate_state(1)[0] >> 1 for sequence in sequences], np.int64)


_OPTIONS = tuple(field.name for field in dataclasses.fields(Plan))


def read_options(path: Path) -> dict[str, Any]:
    """What `train` is to be called with: from a TOML file, or from a run folder, to begin it again.

    The keys of the file are `agent`, `env`, `steps`, `seeds` (a number or a list), and what else
    `train` takes by name; the agent's own settings are the table `settings`.
    """
    if path.is_dir():
        options = read_config(path)["plan"]
    elif not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    else:
        try:
            regular_size(path, LARGEST)
            options = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path} is no TOML file: {error}") from error
    options = {"settings": {}, "env_params": {}} | options
    _check_options(options, path)
    return {name: value for name, value in options.items() if value is not None}


def _check_options(options: dict[str, Any], path: Path) -> None:
    """Raises an error that names all mistakes in the options of a file."""
    mistakes = Mistakes()
    for name in options:
        if name not in _OPTIONS:
            mistakes.note(UnknownName(f"name in {path}:", name, _OPTIONS))
    for name, kind, accepted in (
        ("agent", str, "a name"), ("env", str, "a name"),
        ("settings", dict, "a table"), ("env_params", dict, "a table"),
    ):  # fmt: skip
        value = options.get(name)
        if not isinstance(value, kind):
            mistakes.note(ValueError(f"{name} in {path} is {value!r}; {accepted} is accepted"))
    with mistakes.noted():
        check_name(str(options.get("env")))
    steps, runs = 1, 1
    for name in ("chunk", "checkpoint_every", "max_episode_steps", "steps"):
        if options.get(name) is not None:
            with mistakes.noted():
                steps = whole_number(name, options[name])
    with mistakes.noted():
        runs = len(each_seed(options.get("seeds", 1)))
    if isinstance(options.get("agent"), str):
        with mistakes.noted():
            settings = options["settings"] if isinstance(options["settings"], dict) else {}
            registry.make_settings(options["agent"], settings, runs=runs, steps=steps)
    mistakes.report()


def read_config(folder: Path) -> dict[str, Any]:
    """Returns the content of `config.json`; raises an error for one that cannot be used."""
    path = folder / "config.json"
    if not folder.exists():
        raise FileNotFoundError(f"there is no run {folder}")
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no config.json")
    config = read_json(path)
    if not isinstance(config, dict) or not isinstance(config.get("plan"), dict):
        raise DamagedFileError(f"{path} is damaged, or not of a run: it has no plan")
    written = config.get("format", 1)
    if not (isinstance(written, int) and 1 <= written <= RUN_FORMAT):
        raise DamagedFileError(
            f"{folder} is a run of format {written}; this eligrad reads 1 to {RUN_FORMAT}: use the "
            "version that wrote it, or a later one"
        )
    return config
