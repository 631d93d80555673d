"""One agent on one real stream: no environment object, one call for each observation.

For a robot, a socket or a sensor that sends an observation and waits for an action:

    agent = Online("qrc", observation_shape=(6,), actions=3)
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsFloat

import jax
import numpy as np

from eligrad._base.checks import true_or_false, whole_number
from eligrad._base.files import make_parents
from eligrad.agents import registry
from eligrad.agents.protocol import StreamingAgent, Transition
from eligrad.engines.devices import jit, return_freed_memory
from eligrad.engines.dispatch import Dispatch, KeyBlocks
from eligrad.engines.trained import ONLINE, Spaces, Trained, Which, read_agent, stream_plan
from eligrad.envs.spaces import Box, Discrete, Space, space_to_json
from eligrad.runs import checkpoint
from eligrad.runs.plan import Plan, rollout_of

LARGEST = 1e15
"""Of observations and rewards: statistics hold squares, of discounted sums too, in float32."""
_ACCEPTED = f"a number from -{LARGEST:g} to {LARGEST:g}"


class Online:
    """An agent that learns from one observation at a time.

    Args:
        agent: the name of a streaming agent, such as "qrc", or an agent of your own.
        observation_shape: the shape of an observation, with an agent's name.
        actions: with an agent's name: how many there are, or their space, such as
            `eligrad.envs.Box(-2.0, 2.0, (1,))`.
        seed: decides the agent's random numbers.
        network: your own, with an agent's name; see `eligrad.Learner`.
        settings: those of the agent's settings class, by name (`lam=0.9`).
    """

    def __init__(
        self,
        agent: Any,
        observation_shape: Sequence[int] | None = None,
        actions: int | Space | None = None,
        *,
        seed: int = 0,
        network: Any = None,
        **settings: Any,
    ) -> None:
        if isinstance(agent, str):
            spaces = _spaces(agent, observation_shape, actions)
            config = _settings(agent, settings, spaces.observation_space.shape)
            made = _streaming(registry.build(agent, config, spaces, network))
            plan = stream_plan(agent if network is None else None, config, seed)
        else:
            given = [observation_shape, actions, network, *settings.values()]
            if any(each is not None for each in given):
                raise ValueError(
                    "observation_shape, actions, network and settings go with an agent's name; "
                    f"agent is a {type(agent).__name__} that has its own"
                )
            made, spaces = _streaming(agent), None
            plan = stream_plan(None, made.config, seed)
        self._prepare(made, plan, jax.random.key(seed), spaces)

    def _prepare(self, agent: Any, plan: Plan, key: Any, spaces: Spaces | None) -> None:
        self.agent = agent
        self.key = key
        """Of the agent's random numbers."""
        self._plan, self._spaces = plan, spaces
        self._first_action = 0 if spaces is None else spaces.first_action
        self._keys = KeyBlocks(key)
        self.steps = 0
        """Updates made so far, in training too."""
        self._packed: Any = None
        self._dispatch: Any = None
        self._shape = None if spaces is None else spaces.observation_space.shape
        self._dtype: Any = None
        self._ending: Transition | None = None
        self._loaded = False
        self._ready = False
        self._init = jax.jit(lambda agent, key, obs: agent.init(key, obs))
        self._interrupt = jax.jit(lambda agent, state, obs: agent.interrupt(state, obs))
        self.metrics: dict[str, float] = {}
        """The agent's metrics of the last update, by name."""

    @classmethod
    def from_run(
        cls, run: Path | str, seed: Which = "best", *, agent: Any = None, env: Any = None
    ) -> Online:
        """The agent of a run folder or of a saved file; it continues to learn.

        Parameters, traces, statistics, random numbers, the step count and with it the exploration
        are those of the training. The episode that the simulator was in stays there: the first
        `observe(observation)` begins a new one, traces end, and nothing is learned from the gap
        between the two. If the stream is the simulator itself, `action` is what training would
        have done next, and `observe(observation, reward)` learns what training would have learned.

        Args:
            run: a run folder, also one that is being trained, or a file of an agent's `save`.
            seed: which one, if there are several; "best": the highest return of the last episodes.
            agent: the agent again, if it is a custom one.
            env: the environment again, if it is a custom one; only its spaces are read.
        """
        run = Path(run).expanduser()
        if run.is_file() and checkpoint.read_header(run).get("kind") == ONLINE:
            raise checkpoint.CheckpointError(f"{run} was saved by Online; Online.load continues it")
        return cls._continuing(read_agent(run, seed, agent=agent, env=env))

    @classmethod
    def load(cls, path: Path | str, agent: Any = None) -> Online:
        """The agent that `save` wrote.

        If time has passed meanwhile, call `observe(observation)` first, without a reward: it
        begins a new episode, and traces end. With a reward the saved episode goes on; `action` is
        the one that the reward is for.

        Args:
            path: the file.
            agent: the agent again, with the same settings and network, if it is a custom one.
        """
        path = Path(path).expanduser()
        if path.is_dir() or checkpoint.read_header(path).get("kind") != ONLINE:
            raise checkpoint.CheckpointError(
                f"{path} was saved by a training run; Online.from_run continues it"
            )
        return cls._continuing(read_agent(path, agent=agent))

    @classmethod
    def _continuing(cls, trained: Trained) -> Online:
        online = cls.__new__(cls)
        agent = _streaming(trained.agent)
        online._prepare(agent, trained.plan, trained.key, trained.spaces)
        online._shape = trained.observation.shape
        online._dtype = jax.dtypes.canonicalize_dtype(trained.observation.dtype)
        online.state, online.steps = trained.state, trained.step
        online._ending, online._loaded = trained.ending, True
        return online

    @property
    def state(self) -> Any:
        """The agent's state; None before the first observation."""
        return None if self._packed is None else self._unpack(self._packed)

    @state.setter
    def state(self, state: Any) -> None:
        if self._dispatch is None:
            like = jax.ShapeDtypeStruct(self._shape, self._dtype)
            self._dispatch = dispatch = Dispatch(self.agent, state, like)
            self._settings = jax.jit(dispatch.pack_settings)(self.agent)
            self._pack = jax.jit(dispatch.pack)
            self._unpack = jax.jit(dispatch.unpack)
            self._choose = jit(dispatch.choose, donate_argnums=2)
            self._observe: Any = None
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
            The action, an int or an array (continuous, or several choices); None where the episode
            ended.
        """
        alone = reward is None and not (terminated or truncated)
        if self._loaded and alone and self._ending is None:
            return self.interrupt(observation)
        observation = self._checked(observation)
        terminated = true_or_false("terminated", terminated)
        truncated = true_or_false("truncated", truncated)
        if reward is not None and (isinstance(reward, str) or np.asarray(reward).ndim):
            raise TypeError(f"reward is {reward!r}; a number is accepted")
        reward = None if reward is None else float(reward)
        if reward is not None and not abs(reward) <= LARGEST:
            raise ValueError(f"reward is {reward}; {_ACCEPTED} is accepted")
        if self._packed is None or self._ending is not None:
            if reward or terminated or truncated:
                before = "no observation came before this one"
                if self._ending is not None:
                    before = "the call before ended the episode, and returned None as the action"
                raise ValueError(
                    f"reward is {reward}, terminated {terminated} and truncated {truncated}, but "
                    f"{before}: the first observation of an episode is accepted alone, as "
                    "observe(observation)"
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
            # Learned from with the next episode's first observation, as in every other engine. A
            # copy: the caller may write that one into the same array.
            self._ending = transition._replace(next_observation=observation.copy())
            return None
        return self._learn(transition)

    def warm_up(self, observation: Any) -> None:
        """Compiles all programs now, so that no later call waits for the compiler; learns nothing.

        Args:
            observation: of the shape and dtype of those to come; its numbers do not matter.
        """
        observation, state = self._checked(observation), self.state
        kept = self.steps, self.metrics, self._ending, self._loaded
        try:
            if state is None:
                self._begin(observation)
            else:
                self._next_action()
            nothing = Transition(np.float32(0), np.bool_(0), np.bool_(0), observation, observation)
            self._learn(nothing)
            self.interrupt(observation)
        finally:
            if state is None:
                self._packed = None
            else:
                self.state = state
            self.steps, self.metrics, self._ending, self._loaded = kept

    def save(self, path: Path | str) -> None:
        """Writes the whole agent to one file; `load` continues from there.

        So do `eligrad.load`, and `eligrad play`, in the environment that it was trained in or
        another one.
        """
        if self.state is None:
            raise ValueError("the agent has seen no observation yet: there is nothing to save")
        header = {
            "kind": ONLINE,
            "steps": self.steps,
            "shape": list(self._shape or ()),
            "dtype": np.dtype(self._dtype).name,
            "ending": self._ending is not None,
            "actions": None if self._spaces is None else space_to_json(self._spaces.action_space),
            "first_action": np.asarray(self._first_action).tolist(),
            "plan": self._plan.to_json(),
        }
        path = Path(path).expanduser()
        make_parents(path)
        checkpoint.save(path, (self.key, self.state, self._ending), header)

    def interrupt(self, observation: Any) -> int | np.ndarray:
        """Continues in a new episode, whose first observation this is; returns an action."""
        if self._packed is None or self._ending is not None:
            action = self.observe(observation)  # nothing is under way: an ordinary beginning
            assert action is not None
            return action
        observation = self._checked(observation)
        self.state = self._interrupt(self.agent, self.state, observation)
        self._loaded = False
        return self._next_action()

    @property
    def action(self) -> int | np.ndarray | None:
        """The action that the next reward is for; None where an episode is to begin first."""
        return None if self._packed is None or self.between_episodes else self._next_action()

    def _next_action(self) -> int | np.ndarray:
        key = self._keys.of(self.steps + 1).act
        (action,) = self._replace_state(
            self._choose, (self._settings, key, self._packed), self.steps
        )
        return self._sent(np.asarray(action))

    def _begin(self, observation: np.ndarray) -> int | np.ndarray:
        self._shape, self._dtype = observation.shape, observation.dtype
        self.state = self._init(self.agent, jax.random.fold_in(self.key, 0), observation)
        return self._next_action()

    def _learn(self, transition: Transition) -> int | np.ndarray:
        number, self._loaded = self.steps + 1, False
        update_key, act_key = self._keys.of(number).update, self._keys.of(number + 1).act
        message = self._dispatch.message(update_key, act_key, transition)
        arguments = (self._settings, message, self._packed)
        if self._observe is None:
            kernel = self._dispatch.one_kernel(self._settings, self._packed)
            self._observe = kernel or jit(self._dispatch.observe, donate_argnums=2)
        (answer,) = self._replace_state(self._observe, arguments, number)
        action, metrics = self._dispatch.read(answer)
        self.metrics = dict(zip(self._dispatch.metrics, metrics.tolist(), strict=True))
        if not self._ready:  # all programs are made
            return_freed_memory()
            self._ready = True
        return self._sent(action)

    def _sent(self, action: np.ndarray) -> int | np.ndarray:
        """An action as a device takes it: one choice as an int, others as an array."""
        if np.any(self._first_action):
            action = action + self._first_action
        return np.array(action) if action.ndim or action.dtype.kind == "f" else int(action)

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
        shape = array.shape if self._shape is None else self._shape
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"the observation has shape {array.shape} and dtype {array.dtype}; numbers of "
                f"shape {shape} are accepted"
            )
        dtype: Any = self._dtype
        if dtype is None:  # the first one
            dtype = jax.dtypes.canonicalize_dtype(array.dtype)
        if array.dtype != dtype:
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                raise ValueError(
                    f"the observation has dtype {array.dtype}, which cannot be converted to {dtype}"
                    ", that of those before"
                )
            given = array
            with np.errstate(over="ignore"):  # too large a number is refused below
                array = given.astype(dtype)
            if dtype.kind in "iu" and (array != given).any():
                where = tuple(int(i) for i in np.argwhere(array != given)[0])
                limits = np.iinfo(dtype)
                raise ValueError(
                    f"the observation is {given[where]} at {where}; a number from {limits.min} to "
                    f"{limits.max} is accepted"
                )
        if array.dtype.kind == "f":
            bad = ~(np.abs(array) <= np.float64(LARGEST))  # float16 has no such number
            if bad.any():
                where = tuple(int(i) for i in np.argwhere(bad)[0])
                raise ValueError(
                    f"the observation is {array[where]} at {where}; {_ACCEPTED} is accepted"
                )
        return array


def _streaming(agent: Any) -> StreamingAgent:
    """The agent, if it learns from each step."""
    if not isinstance(agent, StreamingAgent):
        names = [name for name, entry in registry.AGENTS.items() if rollout_of(entry.config) == 1]
        raise TypeError(
            f"agent is a {type(agent).__name__}; an agent that learns from each step is accepted: "
            f"one of {', '.join(names)}, or a StreamingAgent of your own"
        )
    return agent


def _spaces(name: str, shape: Any, actions: Any) -> Spaces:
    """The spaces of a stream."""
    registry.get(name)
    if shape is None or actions is None:
        raise ValueError(
            f"observation_shape is {shape} and actions is {actions}; an agent given by name needs "
            f'both: Online("{name}", (6,), 3) for observations of 6 numbers and 3 actions'
        )
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError:
        sizes = (0,)
    if not all(size > 0 for size in sizes):
        raise ValueError(f"observation_shape is {shape!r}; a tuple of sizes, as (6,), is accepted")
    if not isinstance(actions, Space | int | np.integer | float):
        raise TypeError(
            f"actions is {actions!r}; how many there are, or an eligrad.envs.Box or MultiDiscrete, "
            "is accepted"
        )
    if not isinstance(actions, Space):
        actions = Discrete(whole_number("actions", actions))
    return Spaces("the stream", Box(-np.inf, np.inf, sizes), actions)


def _settings(name: str, changes: dict[str, Any], observation_shape: Sequence[int]) -> Any:
    """The settings of an agent on a stream."""
    if "exploration_fraction" in changes:
        raise ValueError(
            f"exploration_fraction is {changes['exploration_fraction']}, but a stream has no total "
            "of steps; exploration_steps is accepted"
        )
    config = registry.make_settings(name, changes, observation_shape=observation_shape)
    return registry.of_runs(config, 0)
