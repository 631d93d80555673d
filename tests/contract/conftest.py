from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from eligrad.agents import registry


@pytest.fixture(autouse=True, scope="package")
def own_agents():
    """Registers the agents; other tests ask which there are, so that these are gone afterwards."""
    runpy.run_path(str(Path(__file__).parent / "own_agents.py"))
    yield
    for known in (registry.AGENTS, registry.PRESETS, registry.TITLES):
        for name in ("mean", "mean-policy"):
            known.pop(name, None)
