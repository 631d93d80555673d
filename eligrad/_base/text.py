"""Text for the terminal: safe to print, and in columns."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str) -> str:
    """The text with every character escaped that would not be seen as itself.

    Names in files and of folders may come from anyone: a line break, a terminal's escape sequence
    or half a surrogate pair is printed as the characters that write it in Python.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def rounded(value: float | None, digits: int = 4) -> str:
    """A number to that many significant digits; a dash if there is none."""
    return "–" if value is None else f"{value:.{digits}g}"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with cells of one column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
