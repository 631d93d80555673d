"""Names that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

from eligrad._names import did_you_mean


class UnknownName(ValueError):
    """A name that is not among the `known` ones; the message suggests the nearest of them."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.what = what
        self.name = name
        self.known = frozenset(known)
        super().__init__(f"unknown {what} {name!r}{did_you_mean(name, self.known)}")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, frozenset[str]]]:
        return type(self), (self.what, self.name, self.known)
