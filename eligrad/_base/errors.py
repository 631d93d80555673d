"""Error messages for users: unknown names with the nearest known one, and damaged files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(name: str, known: Iterable[str], *, all_shown: bool = False) -> str:
    """`"; did you mean 'x' or 'y'?"`, or nothing where no known name is near.

    With `all_shown`, the message lists all known names; then only the nearest is suggested.
    """
    most, likeness = (1, 0.4) if all_shown else (3, 0.5)
    by_lower_case = {candidate.lower(): candidate for candidate in sorted(known)}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=most, cutoff=likeness)
    nearest = " or ".join(repr(by_lower_case[candidate]) for candidate in near)
    return f"; did you mean {nearest}?" if near else ""


class UnknownName(ValueError):
    """A name that is not among the `known` ones; the message suggests the nearest of them.

    If other libraries use the name, `here` is what the same thing is called here.
    """

    def __init__(
        self, what: str, name: str, known: Iterable[str], here: Iterable[str] = ()
    ) -> None:
        self.what = what
        self.name = name
        self.known = frozenset(known)
        self.here = tuple(here)
        hint = f"; here that is {' or '.join(map(repr, self.here))}" if self.here else ""
        super().__init__(f"unknown {what} {name!r}{hint or did_you_mean(name, self.known)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.name, self.known, self.here)


class DamagedFileWarning(UserWarning):
    """A file is cut off or altered; the message names it, and what is done without it."""


class DamagedFileError(ValueError):
    """A file is cut off, altered, or not what it should be; the message names it."""
