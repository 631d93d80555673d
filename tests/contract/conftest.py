from __future__ import annotations

import importlib
import sys

import pytest

from eligrad.agents import registry


@pytest.fixture(autouse=True, scope="package")
def own_agents():
    """Registers the agents, and removes them afterwards: other tests list all agents."""
    importlib.import_module("tests.contract.own_agents")
    yield
    for known in (registry.AGENTS, registry.PRESETS, registry.TITLES):
        for name in ("mean", "mean-policy"):
            known.pop(name, None)
    del sys.modules["tests.contract.own_agents"]
