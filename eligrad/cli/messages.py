"""Messages of errors and warnings in commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from eligrad._base.errors import DamagedFileWarning, messages_of
from eligrad._base.optional import needs_train
from eligrad._base.text import printable


def run(command: str, action: Callable[[], int], *, debug: bool = False) -> int:
    """Runs a command and returns its exit code; errors and warnings are one line each, once.

    For debugging they are shown as Python does.
    """
    if debug:
        return action()
    said = set()

    def say(message: Any, *_: object) -> None:
        text = printable(str(message))
        if text not in said:
            print(f"eligrad {command}: {text}", file=sys.stderr)
        said.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DamagedFileWarning)
        warnings.showwarning = say
        try:
            with needs_train("this command"):
                return action()
        except BrokenPipeError:  # `eligrad.cli.main` ends without a word
            raise
        except (ValueError, TypeError, ImportError, OSError) as error:
            for text in messages_of(error):
                say(text)
            return 2
