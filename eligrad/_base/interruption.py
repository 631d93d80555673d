"""Ctrl-C and termination, answered between two chunks."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal, at a step from which it can be resumed."""

    def __init__(self, signal_number: int, step: int, folder: Any) -> None:
        self.signal_number = signal_number
        self.step = step
        self.folder = folder
        where = f"; saved in {folder}" if folder is not None else ""
        super().__init__(f"stopped at step {step:,} by {self.signal_name}{where}")

    @property
    def signal_name(self) -> str:
        """Such as SIGINT."""
        return signal.Signals(self.signal_number).name


class Interruption:
    """Within this context a first SIGINT or SIGTERM is stored in `signal_number`, and not raised.

    A second one does what it would have done outside. Signals belong to a process's main thread;
    in others the context does nothing.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # None: set by code other than Python's; ignored ones (nohup) stay ignored.
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()
        # Not print: a handler may run in the middle of another write to the same buffer.
        os.write(2, b"\nstopping after this chunk; once more stops at once\n")


@contextlib.contextmanager
def ignored_by_children() -> Iterator[None]:
    """Processes started within this context ignore SIGINT and SIGTERM, from the beginning.

    A terminal and a scheduler signal all processes of a run; only the first one handles it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # where there is none, as on Windows
        yield
        return
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
