"""Vector environments that were made by Gymnasium or by others, in each autoreset mode.

- `SAME_STEP` resets at once and reports the real final observation in `infos["final_obs"]`.
- `DISABLED` leaves resets to us: `reset(options={"reset_mask": ...})` begins the next episodes.
- `NEXT_STEP` would spend the next step on the reset, and that step is no transition. Vector
  environments that understand a `reset_mask` are therefore reset by us here as well; it is
  the reset that they would have done one step later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from jaxtyping import Shaped

from eligrad.envs.adapters.gymnasium.conversion import (
    ActionChecker,
    convert_action_space,
    convert_observation_space,
)
from eligrad.envs.adapters.gymnasium.environment import check_seeds
from eligrad.envs.host import HostCopies, HostEnvironment, HostTransition

_in_use: WeakValueDictionary[int, _Copies] = WeakValueDictionary()
"""The open copies of each vector environment, by its identity, which they keep alive."""


class GymnasiumVector(HostEnvironment):
    """A `gymnasium.vector.VectorEnv` as it is: its own copies, its own workers."""

    def __init__(self, vector: VectorEnv) -> None:
        self.name = vector.spec.id if vector.spec is not None else repr(vector)
        space = vector.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(
                f"{self.name} has observations of {space}; a vector environment must have arrays "
                "(Box). Pass the id or class of one copy, whose observations are then flattened"
            )
        self.observation_space = convert_observation_space(space, self.name)
        self.action_space = convert_action_space(vector.single_action_space, self.name)
        self._vector = vector
        self._resets_itself = _resets_itself(vector, self.name)

    def open(self, num_copies: int) -> HostCopies:
        """The copies that the vector environment has; it decides how they are stepped.

        There are no others: while they are in use they cannot be opened again.
        """
        if num_copies != self._vector.num_envs:
            raise ValueError(
                f"num_copies is {num_copies}; {self.name} has {self._vector.num_envs} copies"
            )
        if id(self._vector.unwrapped) in _in_use:
            raise ValueError(
                f"{self.name} is in use: the copies of a vector environment exist once, and to "
                "open them again would reset and close them under whoever trains in them; give "
                "each user, such as evaluation, a vector environment of its own"
            )
        copies = _Copies(self._vector, self._resets_itself, self.name)
        _in_use[id(self._vector.unwrapped)] = copies
        return copies


class _Copies(HostCopies):
    """The copies of a `VectorEnv`."""

    def __init__(self, vector: VectorEnv, resets_itself: bool, name: str) -> None:
        self.num_copies = vector.num_envs
        self._vector = vector
        self._resets_itself = resets_itself
        self._check_actions = ActionChecker(vector.single_action_space, vector.num_envs, name)
        self._closed = False

    def reset(self, seeds: Sequence[int]) -> Shaped[np.ndarray, "copies ..."]:
        each: Any = check_seeds(seeds, self.num_copies)  # vector environments take lists, too
        observation, _ = self._vector.reset(seed=each)
        return np.array(observation)

    def step(self, actions: Shaped[np.ndarray | jax.Array, "..."]) -> HostTransition:
        observed, reward, terminated, truncated, infos = self._vector.step(
            self._check_actions(actions)
        )
        # A vector environment may hand out the same arrays at every step: copy them.
        reached = following = np.array(observed)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        ended = terminated | truncated
        if ended.any() and self._resets_itself:
            reached = reached.copy()
            for row in np.flatnonzero(ended):
                reached[row] = infos["final_obs"][row]
        elif ended.any():
            first, _ = self._vector.reset(options={"reset_mask": ended})
            following = np.array(first)
        return HostTransition(following, np.array(reward, float), terminated, truncated, reached)

    def snapshot(self) -> list[bytes] | None:
        self.obstacle = "a gymnasium.vector.VectorEnv does not tell its state"
        return None

    def restore(self, snapshots: Sequence[bytes]) -> None:
        raise ValueError("a gymnasium.vector.VectorEnv has no snapshots to restore")

    def render(self) -> list[Any]:
        return list(self._vector.render() or ())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            _in_use.pop(id(self._vector.unwrapped), None)
            self._vector.close()


def _resets_itself(vector: VectorEnv, name: str) -> bool:
    """Whether episodes are begun by the vector environment (else by us)."""
    modes = getattr(gymnasium.vector, "AutoresetMode", None)
    if modes is None:
        raise ImportError(
            f"vector environments need gymnasium >= 1.1; {gymnasium.__version__} is installed"
        )
    core = vector.unwrapped
    # The attribute goes first: the metadata belong to the class of the single environment, where
    # the vector environment that was made last overwrites what the others wrote.
    mode = getattr(core, "autoreset_mode", core.metadata.get("autoreset_mode"))
    if mode == modes.SAME_STEP:
        return True
    takes_reset_mask = mode == modes.DISABLED or isinstance(core, SyncVectorEnv | AsyncVectorEnv)
    if takes_reset_mask:
        return False
    raise ValueError(
        f"{name} has autoreset mode {mode}, in which a step after an episode's end is no "
        "transition, and it is not known to take a reset_mask; make it with "
        "AutoresetMode.SAME_STEP or DISABLED, or pass its id or class to GymnasiumEnvironment"
    )
