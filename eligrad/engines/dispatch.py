"""One call of an agent whose environment is not in JAX: learn from a transition, then act.

The streaming engine acts and learns within one step of its scan. An agent that waits for the
environment in between does the same in the other order: it learns from step t and chooses for
t + 1. Random numbers belong to steps, not to calls, so that both give the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped, UInt32

from eligrad._base import kernels
from eligrad.agents.protocol import Transition
from eligrad.engines.devices import jit
from eligrad.engines.packing import Packing


class StepKeys(NamedTuple):
    """The keys of one step, as words: for acting, and for learning."""

    act: UInt32[Array | np.ndarray, "... words"]
    update: UInt32[Array | np.ndarray, "... words"]


def split_step_key(agent_key: PRNGKeyArray, number: Int[Array, ""]) -> Shaped[Array, "2"]:
    """The keys for acting and for learning in a step or a rollout; numbers count from 1."""
    return jax.random.split(jax.random.fold_in(agent_key, number))


def step_keys(agent_key: PRNGKeyArray, step: Int[Array, ""]) -> StepKeys:
    """The keys of a step as words of 32 bits."""
    act, update = split_step_key(agent_key, step)
    return StepKeys(jax.random.key_data(act), jax.random.key_data(update))


class KeyBlocks:
    """The keys of all steps of one or many agents, made many steps at a time.

    Key arithmetic is a chain of small operations: in each dispatch it would cost a CPU as much as
    a third of the learning.
    """

    SIZE = 512

    def __init__(self, agent_keys: Shaped[Array, "..."]) -> None:
        self._make = _of_many if agent_keys.ndim else _of_one
        self.agent_keys = agent_keys
        self._number = -1
        self._block = StepKeys(np.zeros(0, np.uint32), np.zeros(0, np.uint32))

    def of(self, step: int) -> StepKeys:
        """The keys of one step; numbers go round after 2^32 steps."""
        number, place = divmod(step % 2**32, self.SIZE)
        if number != self._number:
            steps = (self.SIZE * number + np.arange(self.SIZE)).astype(np.uint32).view(np.int32)
            made = self._make(self.agent_keys, jnp.asarray(steps))
            self._block, self._number = StepKeys(*map(np.asarray, made)), number
        return StepKeys(self._block.act[place], self._block.update[place])


_over_steps = jax.vmap(step_keys, (None, 0))
_of_one = jax.jit(_over_steps)
_of_many = jax.jit(jax.vmap(_over_steps, (0, None), out_axes=1))


class Dispatch:
    """An agent's programs for one step, over its packed settings and state.

    Args:
        agent: one agent; its settings may be other numbers in each call.
        state: its state, or one like it.
        observation: an observation, or one like it.
    """

    def __init__(self, agent: Any, state: Any, observation: Any) -> None:
        self._settings = Packing(jax.eval_shape(lambda: jax.tree.map(jnp.asarray, agent)))
        self._state = Packing(jax.eval_shape(lambda: state))
        self._shape, self._dtype = observation.shape, np.dtype(observation.dtype)
        self._words = -(-math.prod(self._shape) * self._dtype.itemsize // 4)
        self._on_cpu = jax.default_backend() == "cpu"
        # The whole step of other networks is one kernel; see `one_kernel`.
        self._in_parts = self._on_cpu and len(self._shape) > 1
        self._action: Any = None
        self.metrics: tuple[str, ...] = ()
        """Names of the agent's metrics, known once `observe` is traced."""

    def pack_settings(self, agent: Any) -> list[Array]:
        """The agent as `choose` and `observe` take it."""
        return self._settings.pack(jax.tree.map(jnp.asarray, agent))

    def pack(self, state: Any) -> list[Array]:
        """The state as `choose` and `observe` take it."""
        return self._state.pack(state)

    def unpack(self, packed: list[Array]) -> Any:
        """The state as the agent knows it."""
        return self._state.unpack(packed)

    def message(
        self,
        update_key: UInt32[Array | np.ndarray, "*runs words"],
        next_act_key: UInt32[Array | np.ndarray, "*runs words"],
        transition: Any,
    ) -> UInt32[np.ndarray, "*runs all_words"]:
        """Keys and transition of a step as one array; each array of a call costs microseconds."""
        runs = update_key.shape[:-1]
        rest = np.empty((*runs, 3), np.uint32)
        rest[..., 0] = np.asarray(transition.reward, np.float32).view(np.uint32)
        rest[..., 1], rest[..., 2] = transition.terminated, transition.truncated
        first = following = _to_words(transition.next_observation, self._dtype, runs)
        if transition.observation is not transition.next_observation:
            first = _to_words(transition.observation, self._dtype, runs)
        return np.concatenate((update_key, next_act_key, rest, following, first), axis=-1)

    def choose(
        self, settings: list[Array], act_key: UInt32[Array, " words"], packed: list[Array]
    ) -> tuple[list[Array], Array]:
        """Returns the state, and the action of a step in the current observation."""
        agent = self._settings.unpack(settings)
        state, action = agent.act(self.unpack(packed), jax.random.wrap_key_data(act_key))
        return self.pack(state), action

    def observe(
        self, settings: list[Array], message: UInt32[Array, " all_words"], packed: list[Array]
    ) -> tuple[list[Array], UInt32[Array, " answer"]]:
        """Learns from the transition of a step, and chooses the action of the next step.

        Returns the state, and the action and the metrics, which `read` reads.

        Args:
            settings: the agent's.
            message: the transition, and the keys of both steps; see `message`.
            packed: the agent's state.
        """
        shape, dtype, length = self._shape, self._dtype, self._words
        size = (message.size - 3 - 2 * length) // 2
        keys, ends, seen = jnp.split(message, (2 * size, 2 * size + 3))
        transition = Transition(
            jax.lax.bitcast_convert_type(ends[0], jnp.float32),
            ends[1] != 0,
            ends[2] != 0,
            _from_words(seen[:length], shape, dtype),
            _from_words(seen[length:], shape, dtype),
        )

        def learn(packed: list[Array]) -> tuple[list[Array], Array]:
            agent = self._settings.unpack(settings)
            update_key, next_act_key = map(jax.random.wrap_key_data, jnp.split(keys, 2))
            with kernels.for_one_run(on_cpu=self._in_parts):
                state, metrics = agent.update(self.unpack(packed), transition, update_key)
            # Else a compiler may compute a metric anew where it is stored, to another last bit.
            metrics = jax.lax.optimization_barrier(metrics)
            state, action = agent.act(state, next_act_key)
            self.metrics, self._action = tuple(metrics), jax.eval_shape(lambda: action)
            numbers = [jnp.asarray(value, jnp.float32) for value in metrics.values()]
            words = [jnp.ravel(action).astype(_word(action.dtype)), jnp.stack(numbers)]
            answer = [jax.lax.bitcast_convert_type(each, jnp.uint32) for each in words]
            return self.pack(state), jnp.concatenate(answer)

        # A loop of one turn, though the compiler does not know it: what it makes of the turn does
        # not depend on what is around it, and so the bits not on how many runs there are.
        once = jax.lax.optimization_barrier(jnp.int32(1))
        answer = jax.eval_shape(learn, packed)[1]
        blank = jnp.zeros(answer.shape, answer.dtype)
        return jax.lax.fori_loop(0, once, lambda _, done: learn(done[0]), (packed, blank))

    def one_kernel(self, settings: list[Array], packed: list[Array]) -> Callable[..., Any] | None:
        """`observe` compiled as one kernel, which uses up the state; None where it cannot be.

        For CPUs. A call of a program of many kernels takes two changes of threads: the runtime
        gives a part of them to a pool wherever more than eight could run at once. Networks for
        images multiply matrices, for which a kernel would have to call a library: there only small
        parts of `observe` are one kernel each. Agents that sort cannot be one kernel either; XLA
        may log an error then, before the plain program is made.
        """
        if self._in_parts or not (self._on_cpu and kernels.available()):
            return None
        kernel: Any = jit(kernels.whole_program(self._observe_and_read_all), donate_argnums=2)
        keys = 2 * jax.random.key_data(jax.random.key(0)).size
        message = np.zeros(keys + 3 + 2 * self._words, np.uint32)
        try:
            kernel.lower(settings, message, packed).compile()
        except jax.errors.JaxRuntimeError:
            return None
        return kernel

    def _observe_and_read_all(
        self, settings: list[Array], message: UInt32[Array, " all_words"], packed: list[Array]
    ) -> tuple[list[Array], UInt32[Array, " answer"]]:
        """`observe`, whose results depend on every argument, as `whole_program` needs.

        The answer ends with a number of each. Of the state, the loop of `observe` is enough.
        """
        state, answer = self.observe(settings, message, packed)
        read = [jnp.ravel(array)[:1].astype(jnp.uint32) for array in (*settings, message)]
        return state, jnp.concatenate([answer, *read])

    def read(
        self, answer: Array | np.ndarray
    ) -> tuple[np.ndarray, Float[np.ndarray, "*runs metrics"]]:
        """The action and the metrics, in the order of `metrics`, that `observe` returned."""
        words = np.asarray(answer)
        shape, size = self._action.shape, math.prod(self._action.shape)
        dtype = np.dtype(self._action.dtype)
        action = words[..., :size].view(_word(dtype)).astype(dtype, copy=False)
        action = action.reshape(words.shape[:-1] + shape)
        return action, words[..., size : size + len(self.metrics)].view(np.float32)


def _word(dtype: Any) -> np.dtype:
    """The dtype of 32 bits that an action goes to the host in."""
    return np.dtype(np.float32 if jnp.issubdtype(dtype, jnp.floating) else np.int32)


def _to_words(
    array: np.ndarray, dtype: np.dtype, runs: tuple[int, ...]
) -> UInt32[np.ndarray, "*runs words"]:
    """The bits of an array of that dtype for each run, whole words of 32."""
    rows = np.ascontiguousarray(array, dtype).reshape(*runs, -1)
    if dtype.itemsize < 4:
        spare = -rows.shape[-1] * dtype.itemsize % 4 // dtype.itemsize
        rows = np.pad(rows, [(0, 0)] * len(runs) + [(0, spare)])
    return rows.view(np.uint32)


def _from_words(
    words: UInt32[Array, " words"], shape: tuple[int, ...], dtype: np.dtype
) -> Shaped[Array, "..."]:
    """The array of one run that `_to_words` took apart."""
    bits = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    if bits.itemsize > 4:
        words = words.reshape(-1, bits.itemsize // 4)
    flat = jax.lax.bitcast_convert_type(words, bits).reshape(-1)[: math.prod(shape)]
    return flat.reshape(shape).astype(dtype)
