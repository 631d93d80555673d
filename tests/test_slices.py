"""CI's parts of the long tests: all are in one, and what is not run is said."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.conftest import slice_of

NAMES = [f"tests/test_{file}.py::test_{number}" for file in range(20) for number in range(20)]


def test_every_test_is_in_one_part():
    parts = [slice_of(NAMES, f"abcdef{which:x}", 8) for which in range(8)]
    assert Counter(name for part in parts for name in part) == Counter(NAMES)
    assert all(25 <= len(part) <= 75 for part in parts)
    # The tests of a file stay together: what they share is made once.
    for part in parts:
        files = [name.partition("::")[0] for name in part]
        assert sum(a != b for a, b in itertools.pairwise(files)) == len(set(files)) - 1


def test_the_same_part_comes_in_another_order():
    once, again = (slice_of(NAMES, commit, 8) for commit in ("10", "20"))
    assert once != again
    assert sorted(once) == sorted(again)


def test_what_there_is_no_time_for_is_named(tmp_path):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_floors.py"]
    done = subprocess.run(
        [*command, "--minutes=0", "--slice=0/1"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "no time left for tests/test_floors.py::test_imports_go_down" in done.stdout
    assert "passed" not in done.stdout
