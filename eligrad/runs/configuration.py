"""The configuration that decides a run's result, and its hash, equal on every machine."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import numbers
from collections.abc import Mapping
from typing import Any

HASH_LENGTH = 16
"""Hexadecimal digits kept of a SHA-256: 64 bits, ample for millions of runs."""

ENV_PARAMS = "env_params."
"""Begins the name of an environment's parameter beside names of settings."""
ADDED = {"regularize": "parameters", "h": "network"}
"""Settings that were added later, with the value that earlier runs used. With that value they are
not part of the hash, so that the hash of a run stays the same."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A run without its seed, and without what changes no result (chunks, checkpoints)."""

    agent: str | None
    """A name of `eligrad.agents.PRESETS`; None for a custom agent."""
    settings: dict[str, Any]
    """All settings of the agent."""
    env: str | None
    steps: int
    max_episode_steps: int | None = None
    env_params: dict[str, Any] = dataclasses.field(default_factory=dict)
    info: list[str] = dataclasses.field(default_factory=list)
    """Numbers in the environment's `info` that become metrics; not part of the hash."""

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], run: int = 0) -> Configuration:
        """Returns the configuration of one run of a plan, as `config.json` holds it."""
        count = len(plan["seeds"])
        settings = {
            name: value[run] if isinstance(value, list) and len(value) == count else value
            for name, value in plan["settings"].items()
        }
        known: dict[str, Any] = {"info": [], **plan, "settings": settings}
        return cls(**{field.name: known[field.name] for field in dataclasses.fields(cls)})

    @functools.cached_property
    def hash(self) -> str:
        """Equal for equal configurations, in every process and on every machine."""
        content = dataclasses.asdict(self)
        del content["info"]
        content["settings"] = {
            name: value for name, value in self.settings.items() if value != ADDED.get(name, ...)
        }
        return fingerprint(content)

    @functools.cached_property
    def variant(self) -> str:
        """The hash without the environment: equal for configurations that differ only in it."""
        return dataclasses.replace(self, env=None).hash


@dataclasses.dataclass(frozen=True)
class Run:
    """One configuration and one seed."""

    configuration: Configuration
    seed: int

    @functools.cached_property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.configuration.hash}-s{self.seed}"


def fingerprint(content: Any) -> str:
    """The beginning of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(_canonical(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:HASH_LENGTH]


def _canonical(value: Any) -> Any:
    """Numbers as floats, whose shortest form Python fixes: 1 and 1.0 are the same setting."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, (bool, str)) or value is None:
        return value
    return float(value) + 0.0  # + 0.0: there is one zero


def by_size(value: Any) -> tuple[bool, float, str]:
    """The sort key of a setting's value: numbers by size, then words and what is missing."""
    # NaN is unequal to itself, and has no order.
    number = isinstance(value, numbers.Real) and value == value
    return (False, float(value), "") if number else (True, 0.0, str(value))


def shown(value: Any) -> str:
    """A setting's value as figures and tables print it; small and large numbers as 3e-4 and 1e6."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return str(value)
    if isinstance(value, numbers.Integral) and float(f"{value:g}") != value:
        return str(value)  # a number of steps that six digits do not hold
    number = float(value)
    if number == 0 or 0.01 <= abs(number) < 1e5 or not math.isfinite(number):
        return f"{number:g}"
    mantissa, exponent = f"{number:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
