"""Any Gymnasium environment, by its id or by a function that builds it.

The copies are bare: no checker, no order enforcing and no time limit around them. We call `reset`
and count the steps ourselves, so that nothing is checked twice and no final observation is lost.
"""

from __future__ import annotations

import copy
import importlib.util
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.envs.registration import EnvSpec
from jaxtyping import Shaped

from eligrad._base.checks import one_of, true_or_false, whole_number
from eligrad._base.errors import UnknownName
from eligrad._base.optional import import_optional, missing_package
from eligrad.envs.adapters.gymnasium.conversion import (
    ActionChecker,
    convert_action_space,
    convert_observation_space,
)
from eligrad.envs.adapters.gymnasium.encoding import NotSerializable
from eligrad.envs.adapters.gymnasium.snapshot import Snapshots, chain_of
from eligrad.envs.host import HostCopies, HostEnvironment, HostTransition
from eligrad.envs.names import import_module_of
from eligrad.envs.spaces import Discrete

# Suites that must be imported before Gymnasium knows their ids: module and our extra.
_SUITES = {"ALE/": ("ale_py", "atari"), "MinAtar/": ("minatar.gym", "minatar")}


class GymnasiumEnvironment(HostEnvironment):
    """A Gymnasium environment: by id, `"HalfCheetah-v5"`, or by class or function, `MyEnv`.

    `options` go to the environment itself (`render_mode="rgb_array"`). `max_episode_steps`
    replaces the limit that the id was registered with.
    """

    def __init__(
        self,
        source: str | Callable[..., gymnasium.Env],
        *,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        if max_episode_steps is not None:
            max_episode_steps = whole_number("max_episode_steps", max_episode_steps)
        if isinstance(source, gymnasium.Env) or not (isinstance(source, str) or callable(source)):
            raise TypeError(
                f"source is {source!r}; an id, or a class or function that builds an environment "
                "is accepted, because every copy is built anew"
            )
        self._source = _find_spec(source) if isinstance(source, str) else source
        self._options = options
        self.max_episode_steps = max_episode_steps
        """After how many steps an episode is truncated; None if only the task itself ends it."""
        if isinstance(self._source, EnvSpec):
            self.name = self._source.id
            if max_episode_steps is None:
                self.max_episode_steps = self._source.max_episode_steps
        else:
            self.name = getattr(source, "__qualname__", repr(source))
        env = self.build()
        self._raw_action_space = env.action_space
        self._raw_observation_space = raw = env.observation_space
        self.observation_space = convert_observation_space(raw, self.name)
        self.flattens = not isinstance(raw, gymnasium.spaces.Box)
        """Whether observations are flattened to vectors, choices in them as one-hot vectors."""
        if self.flattens:
            (size,) = self.observation_space.shape
            self.note = f"{self.name} observes {raw}: flattened to {size} numbers, choices one-hot"
        self.action_space = convert_action_space(env.action_space, self.name)
        self.first_action = np.asarray(getattr(env.action_space, "start", 0))
        env.close()

    def with_info(self, names: Sequence[str]) -> HostEnvironment:
        """Returns the same environment, whose copies note these numbers of a step's `info`."""
        env = self.build()
        env.reset(seed=0)
        info = env.step(env.action_space.sample())[-1]
        env.close()
        numbers = [name for name, value in info.items() if _is_number(value)]
        if not numbers:
            raise ValueError(f"info is {list(names)}, but the info of {self.name!r} has no numbers")
        for name in names:
            one_of("info", name, numbers)
        noting = copy.copy(self)
        noting.info = tuple(names)
        return noting

    def open(self, num_copies: int) -> HostCopies:
        """Opens `num_copies` of the environment."""
        num_copies = whole_number("num_copies", num_copies)
        checker = ActionChecker(self._raw_action_space, num_copies, self.name)
        return _Copies(self, num_copies, checker)

    def flatten(self, observation: Any) -> np.ndarray:
        """The observation of a copy as agents observe it; the same where it is an array already."""
        if not self.flattens:
            return observation
        flat = gymnasium.spaces.flatten(self._raw_observation_space, observation)
        return np.asarray(flat, np.float32)

    def as_array(self, observation: Any) -> Any:
        """An observation of the environment's own space, flattened; what is none, as it is."""
        own = self.flattens and self._raw_observation_space.contains(observation)
        return self.flatten(observation) if own else observation

    def build(self) -> gymnasium.Env:
        """One copy as Gymnasium knows it."""
        if isinstance(self._source, EnvSpec):
            env = _build_spec(self._source, self._options)
        else:
            env = self._source(**self._options)
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"{self.name} returned {env!r}; a gymnasium.Env is accepted")
        if any(isinstance(link, gymnasium.wrappers.Autoreset) for link in chain_of(env)):
            raise ValueError(
                f"{self.name} is wrapped in gymnasium.wrappers.Autoreset; leave the wrapper away: "
                "eligrad begins the next episode by itself and keeps the final observation"
            )
        return env


class _Copies(HostCopies):
    """Bare Gymnasium environments, stepped one after another."""

    def __init__(self, env: GymnasiumEnvironment, num_copies: int, checker: ActionChecker) -> None:
        self.num_copies = num_copies
        self._name = env.name
        self._envs = [env.build() for _ in range(num_copies)]
        self._snapshots = [Snapshots(each) for each in self._envs]
        self._check_actions = checker
        self._shape = tuple(env.observation_space.shape)
        self._dtype = np.dtype(env.observation_space.dtype)
        self._flatten = env.flatten if env.flattens else None
        self._discrete = isinstance(env.action_space, Discrete)
        self._limit = math.inf if env.max_episode_steps is None else env.max_episode_steps
        self._elapsed = [0] * num_copies
        self._info = env.info
        self._noted = np.zeros((2, len(self._info), num_copies))
        self._begun = False
        self._closed = False

    def reset(self, seeds: Sequence[int]) -> Shaped[np.ndarray, "copies ..."]:
        each = check_seeds(seeds, self.num_copies)
        first = self._empty_observations()
        for row, (env, seed) in enumerate(zip(self._envs, each, strict=True)):
            self._put(self._first_of(env.reset(seed=seed)), first, row, "reset")
        self._elapsed = [0] * self.num_copies
        self._begun = True
        return first

    def step(self, actions: Shaped[np.ndarray | jax.Array, "..."]) -> HostTransition:
        if not self._begun:
            raise ValueError("step was called before reset(seeds) or restore(snapshots)")
        checked = self._check_actions(actions)
        reached = self._empty_observations()
        reward = np.empty(self.num_copies)
        terminated = np.empty(self.num_copies, bool)
        truncated = np.empty(self.num_copies, bool)
        ended = []
        elapsed = self._elapsed
        choices = checked.tolist() if self._discrete else checked
        for row, env in enumerate(self._envs):
            returned = env.step(choices[row])
            if len(returned) != 5:
                raise ValueError(
                    f"step of {self._name} returned {len(returned)} values; five are accepted: "
                    "observation, reward, terminated, truncated, info (Gym before 0.26 had four)"
                )
            observation, reward[row], end, cut, info = returned
            self._put(observation, reached, row, "step")
            elapsed[row] += 1
            end = true_or_false("terminated", end)
            cut = true_or_false("truncated", cut) or elapsed[row] >= self._limit
            terminated[row] = end
            truncated[row] = cut
            if self._info:
                self._note(row, info)
            if end or cut:
                ended.append(row)
        following = self._restart(ended, reached) if ended else reached
        return HostTransition(following, reward, terminated, truncated, reached)

    def _note(self, row: int, info: dict[str, Any]) -> None:
        for place, name in enumerate(self._info):
            if name in info:
                self._noted[:, place, row] += float(info[name]), 1

    def take_info(self) -> dict[str, np.ndarray]:
        """The means of the numbers in `info` since the last call; NaN where none was given."""
        (total, count), self._noted = self._noted, np.zeros_like(self._noted)
        means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        return dict(zip(self._info, means, strict=True))

    def snapshot(self) -> list[bytes] | None:
        self.obstacle = None
        try:
            pairs = zip(self._snapshots, self._elapsed, strict=True)
            return [snapshots.take(elapsed) for snapshots, elapsed in pairs]
        except NotSerializable as error:
            self.obstacle = str(error)
            return None

    def restore(self, snapshots: Sequence[bytes]) -> None:
        if len(snapshots) != self.num_copies:
            raise ValueError(f"{len(snapshots)} snapshots for {self.num_copies} copies")
        pairs = zip(self._snapshots, snapshots, strict=True)
        self._elapsed = [each.restore(snapshot) for each, snapshot in pairs]
        self._begun = True

    def render(self) -> list[Any]:
        return [env.render() for env in self._envs]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for env in self._envs:
                env.close()

    def _restart(self, ended: list[int], reached: np.ndarray) -> np.ndarray:
        following = reached.copy()
        for row in ended:
            self._put(self._first_of(self._envs[row].reset()), following, row, "reset")
            self._elapsed[row] = 0
        return following

    def _first_of(self, returned: Any) -> Any:
        """The observation that `reset` returned, beside its info."""
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ValueError(
                f"reset of {self._name} returned {type(returned).__name__} without info; "
                "(observation, info) is accepted"
            )
        return returned[0]

    def _empty_observations(self) -> np.ndarray:
        return np.empty((self.num_copies, *self._shape), self._dtype)

    def _put(self, observation: Any, rows: np.ndarray, row: int, method: str) -> None:
        """Copies an observation that a method returned to its row; refuses what would not fit."""
        if self._flatten is not None:
            observation = self._flatten(observation)
        array = np.asarray(observation)
        if array.shape != self._shape:  # else it might be broadcast, silently
            raise ValueError(
                f"{method} of {self._name} returned an observation of shape {array.shape}; its "
                f"observation_space says {self._shape}"
            )
        same = array.dtype is self._dtype or array.dtype == self._dtype
        if not same and not np.can_cast(array.dtype, self._dtype, casting="same_kind"):
            raise TypeError(
                f"{method} of {self._name} returned an observation of dtype {array.dtype}; its "
                f"observation_space says {self._dtype}"
            )
        rows[row] = array


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"


def check_seeds(seeds: Sequence[int], num_copies: int) -> list[int]:
    """One non-negative integer for each copy."""
    checked = [operator.index(seed) for seed in seeds]
    if len(checked) != num_copies:
        raise ValueError(f"{len(checked)} seeds for {num_copies} copies; one each is accepted")
    if min(checked) < 0:
        raise ValueError(f"seed {min(checked)} is negative; integers from 0 on are accepted")
    return checked


def _find_spec(env_id: str) -> EnvSpec:
    """The registered description of an id such as "Ant-v5" or "my_package:MyEnv-v0"."""
    import_module_of(env_id)
    name = env_id.rpartition(":")[2]
    if name not in gymnasium.registry:
        _import_suite(name)
    if name not in gymnasium.registry:
        raise UnknownName("environment", env_id, gymnasium.registry)
    return gymnasium.registry[name]


def _import_suite(env_id: str) -> None:
    for prefix, (module, extra) in _SUITES.items():
        if env_id.startswith(prefix):
            suite = import_optional(module, extra=extra, purpose=f"{env_id!r} through Gymnasium")
            # ale_py registers its ids when it is imported, minatar no longer does.
            if prefix == "MinAtar/" and "MinAtar/Breakout-v1" not in gymnasium.registry:
                suite.register_envs()


def _build_spec(spec: EnvSpec, options: dict[str, Any]) -> gymnasium.Env:
    try:
        env = gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        if "mujoco" in str(error).lower() and importlib.util.find_spec("mujoco") is None:
            raise missing_package("mujoco", "mujoco", repr(spec.id)) from error
        raise
    return env.env if type(env) is gymnasium.wrappers.OrderEnforcing else env
