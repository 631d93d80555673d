"""One engine in several processes, each with some of the runs.

Simulators outside JAX keep one core busy; several processes keep all of them busy. A run is the
same, bit for bit, in every process. Each process makes its own engine, so that what makes
it must be picklable.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad._base.interruption import ignored_by_children
from eligrad._base.system import picklable
from eligrad.agents.protocol import Agent, observation_struct
from eligrad.engines.devices import calling_thread, compile_seconds, count_compiling
from eligrad.engines.engine import Engine
from eligrad.engines.episodes import Record
from eligrad.engines.host import HostState
from eligrad.engines.sharding import spread
from eligrad.engines.simulators import HostEngine, join, share_of


class WorkerDied(RuntimeError):
    """A process that trained some of the runs has died, perhaps from lack of memory."""


class Multiprocess(HostEngine):
    """An engine for environments outside JAX, in several processes."""

    def __init__(
        self,
        make: Callable[[Sequence[int]], Engine],
        count: int,
        processes: int,
        agent: Agent,
        observation_space: Any,
    ) -> None:
        """Starts the processes.

        Args:
            make: from the indices of some runs to their engine; called in each process.
            count: how many runs there are.
            processes: how many share them.
            agent: the agent of all runs, for the structure of their state.
            observation_space: of the environment.
        """
        self.count = count
        self._structure = _structure(agent, observation_space, count)
        self._shares = np.array_split(np.arange(self.count), processes)
        context = multiprocessing.get_context("spawn")
        self._members: list[tuple[Any, Any]] = []
        if sys.platform != "win32":  # which has none
            resource_tracker.ensure_running()  # else its start would have signals heard again
        try:
            with ignored_by_children():
                for share in self._shares:
                    ours, theirs = context.Pipe()
                    arguments = (theirs, functools.partial(make, share.tolist()), _jax_settings())
                    member = context.Process(target=_work, args=arguments, daemon=True)
                    member.start()
                    theirs.close()
                    self._members.append((member, ours))
            self._faults = np.concatenate(self._ask("fault_step"))
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Any:
        """All that a checkpoint must hold, of all processes."""
        leaves = [
            join(parts) if isinstance(parts[0], bytes) else np.concatenate(parts)
            for parts in zip(*self._ask("state"), strict=True)
        ]
        state = jax.tree.unflatten(self._structure, leaves)
        return state._replace(agent_key=jax.random.wrap_key_data(jnp.asarray(state.agent_key)))

    @state.setter
    def state(self, state: Any) -> None:
        leaves = _leaves(state)

        def part(leaf: Any, share: np.ndarray) -> Any:
            if isinstance(leaf, bytes):
                return share_of(leaf, int(share[0]), len(share), self.count)
            return leaf[share]

        self._ask("restore", [[part(leaf, share) for leaf in leaves] for share in self._shares])
        self._faults = np.asarray(state.fault_step)

    @property
    def fault_step(self) -> np.ndarray:
        """First step of each run with a number that is not finite, or -1."""
        return self._faults

    @property
    def obstacle(self) -> str:
        """Why a state has no simulators, in words."""
        return self._ask("obstacle")[0]

    def advance(self, steps: int) -> Record:
        """Advances all runs, all processes at once; returns records of shape [runs, steps]."""
        records, faults, compiling = zip(*self._ask("advance", steps), strict=True)
        count_compiling(max(compiling))
        self._faults = np.concatenate(faults)
        return jax.tree.map(lambda *each: np.concatenate(each), *records)

    def interrupt(self, env_seeds: np.ndarray) -> None:
        """Starts new episodes in new simulators; unfinished ones count as truncated."""
        self._ask("interrupt", [env_seeds[share] for share in self._shares])

    def close(self) -> None:
        """Ends all processes."""
        for _, pipe in self._members:
            pipe.close()  # which ends the process at its other end
        for member, _ in self._members:
            member.join(timeout=10)
            if member.is_alive():
                member.kill()
                member.join()

    def _ask(self, request: str, argument: Any = None) -> list[Any]:
        """Sends a call to all processes and waits for them; a list has a part for each."""
        for place, (_, pipe) in enumerate(self._members):
            own = argument[place] if isinstance(argument, list) else argument
            _guarded(pipe.send, (request, own))
        answers = [_guarded(pipe.recv) for _, pipe in self._members]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


def _guarded(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except (EOFError, OSError) as error:
        raise WorkerDied(
            "a process that trains some of the runs has died; it may have been killed for lack of "
            "memory (fewer processes need less)"
        ) from error


def _jax_settings() -> dict[str, Any]:
    """Settings of JAX and the system that a new process does not inherit."""
    names = (
        "jax_compilation_cache_dir",
        "jax_compilation_cache_max_size",
        "jax_default_matmul_precision",
        "jax_default_prng_impl",
        "jax_enable_x64",
        "jax_numpy_dtype_promotion",
        "jax_threefry_partitionable",
    )
    return {name: jax.config.values[name] for name in names}


def _work(pipe: Connection, make: Callable[[], Engine], jax_settings: dict[str, Any]) -> None:
    """One process: makes the engine, then does what is asked until the pipe is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name, value in jax_settings.items():
        jax.config.update(name, value)
    calling_thread()
    engine: Any = None
    while True:
        try:
            request, argument = pipe.recv()
        except (EOFError, OSError):  # closed, or its other end was killed
            break
        try:
            if engine is None:
                engine = make()
            answer = _answer(engine, request, argument)
        except Exception as error:
            answer = picklable(error)
        try:
            pipe.send(answer)
        except OSError:
            break
    if engine is not None:
        engine.close()


def _end_with_parent() -> None:
    """Ends this process when its parent has ended, even in an environment that hangs."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(engine: Any, request: str, argument: Any) -> Any:
    if request == "advance":
        before = compile_seconds()
        record = jax.tree.map(np.asarray, engine.advance(argument))
        return record, np.asarray(engine.fault_step), compile_seconds() - before
    if request == "state":
        return _leaves(engine.state)
    if request == "restore":
        engine.state = _restored(engine.state, argument)
        return None
    if request == "interrupt":
        return engine.interrupt(argument)
    return getattr(engine, request)


def _leaves(state: Any) -> list[Any]:
    """A state as arrays of NumPy, to go through a pipe, which the structure might not."""
    words = jax.random.key_data(state.agent_key)
    leaves = jax.tree.leaves(state._replace(agent_key=words))
    return [leaf if isinstance(leaf, bytes) else np.asarray(leaf) for leaf in leaves]


def _restored(like: Any, leaves: list[Any]) -> Any:
    """A state of the kind of `like`, from such leaves."""
    kinds = jax.tree.leaves(like)
    leaves = [
        jnp.asarray(new) if isinstance(old, jax.Array) else new
        for old, new in zip(kinds, leaves, strict=True)
    ]
    state = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return state._replace(agent_key=jax.random.wrap_key_data(state.agent_key))


def _structure(agent: Agent, observation_space: Any, runs: int) -> Any:
    """The tree structure of a state."""
    one = jax.tree.map(lambda leaf: leaf[0], spread(agent, runs))
    first = observation_struct(agent, observation_space)
    state = jax.eval_shape(lambda key, obs: one.init(key, obs), jax.random.key(0), first)
    return jax.tree.structure(HostState(state, *[0] * 5, b""))  # pyright: ignore
