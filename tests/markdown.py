"""Code in Markdown files: found, run, parsed. Shared by the tests of README and documentation.

A block of `text` after a block of `python` is its output.

    python -m tests.markdown docs/why.md ...    writes the outputs again
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

LINK = re.compile(r"\]\(([^)\s]+)\)")
PYTHON = re.compile(r"^```python\n(.*?)^```\n(\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
MARK = "\x1e"
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""Programs that run for a moment are better compiled quickly than well."""


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


def run_blocks(codes: list[str], folder: Path, **variables: str) -> list[str]:
    """Runs blocks of code as one program; returns what each of them prints."""
    program = "".join(f"{code}\nprint({MARK!r})\n" for code in codes)
    return run(program, folder, **variables).split(MARK + "\n")[:-1]


def with_outputs(text: str, printed: list[str]) -> str:
    """The page with new outputs under those blocks that have one."""
    new = iter(printed)

    def replaced(match: re.Match[str]) -> str:
        code, shown, _ = match.groups()
        output = next(new).rstrip()
        return f"```python\n{code}```\n" + (f"\n```text\n{output}\n```\n" if shown else "")

    return PYTHON.sub(replaced, text)


def local_links(text: str) -> list[str]:
    """Targets of links and pictures that are files."""
    return [target for target in LINK.findall(without_code(text)) if "://" not in target]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        content = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as empty:
            printed = run_blocks(blocks(content, "python"), Path(empty))
        page.write_text(with_outputs(content, printed), encoding="utf-8")
