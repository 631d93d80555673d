"""Run folders are read on machines that have no JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import eligrad.runs

PROGRAM = """
import importlib, sys
sys.modules["jax"] = None
for name in sys.argv[1:]:
    importlib.import_module(f"eligrad.runs.{name}")
"""


def test_no_module_of_runs_imports_jax():
    folder = Path(str(eligrad.runs.__file__)).parent
    names = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    assert "folder" in names
    subprocess.run([sys.executable, "-c", PROGRAM, *names], check=True, cwd=folder.parents[1])
