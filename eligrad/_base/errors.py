"""Error messages for users: unknown names with the nearest known one, and damaged files."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
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


SHOWN = 20
"""So many known names are listed where none is near."""


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
        hint = hint or did_you_mean(name, self.known)
        if not hint and len(self.known) <= SHOWN:
            hint = f"; accepted: {', '.join(sorted(self.known))}"
        super().__init__(f"unknown {what} {name!r}{hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.name, self.known, self.here)


class Mistakes:
    """The mistakes that several checks find, to be reported together."""

    def __init__(self, found: Iterable[Exception] = ()) -> None:
        self.found = {str(error): error for error in found}

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Notes an error of the block, and goes on after it."""
        try:
            yield
        except (ValueError, TypeError) as error:
            self.note(error)

    def note(self, error: Exception) -> None:
        """Adds a mistake, or several, each once."""
        self.found |= error.found if isinstance(error, SeveralMistakes) else {str(error): error}

    def report(self) -> None:
        """Raises the mistake if one was found, and one error for all if there are several."""
        if len(self.found) > 1:
            raise SeveralMistakes(self.found)
        for error in self.found.values():
            raise error


class SeveralMistakes(ValueError):
    """Several mistakes, by their messages."""

    def __init__(self, found: dict[str, Exception]) -> None:
        self.found = found
        super().__init__("".join([f"{len(found)} mistakes:", *(f"\n- {text}" for text in found)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.found,)


def messages_of(error: Exception) -> list[str]:
    """The message of an error; of several mistakes that of each."""
    return [*error.found] if isinstance(error, SeveralMistakes) else [str(error) or repr(error)]


class DamagedFileWarning(UserWarning):
    """A file is cut off or altered; the message names it, and what is done without it."""


class DamagedFileError(ValueError):
    """A file is cut off, altered, or not what it should be; the message names it."""
