"""What the README shows must run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_example_prints_what_it_says(tmp_path):
    code = blocks("python")[0]
    assert len(code.strip().splitlines()) <= 20
    promised = [float(x) for x in re.findall(r"\d+\.\d+", code.splitlines()[-1].split("#")[1])]
    printed = [float(x) for x in re.findall(r"-?\d+\.\d+", run(code, tmp_path))]
    assert printed == pytest.approx(promised, abs=0.15)


@pytest.mark.parametrize("code", blocks("python")[1:])
def test_the_others_run(code, tmp_path):
    run(code, tmp_path)


def test_make_knows_the_commands():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"make ([a-z-]+)", README)
    assert {"demo", "test"} <= set(named) <= set(targets)


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
