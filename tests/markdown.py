"""Code in Markdown files: found, run, parsed. Shared by the tests of README and documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    """The text without code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def run(code: str, folder: Path, **variables: str) -> str:
    """Returns what a program prints, with these environment variables; asserts that it succeeds."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env=os.environ | variables,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def local_links(text: str) -> list[str]:
    """Targets of links and pictures that are files."""
    return [target for target in LINK.findall(without_code(text)) if "://" not in target]
