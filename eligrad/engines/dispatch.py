"""One call of an agent whose environment is not in JAX: learn from a transition, then act.

The streaming engine acts and learns within one step of its scan. An agent that waits for the
environment in between does the same in the other order: it learns from step t and chooses for
t + 1. Random numbers belong to steps, not to calls, so that both give the same run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped, UInt32

from eligrad.agents.protocol import StreamingAgent, Transition
from eligrad.engines.packing import Packing


class StepKeys(NamedTuple):
    """The keys of one step, as words: for acting, and for learning."""

    act: UInt32[Array | np.ndarray, "... words"]
    update: UInt32[Array | np.ndarray, "... words"]


def split_step_key(agent_key: PRNGKeyArray, step: Int[Array, ""]) -> Shaped[Array, "2"]:
    """The keys for acting and for learning in the step of that number; steps count from 1."""
    return jax.random.split(jax.random.fold_in(agent_key, step))


def step_keys(agent_key: PRNGKeyArray, step: Int[Array, ""]) -> StepKeys:
    """The same as words."""
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


def step_words(
    update_key: UInt32[Array | np.ndarray, "*runs words"],
    next_act_key: UInt32[Array | np.ndarray, "*runs words"],
    transition: Any,
) -> UInt32[np.ndarray, "*runs all_words"]:
    """Keys, reward and ends of a step as one array; each array of a call costs microseconds."""
    size = update_key.shape[-1]
    words = np.empty((*update_key.shape[:-1], 2 * size + 3), np.uint32)
    words[..., :size], words[..., size:-3] = update_key, next_act_key
    words[..., -3] = np.asarray(transition.reward, np.float32).view(np.uint32)
    words[..., -2], words[..., -1] = transition.terminated, transition.truncated
    return words


class Dispatch:
    """An agent's programs for one step, over its packed state."""

    def __init__(self, state: Any) -> None:
        self._packing = Packing(jax.eval_shape(lambda: state))
        self.metrics: tuple[str, ...] = ()
        """Names of the agent's metrics, known once `observe` is traced."""

    def pack(self, state: Any) -> list[Array]:
        """The state as `choose` and `observe` take it."""
        return self._packing.pack(state)

    def unpack(self, packed: list[Array]) -> Any:
        """The state as the agent knows it."""
        return self._packing.unpack(packed)

    def choose(
        self, agent: StreamingAgent, packed: list[Array], act_key: UInt32[Array, " words"]
    ) -> tuple[list[Array], Array]:
        """Returns the action of a step, in the current observation."""
        state, action = agent.act(self.unpack(packed), jax.random.wrap_key_data(act_key))
        return self.pack(state), action

    def observe(
        self,
        agent: StreamingAgent,
        packed: list[Array],
        words: UInt32[Array, " all_words"],
        next_observation: Shaped[Array, "..."],
        observation: Shaped[Array, "..."],
    ) -> tuple[list[Array], Array, Float[Array, " metrics"]]:
        """Learns from the transition of a step, and chooses the action of the next step.

        Returns the state, the action and the metrics, in one array in the order of `metrics`.

        Args:
            agent: the agent.
            packed: its state.
            words: the rest of the transition, and the keys of both steps; see `step_words`.
            next_observation: of the transition.
            observation: of the transition.
        """
        size = (words.size - 3) // 2
        update_key, next_act_key = words[:size], words[size:-3]
        reward = jax.lax.bitcast_convert_type(words[-3], jnp.float32)
        ends = words[-2] != 0, words[-1] != 0
        transition = Transition(reward, *ends, next_observation, observation)

        def learn(packed: list[Array]) -> tuple[list[Array], Array, Array]:
            state, metrics = agent.update(
                self.unpack(packed), transition, jax.random.wrap_key_data(update_key)
            )
            # Else a compiler may compute a metric anew where it is stored, to another last bit.
            metrics = jax.lax.optimization_barrier(metrics)
            self.metrics = tuple(metrics)
            state, action = agent.act(state, jax.random.wrap_key_data(next_act_key))
            numbers = [jnp.asarray(value, jnp.float32) for value in metrics.values()]
            return self.pack(state), action, jnp.stack(numbers)

        # A loop of one turn, though the compiler does not know it: what it makes of the turn does
        # not depend on what is around it, and so the bits not on how many runs there are.
        once = jax.lax.optimization_barrier(jnp.int32(1))
        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(learn, packed))
        return jax.lax.fori_loop(0, once, lambda _, done: learn(done[0]), (packed, *blank[1:]))
