"""Names that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], *, all_shown: bool = False) -> str:
    """`"; did you mean 'x' or 'y'?"`, or nothing where no known name is near.

    A message in which all known names are shown points to the nearest alone, and from further away.
    """
    most, likeness = (1, 0.4) if all_shown else (3, 0.5)
    by_lower_case = {candidate.lower(): candidate for candidate in sorted(known)}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=most, cutoff=likeness)
    nearest = " or ".join(repr(by_lower_case[candidate]) for candidate in near)
    return f"; did you mean {nearest}?" if near else ""
