"""Names that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eligrad._names import did_you_mean


class UnknownName(ValueError):
    """A name that is not among the `known` ones; the message suggests the nearest of them.

    Of a name that others use for the same thing, `here` tells what it is called here.
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
