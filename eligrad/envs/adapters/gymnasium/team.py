"""Several loops at once: in threads, or in processes.

What they can win is limited. MuJoCo computes without the interpreter lock for 71 % of a step of
HalfCheetah-v5 (44 µs) and 81 % of one of Ant-v5 (237 µs), so that threads on two cores are at most
1.5 and 1.7 times as fast as a loop; and every step of all copies pays for a hand-over to each
worker, tens of microseconds for a thread, more for a process. On two idle cores threads made 0.6
(4 copies of HalfCheetah) to 1.7 times (16 of Ant) the loop's steps; where the cores are busy with
something else, a learner say, they gained nothing. The loop is the default; with slow simulators
and idle cores take threads (`python -m benchmarks.gymnasium_workers` measures it).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import accumulate, chain, pairwise
from typing import Any

import cloudpickle
import numpy as np

from eligrad._processes import picklable
from eligrad.envs.adapters.gymnasium.loop import Loop
from eligrad.envs.host import HostTransition


class Team(ABC):
    """Divides the copies among members, each of which is a `Loop`, and joins their answers."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._ranges = [slice(*ends) for ends in pairwise(accumulate(sizes, initial=0))]

    @abstractmethod
    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls `method` of every member at once, each with its own arguments."""

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """First observations of all copies."""
        return np.concatenate(self._ask("reset", self._divide(seeds)))

    def step(self, actions: np.ndarray) -> HostTransition:
        """One transition of all copies."""
        answers = self._ask("step", self._divide(actions))
        return HostTransition(*map(np.concatenate, zip(*answers, strict=True)))

    def snapshot(self) -> list[bytes]:
        """The state of each copy; `NotData` says what of it cannot be told."""
        return list(chain(*self._ask("snapshot", self._nothing)))

    def restore(self, snapshots: Sequence[bytes]) -> None:
        """The inverse of `snapshot`."""
        self._ask("restore", self._divide(snapshots))

    def render(self) -> list[Any]:
        """A frame of each copy."""
        return list(chain(*self._ask("render", self._nothing)))

    def close(self) -> None:
        """Ends all copies."""
        self._ask("close", self._nothing)

    def _divide(self, of_all_copies: Any) -> list[tuple[Any]]:
        return [(of_all_copies[part],) for part in self._ranges]

    @property
    def _nothing(self) -> list[tuple[()]]:
        return [() for _ in self._ranges]


class Threads(Team):
    """Helps as far as the simulator releases the interpreter lock while it computes."""

    def __init__(self, build: Callable[[int], Loop], sizes: Sequence[int]) -> None:
        super().__init__(sizes)
        self._loops = [build(size) for size in sizes]
        self._pool = ThreadPoolExecutor(len(sizes), thread_name_prefix="eligrad-env")

    def render(self) -> list[Any]:
        """A frame of each copy, drawn in the caller's thread: a graphics context belongs to one."""
        return list(chain(*(loop.render() for loop in self._loops)))

    def close(self) -> None:
        """Ends all copies."""
        self._pool.shutdown()
        for loop in self._loops:
            loop.close()

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        calls = [getattr(loop, method) for loop in self._loops]
        others = [
            self._pool.submit(call, *args)
            for call, args in zip(calls[1:], arguments[1:], strict=True)
        ]
        try:  # the caller takes its share of the work: one hand-over less
            mine = calls[0](*arguments[0])
        finally:
            wait(others)
        return [mine, *(other.result() for other in others)]


class Processes(Team):
    """Helps with simulators that hold the interpreter lock, if a step takes them long enough."""

    def __init__(self, build: Callable[[int], Loop], sizes: Sequence[int]) -> None:
        super().__init__(sizes)
        # Not "fork": a copy of a process with JAX's threads in it may hang.
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        self._processes = []
        for size in sizes:
            pipe, remote = context.Pipe()
            recipe = cloudpickle.dumps((build, size))
            process = context.Process(target=_serve, args=(remote, recipe), daemon=True)
            with _without_main():
                process.start()
            remote.close()
            self._pipes.append(pipe)
            self._processes.append(process)

    def close(self) -> None:
        """Ends all copies."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            for pipe, args in zip(self._pipes, arguments, strict=True):
                pipe.send((method, args))
            # All answers are taken before an error is raised, so that none is left in a pipe.
            answers = [pipe.recv() for pipe in self._pipes]
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            codes = [process.exitcode for process in self._processes]
            raise RuntimeError(f"an environment's process ended; exit codes {codes}") from error
        for _, error, trace in answers:
            if error is not None:
                raise error from RuntimeError(f"in an environment's process:\n{trace}")
        return [answer for answer, _, _ in answers]


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keeps a new process from running the user's script once more.

    It would import the script in order to find what is defined there; our recipes bring that along.
    """
    main = sys.modules["__main__"]
    hidden = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    try:
        vars(main).update(dict.fromkeys(hidden))
        yield
    finally:
        vars(main).update(hidden)


def _serve(pipe: Any, recipe: bytes) -> None:
    """Answers the calls of `Processes` until it hangs up."""
    # Ctrl-C reaches all processes of a terminal; what happens then is the caller's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop: Loop | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            break
        try:
            if loop is None:
                build, size = cloudpickle.loads(recipe)
                loop = build(size)
            answer = (getattr(loop, method)(*arguments), None, None)
        except Exception as error:
            answer = (None, picklable(error), traceback.format_exc())
        pipe.send(answer)
    if loop is not None:
        loop.close()
