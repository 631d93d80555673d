"""Makes text from files safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every character escaped that would not be seen as itself.

    Names in files and of folders may come from anyone: a line break, a terminal's escape sequence
    or half a surrogate pair is printed as the characters that write it in Python.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
