"""The contract of agents, and how other tests get at the agents that are made for it."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

from eligrad.agents import registry


@contextlib.contextmanager
def registered() -> Iterator[ModuleType]:
    """Registers the agents, and removes them afterwards: other tests list all agents."""
    yield importlib.import_module("tests.contract.own_agents")
    for known in (registry.AGENTS, registry.PRESETS, registry.TITLES):
        for name in ("mean", "mean-policy"):
            known.pop(name, None)
    del sys.modules["tests.contract.own_agents"]
