"""Runs sharded over the available devices.

One program needs the same number of runs on each device. If the runs cannot be divided evenly, the
last one is repeated; results of the repetitions are dropped, and checkpoints do not hold them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from eligrad.engines.devices import jit
from eligrad.engines.episodes import Record
from eligrad.envs.core import Environment


class Shares:
    """A leading axis of runs, sharded over the local devices."""

    def __init__(self, count: int) -> None:
        devices = jax.local_devices()
        used, each = share_out(count, len(devices))
        self.sharding = _over(devices[:used])
        self._first = devices[0]
        self._count = count
        self._rows = np.minimum(np.arange(used * each), count - 1)
        self._even = used * each == count

    def fill(self, tree: PyTree) -> PyTree:
        """The runs and their repetitions, as many on each device."""
        if self._even:
            return tree
        return jax.tree.map(lambda leaf: jax.device_put(leaf[self._rows], self.sharding), tree)

    def drop(self, tree: PyTree) -> PyTree:
        """The runs without repetitions, on the first device."""
        if self._even:
            return tree
        return jax.tree.map(lambda leaf: jax.device_put(leaf, self._first)[: self._count], tree)


def share_out(count: int, devices: int) -> tuple[int, int]:
    """How many of the devices to use, and how many runs each of them has.

    The shares are the smallest that hold all runs; no device has repetitions alone.
    """
    each = -(-count // devices)
    return -(-count // each), each


class DeviceEngine:
    """Base of the engines whose environments are in JAX.

    Args:
        agents: one agent, or a batch of settings: a pytree whose numeric leaves have a leading axis
            with one entry for each run.
        env: the environment.
        params: its numbers: one set, or a batch with one entry for each run.
        agent_seeds: one for each run; they decide the agents' random numbers.
        env_seeds: one for each run; they decide the environments' random numbers.
    """

    _begin: Callable[..., Any]
    """Starts one run, from agent, environment, its numbers and two seeds."""
    _advance_all: Callable[..., tuple[Any, Record]]
    """Advances all runs, from agents, numbers, state and steps."""
    _state: Any
    """The state of all runs and their repetitions: a NamedTuple with `fault_step`."""

    def __init__(
        self,
        agents: Any,
        env: Environment,
        params: Any,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
    ) -> None:
        self.count, self.env = len(agent_seeds), env
        self.agents = spread(agents, self.count)
        self.params = spread(params, self.count, like=env.default_params())
        self._shares = Shares(self.count)
        self._settings = self._shares.fill((self.agents, self.params))
        seeds = self._shares.fill((jnp.asarray(agent_seeds), jnp.asarray(env_seeds)))
        start = for_each_run(
            lambda agent, *run: self._begin(agent, env, *run), self._shares.sharding
        )
        self._state = jax.jit(start)(*self._settings, *seeds)
        self._advance = jit(self._advance_all, static_argnums=3, donate_argnums=2)

    def advance(self, steps: int) -> Record:
        """Advances all runs; returns records of shape [runs, steps]."""
        self._state, records = self._advance(*self._settings, self._state, steps)
        return self._shares.drop(records)

    @property
    def state(self) -> Any:
        """All that a checkpoint must hold."""
        return self._shares.drop(self._state)

    @state.setter
    def state(self, state: Any) -> None:
        self._state = self._shares.fill(state)

    @property
    def fault_step(self) -> Array:
        """First step of each run with a number that is not finite, or -1."""
        return self._shares.drop(self._state.fault_step)

    def close(self) -> None:
        """Frees nothing: this engine holds neither processes nor simulators."""


def for_each_run(
    function: Callable[..., Any], sharding: NamedSharding, in_place: bool = False
) -> Callable[..., Any]:
    """`function` of one run, for all runs of a leading axis, a share of them on each device.

    An accelerator takes its share at once, by `vmap`. A CPU takes one run after the other: the
    parameters and traces of one agent stay in its cache where those of many do not, and a run is
    then the same program, bit for bit, whatever other runs there are. With `in_place` its last
    argument is a state, the first result the new one, and runs write theirs over the old: where
    many wait for their turn, one copy of their states less.
    """

    def share(*arguments: Any) -> Any:
        if not in_turn(sharding):
            return jax.vmap(function)(*arguments)
        if in_place:
            return _map_in_place(function, *arguments)
        return jax.lax.map(lambda run: function(*run), arguments)

    return jax.shard_map(
        share,
        mesh=sharding.mesh,
        in_specs=sharding.spec,
        out_specs=sharding.spec,
        check_vma=False,
    )


def _map_in_place(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    *others, states = arguments
    first = jax.tree.map(lambda leaf: leaf[0], arguments)
    count = jax.tree.leaves(states)[0].shape[0]
    _, record = jax.eval_shape(function, *first)
    records = jax.tree.map(lambda leaf: jnp.empty((count, *leaf.shape), leaf.dtype), record)

    def turn(run: Array, done: tuple[Any, Any]) -> tuple[Any, Any]:
        of_run = functools.partial(jax.lax.dynamic_index_in_dim, index=run, keepdims=False)
        result = function(*jax.tree.map(of_run, others), jax.tree.map(of_run, done[0]))
        return jax.tree.map(
            lambda all_runs, one: jax.lax.dynamic_update_index_in_dim(all_runs, one, run, 0),
            done,
            result,
        )

    return jax.lax.fori_loop(0, count, turn, (states, records))


def in_turn(sharding: NamedSharding) -> bool:
    """Whether the runs on a device take turns."""
    return all(device.platform == "cpu" for device in sharding.device_set)


def here() -> NamedSharding:
    """All runs on one device."""
    return _over(jax.local_devices()[:1])


def _over(devices: list[Any]) -> NamedSharding:
    return NamedSharding(Mesh(np.array(devices), ("runs",)), PartitionSpec("runs"))


def spread(tree: PyTree, count: int, like: PyTree = None) -> PyTree:
    """Numbers that all runs share, given to each of them.

    A leaf of the rank it has in `like` (0 without it) is shared; one axis more, and it has a value
    for each run already.
    """

    def leaf(value: Any, rank: int) -> Array:
        array = jnp.asarray(value)
        if array.ndim == rank:
            return jnp.broadcast_to(array, (count, *array.shape))
        if array.ndim != rank + 1 or array.shape[0] != count:
            raise ValueError(
                f"a setting has shape {array.shape} for {count} runs; one value of rank {rank}, "
                "or one for each run, is accepted"
            )
        return array

    if like is None:
        return jax.tree.map(lambda value: leaf(value, 0), tree)
    given, wanted = jax.tree.structure(tree), jax.tree.structure(like)
    if given != wanted:
        raise ValueError(f"params have structure {given}; that of default_params() is {wanted}")
    return jax.tree.map(lambda value, one: leaf(value, jnp.ndim(one)), tree, like)
