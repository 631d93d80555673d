"""The host engine: environments of Gymnasium, agents compiled, all seeds in lockstep.

The same runs and records as `eligrad.engines.stream.Runs`, for environments that are not written in
JAX. A step of all runs is one step of the environments and one dispatch of the agents.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from eligrad.agents.protocol import Transition
from eligrad.engines.devices import jit
from eligrad.engines.dispatch import Dispatch, KeyBlocks
from eligrad.engines.episodes import Record, count_steps
from eligrad.engines.faults import step_failed
from eligrad.engines.sharding import for_each_run, here, spread
from eligrad.engines.simulators import HostEngine, Simulators
from eligrad.envs.host import HostEnvironment, HostTransition


class HostState(NamedTuple):
    """The state of all runs, the same for both host engines."""

    agent: Any
    agent_key: PRNGKeyArray
    step: np.ndarray
    episode_return: np.ndarray
    """[runs], or [runs, envs] where an agent acts in several environments."""
    episode_length: np.ndarray
    fault_step: np.ndarray
    simulators: bytes = b""
    """Empty if their state cannot be read."""


class LockstepEngine(HostEngine):
    """Base of the engines that step the environments of all runs together."""

    count: int
    env: HostEnvironment
    agents: Any
    elsewhere = 0
    """Runs of the same training in other processes."""

    @abstractmethod
    def _reset(self, env_seeds: np.ndarray) -> np.ndarray:
        """Starts new episodes in all environments, and returns their first observations."""

    def _step(self, action: np.ndarray, step: int) -> HostTransition:
        """Steps the environments; an error says in which step.

        Where several runs train together, one that has diverged sends other actions, and so does
        not stop the rest; its metrics show the divergence.
        """
        several = self.count + self.elsewhere > 1
        sent = finite_actions(self.env.action_space, action) if several else action
        try:
            return self._copies.step(sent)
        except (Exception, SystemExit) as error:
            raise step_failed(error, self.env, sent, step) from error

    def interrupt(self, env_seeds: np.ndarray) -> None:
        """Starts new episodes in new simulators; unfinished ones count as truncated."""
        observation = jnp.asarray(self.reset(env_seeds))
        agent = jax.jit(for_each_run(lambda agent, *rest: agent.interrupt(*rest), here()))(
            self.agents, self._state.agent, observation
        )
        self._state = self._state._replace(agent=agent)

    def reset(self, env_seeds: np.ndarray) -> np.ndarray:
        """Starts new episodes, and returns their first observations; agents stay as they are."""
        self._state = self._state._replace(
            episode_return=np.zeros_like(self._state.episode_return),
            episode_length=np.zeros_like(self._state.episode_length),
        )
        return self._reset(env_seeds)


class HostRuns(LockstepEngine):
    """Many runs of one agent in copies of one environment, advanced together.

    Args:
        agents: one agent, or a batch of settings: a pytree whose numeric leaves have a leading axis
            with one entry for each run.
        env: the environment.
        agent_seeds: one for each run; they decide the agents' random numbers.
        env_seeds: one for each run; they decide the environments' random numbers.
    """

    def __init__(
        self,
        agents: Any,
        env: HostEnvironment,
        agent_seeds: np.ndarray,
        env_seeds: np.ndarray,
    ) -> None:
        self.count = len(agent_seeds)
        self.agents = spread(agents, self.count)
        self.env = env
        self._copies = Simulators(env.open(self.count))
        observation = self._reset(env_seeds)
        self._keys: KeyBlocks | None = None
        runs = here()
        self._state = first_state(self.agents, agent_seeds, observation, (self.count,))
        agent, state = jax.tree.map(lambda leaf: leaf[0], (self.agents, self._state.agent))
        self._dispatch = dispatch = Dispatch(agent, state, jnp.asarray(observation)[0])
        self._settings = jax.jit(jax.vmap(dispatch.pack_settings))(self.agents)
        self._pack = jax.jit(jax.vmap(dispatch.pack))
        self._unpack = jax.jit(jax.vmap(dispatch.unpack))
        # One after the other on a CPU, so that a run has the same bits alone and among others.
        self._choose = jit(for_each_run(dispatch.choose, runs, in_place=True), donate_argnums=2)
        self._observe = jit(for_each_run(dispatch.observe, runs, in_place=True), donate_argnums=2)
        self._split = jax.jit(lambda packed: [[a[i] for a in packed] for i in range(self.count)])
        self._join = jax.jit(lambda of_runs: [jnp.stack(a) for a in zip(*of_runs, strict=True)])

    def advance(self, steps: int) -> Record:
        """Advances all runs; returns records of shape [runs, steps]."""
        agent, keys, number, episode_return, length, fault, _ = self._state
        if self._keys is None or self._keys.agent_keys is not keys:
            self._keys = KeyBlocks(keys)
        blocks = self._keys
        first = int(number[0]) + 1
        packed, action = self._choose(self._settings, blocks.of(first).act, self._pack(agent))
        action = np.asarray(action)
        settings, observe = self._settings, self._observe
        if self._kernel is not None:
            settings, packed, observe = self._split(settings), self._split(packed), self._in_turn
        ended = np.zeros((steps, self.count), bool)
        rewards = np.zeros((steps, self.count), np.float32)
        metrics = []
        for t in range(steps):
            reached = self._step(action, first + t)
            rewards[t] = reached.reward
            transition = Transition.of(reached._replace(reward=rewards[t]))
            update_key, act_key = blocks.of(first + t).update, blocks.of(first + t + 1).act
            message = self._dispatch.message(update_key, act_key, transition)
            # Dispatched before the rest: the accelerator works meanwhile.
            packed, answer = observe(settings, message, packed)
            ended[t] = reached.terminated | reached.truncated
            sound = np.isfinite(rewards[t]) & all_rows_finite(reached.next_observation)
            if reached.observation is not reached.next_observation:
                sound &= all_rows_finite(reached.observation)
            if not sound.all():
                fault = np.where(~sound & (fault < 0), np.int32(first + t), fault)
            action, numbers = self._dispatch.read(answer)
            metrics.append(numbers)
        if self._kernel is not None:
            packed = self._join(packed)
        episodes, onward = count_steps(episode_return, length, rewards, ended)
        self._state = HostState(
            self._unpack(packed), keys, number + np.int32(steps), *onward, fault
        )
        columns = np.moveaxis(np.stack(metrics), -1, 0)
        named = dict(zip(self._dispatch.metrics, columns.swapaxes(1, 2), strict=True))
        info = self._copies.take_info(self.count)
        return Record(ended.T, episodes[0].T, episodes[1].T, named, info)

    @functools.cached_property
    def _kernel(self) -> Callable[..., Any] | None:
        """A step of one run as one kernel, if there is one."""
        settings, packed = map(self._split, (self._settings, self._pack(self._state.agent)))
        return self._dispatch.one_kernel(settings[0], packed[0])

    def _in_turn(
        self, settings: Sequence[Any], message: np.ndarray, packed: Sequence[Any]
    ) -> tuple[Sequence[Any], np.ndarray]:
        """`observe` of one run after the other: a loop would be another kernel, of other bits."""
        assert self._kernel is not None
        runs = zip(settings, message, packed, strict=True)
        packed, answers = zip(*(self._kernel(*run) for run in runs), strict=True)
        return packed, np.stack([np.asarray(answer) for answer in answers])

    def _reset(self, env_seeds: np.ndarray) -> np.ndarray:
        return self._copies.reset([int(seed) for seed in env_seeds])


def first_state(
    agents: Any, agent_seeds: np.ndarray, observation: np.ndarray, episodes: tuple[int, ...]
) -> HostState:
    """All runs before their first step; `episodes` is the shape of what is counted in each."""
    keys = jax.vmap(jax.random.key)(jnp.asarray(agent_seeds))
    first_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, 0)
    init = jax.jit(for_each_run(lambda agent, key, first: agent.init(key, first), here()))
    return HostState(
        agent=init(agents, first_keys, jnp.asarray(observation)),
        agent_key=keys,
        step=np.zeros(len(agent_seeds), np.int32),
        episode_return=np.zeros(episodes, np.float32),
        episode_length=np.zeros(episodes, np.int32),
        fault_step=np.where(all_rows_finite(observation), -1, 0).astype(np.int32),
    )


def finite_actions(space: Any, actions: np.ndarray) -> np.ndarray:
    """The actions, with the number nearest to 0 in place of those that are not finite.

    A policy that has diverged returns such actions, and simulators refuse them.
    """
    finite = np.isfinite(actions)
    if finite.all():
        return actions
    return np.where(finite, actions, np.clip(0, space.low, space.high)).astype(actions.dtype)


def all_rows_finite(observations: np.ndarray) -> np.ndarray:
    """Whether all numbers of each row are finite; integers are."""
    if observations.dtype.kind != "f":
        return np.ones(len(observations), bool)
    rows = observations.reshape(len(observations), -1)
    return np.logical_and.reduce(np.isfinite(rows), axis=1)
