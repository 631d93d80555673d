"""One agent on one real stream: no environment object, one call for each observation.

For a robot, a socket or a sensor that sends an observation and waits for an action:

    agent = Online(QLambda(config, network), seed=0)
    action = agent.observe(first_observation)
    while True:
        observation, reward, terminated, truncated = device(action)
        action = agent.observe(observation, reward, terminated, truncated)

After an end the action returned is None, and the next call passes the first observation of
the next episode. Memory is constant: nothing is kept but the state, and `save` writes just that.
"""

from __future__ import annotations

import collections
import itertools
import math
import operator
from pathlib import Path
from typing import Any, SupportsFloat

import jax
import numpy as np

from eligrad._base.checks import true_or_false
from eligrad.agents.protocol import StreamingAgent, Transition
from eligrad.agents.registry import to_json
from eligrad.engines.devices import jit, return_freed_memory
from eligrad.engines.dispatch import Dispatch, KeyBlocks
from eligrad.runs import checkpoint


class Online:
    """An agent that learns from one observation at a time."""

    def __init__(self, agent: Any, *, seed: int = 0) -> None:
        if not isinstance(agent, StreamingAgent):
            raise TypeError(
                f"agent is a {type(agent).__name__}; a streaming agent is accepted, such as "
                'QLambda(PRESETS["qrc"], default_network(shape, actions)) of eligrad.agents'
            )
        self.agent = agent
        self._key = jax.random.key(seed)
        self._keys = KeyBlocks(self._key)
        self.steps = 0
        """Updates made so far."""
        self._packed: Any = None
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None
        self._ending: Transition | None = None
        self._ready = False
        self._init = jax.jit(lambda agent, key, obs: agent.init(key, obs))
        self._interrupt = jax.jit(lambda agent, state, obs: agent.interrupt(state, obs))
        self.metrics: dict[str, float] = {}
        """The agent's metrics of the last update, by name."""

    @property
    def state(self) -> Any:
        """The agent's state; None before the first observation."""
        return None if self._packed is None else self._unpack(self._packed)

    @state.setter
    def state(self, state: Any) -> None:
        if self._packed is None:
            self._dispatch = dispatch = Dispatch(state)
            self._pack = jax.jit(dispatch.pack)
            self._unpack = jax.jit(dispatch.unpack)
            self._choose = jit(dispatch.choose, donate_argnums=1)
            self._observe = jit(dispatch.observe, donate_argnums=1)
        self._packed = self._pack(state)

    @property
    def td_error(self) -> float:
        """The TD error of the last update; NaN before the first."""
        return self.metrics.get("td_error", math.nan)

    @property
    def between_episodes(self) -> bool:
        """Whether an episode has ended, and the first observation of the next is to come."""
        return self._ending is not None

    def observe(
        self,
        observation: Any,
        reward: SupportsFloat | None = None,
        terminated: bool | np.bool_ = False,
        truncated: bool | np.bool_ = False,
    ) -> int | np.ndarray | None:
        """Learns from the transition of the last action, and returns the next action.

        Args:
            observation: What is observed now, of the same shape and dtype at each call.
            reward: The reward of the last action. It must be given, also where it is 0, except
                with the first observation of an episode, which no action led to.
            terminated: Whether the last action ended the episode.
            truncated: Whether the episode was cut off after the last action; it is
                bootstrapped from `observation`.

        Returns:
            The action, an int or an array of continuous ones; None where the episode ended.
        """
        observation = self._checked(observation)
        terminated = true_or_false("terminated", terminated)
        truncated = true_or_false("truncated", truncated)
        reward = None if reward is None else float(reward)
        if reward is not None and not math.isfinite(reward):
            raise ValueError(f"reward is {reward}; a finite number is accepted")
        if self._packed is None or self._ending is not None:
            if reward or terminated or truncated:
                raise ValueError(
                    f"the first observation of an episode came with reward {reward} and "
                    f"ended={terminated or truncated}; it comes alone, since no action led to it"
                )
            if self._ending is None:
                return self._begin(observation)
            return self._learn(self._ending._replace(observation=observation))
        if reward is None:
            raise ValueError(
                "reward is missing; the reward of the last action is accepted, 0.0 if there was "
                "none. For the first observation of a new episode call interrupt(observation)"
            )
        transition = Transition(
            reward=np.float32(reward),
            terminated=np.bool_(terminated),
            truncated=np.bool_(truncated),
            next_observation=observation,
            observation=observation,
        )
        if terminated or truncated:
            # Learned from with the next episode's first observation, as in every other engine.
            self._ending = transition
            return None
        return self._learn(transition)

    def save(self, path: Path | str) -> None:
        """Writes the whole agent to one file; `load` continues from there."""
        if self.state is None:
            raise ValueError("the agent has seen no observation yet: there is nothing to save")
        header = {
            "kind": "online",
            "steps": self.steps,
            "shape": list(self._shape),
            "dtype": np.dtype(self._dtype).name,
            "ending": self._ending is not None,
            "settings": to_json(self.agent.config),
        }
        checkpoint.save(Path(path), (self._key, self.state, self._ending), header)

    @classmethod
    def load(cls, path: Path | str, agent: Any) -> Online:
        """The agent that was saved, if `agent` has the settings and network it was saved with.

        If the stream has continued since, call `interrupt` with the next observation in place of
        `observe`: it is the first one of a new episode.
        """
        header = checkpoint.read_header(Path(path))
        if header.get("kind") != "online":
            raise checkpoint.CheckpointError(
                f"{path} was saved by {header.get('kind', 'a training run')}; a file of "
                "Online.save is accepted"
            )
        online = cls(agent)
        ours = to_json(agent.config)
        for name, theirs in header.get("settings", ours).items():
            if ours.get(name) != theirs:
                raise checkpoint.CheckpointError(
                    f"{path} was saved with {name} = {theirs}; that of agent is {ours.get(name)}"
                )
        blank = _blank_observation(header, Path(path))
        online._shape, online._dtype = blank.shape, blank.dtype
        ending = None
        if header["ending"]:
            ending = Transition(np.float32(0), np.bool_(0), np.bool_(0), blank, blank)
        like = (online._key, online._init(agent, online._key, blank), ending)
        (online._key, online.state, online._ending), _ = checkpoint.load(Path(path), like)
        online._keys = KeyBlocks(online._key)
        online.steps = header["steps"]
        return online

    def interrupt(self, observation: Any) -> int | np.ndarray:
        """Continues in a new episode, whose first observation this is; returns an action."""
        if self._packed is None or self._ending is not None:
            action = self.observe(observation)  # nothing is under way: an ordinary beginning
            assert action is not None
            return action
        observation = self._checked(observation)
        self.state = self._interrupt(self.agent, self.state, observation)
        return self._next_action()

    def _next_action(self) -> int | np.ndarray:
        key = self._keys.of(self.steps + 1).act
        (action,) = self._replace_state(self._choose, (self.agent, self._packed, key), self.steps)
        return _plain(action)

    def _begin(self, observation: Any) -> int | np.ndarray:
        self.state = self._init(self.agent, jax.random.fold_in(self._key, 0), observation)
        return self._next_action()

    def _learn(self, transition: Transition) -> int | np.ndarray:
        number = self.steps + 1
        update_key, act_key = self._keys.of(number).update, self._keys.of(number + 1).act
        arguments = (self.agent, self._packed, update_key, act_key, transition)
        action, metrics = self._replace_state(self._observe, arguments, number)
        self.metrics = dict(zip(self._dispatch.metrics, np.asarray(metrics).tolist(), strict=True))
        if not self._ready:  # all programs are made
            return_freed_memory()
            self._ready = True
        return _plain(action)

    def _replace_state(self, program: Any, arguments: tuple[Any, ...], steps: int) -> list[Any]:
        """Calls a program that uses up the state and returns the next one, and what else it does.

        After Ctrl-C at any moment the agent is complete and can be saved: Python handles signals
        between its own instructions, and there is none between this call and the assignment of
        its result.
        """
        returned: collections.deque[Any] = collections.deque()
        others: list[Any] = []
        try:
            returned.extend(itertools.starmap(program, (arguments,)))
        finally:
            if returned:
                (self._packed, *others), self.steps, self._ending = returned[0], steps, None
        return others

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if self._dtype is None:
            self._shape, self._dtype = array.shape, array.dtype
        if array.shape != self._shape or array.dtype != self._dtype:
            raise ValueError(
                f"the observation has shape {array.shape} and dtype {array.dtype}; the first one "
                f"had {self._shape} and {self._dtype}, and so must all"
            )
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"the observation is {array[where]} at {where}; finite is accepted")
        return array


def _plain(action: jax.Array) -> int | np.ndarray:
    """An action as a device takes it: a choice as an int, continuous ones as an array."""
    array = np.asarray(action)
    return array if np.issubdtype(array.dtype, np.floating) else int(array)


def _blank_observation(header: dict[str, Any], path: Path) -> np.ndarray:
    """Zeros of the shape and dtype that a file says; the file itself holds several as large."""
    try:
        shape, dtype = tuple(map(operator.index, header["shape"])), np.dtype(header["dtype"])
        if dtype.kind in "biuf" and 0 <= math.prod(shape) <= path.stat().st_size:
            return np.zeros(shape, dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise checkpoint.DamagedCheckpointError(f"{path} is damaged: {error}") from error
    raise checkpoint.DamagedCheckpointError(
        f"{path} is damaged: its observations would be of shape {shape} and dtype {dtype}"
    )
