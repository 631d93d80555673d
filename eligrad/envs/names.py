"""Names that nobody knows, and those that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnknownName(ValueError):
    """A name that is not among the `known` ones; the message suggests the nearest of them."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what = what
        self.name = name
        self.known = frozenset(known)
        super().__init__(f"unknown {what} {name!r}{did_you_mean(name, self.known)}")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, frozenset[str]]]:
        return type(self), (self.what, self.name, self.known)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x' or 'y'?"`, or nothing where no known name is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in sorted(known)}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0.5)
    nearest = " or ".join(repr(by_lower_case[candidate]) for candidate in near)
    return f"; did you mean {nearest}?" if near else ""
