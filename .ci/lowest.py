"""Prints requirements for pip: the lowest version of each package that pyproject.toml allows.

python .ci/lowest.py gymnasium mujoco         the core and these extras
python .ci/lowest.py gymnasium pytest         of the extra dev single packages, by name
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def lowest(names: list[str]) -> Iterator[str]:
    """`package==version` of the core, of extras, and of single packages of the extra dev."""
    extras = PROJECT["optional-dependencies"]
    tools = {re.split("[>[]", each)[0]: [each] for each in extras["dev"]}
    groups = [PROJECT["dependencies"]]
    groups += [extras[name] if name in extras else tools[name] for name in names]
    for requirement in dict.fromkeys(each for group in groups for each in group):
        yield requirement.partition(",")[0].replace(">=", "==")


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
