"""One agent on one real stream: no environment object, one call for each observation.

For a robot, a socket or a sensor: whatever hands over an observation and waits for an action::

    agent = Online(QLambda(config, network), seed=0)
    action = agent.observe(first_observation)
    while True:
        observation, reward, terminated, truncated = world(action)
        action = agent.observe(observation, reward, terminated, truncated)

After an end the action returned is None, and the next call hands over the first observation of
the next episode. Memory is constant: nothing is stored but the state, and the state is the save.
"""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.agents.streaming import Experience
from eligrad.train.observe import choose, observe


class Online:
    """An agent that learns as it goes, one observation at a time."""

    def __init__(self, agent: Any, *, seed: int = 0) -> None:
        self.agent = agent
        self._key = jax.random.key(seed)
        self.steps = 0
        """Updates made so far."""
        self.state: Any = None
        """The agent's state; None before the first observation."""
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None
        self._ending: Experience | None = None
        self._choose = jax.jit(choose)
        self._observe = jax.jit(observe, donate_argnums=1)
        self.td_error = math.nan
        """Error of the last update."""

    def observe(
        self,
        observation: Any,
        reward: SupportsFloat = 0.0,
        terminated: bool | np.bool_ = False,
        truncated: bool | np.bool_ = False,
    ) -> int | None:
        """Takes in what the last action led to, learns from it, and returns the next action.

        `reward`, `terminated` and `truncated` are those of the last action; the first observation
        of an episode comes alone. Returns None where the episode ended.
        """
        observation = self._checked(observation)
        reward = float(reward)
        if not math.isfinite(reward):
            raise ValueError(f"reward is {reward}; a finite number is accepted")
        if self.state is None:
            return self._begin(observation, reward, bool(terminated or truncated))
        if self._ending is not None:
            self._refuse_at_first(reward, bool(terminated or truncated))
            experience = self._ending._replace(observation=observation)
            self._ending = None
            return self._learn(experience)
        experience = Experience(
            reward=np.float32(reward),
            terminated=np.bool_(terminated),
            truncated=np.bool_(truncated),
            next_observation=observation,
            observation=observation,
        )
        if terminated or truncated:
            # Learned from with the next episode's first observation, as in every other engine.
            self._ending = experience
            return None
        return self._learn(experience)

    def _begin(self, observation: Any, reward: float, ended: bool) -> int:
        self._refuse_at_first(reward, ended)
        first_key = jax.random.fold_in(self._key, 0)
        self.state = jax.jit(lambda agent, key, obs: agent.init(key, obs))(
            self.agent, first_key, observation
        )
        self.state, action = self._choose(self.agent, self.state, self._key, jnp.int32(1))
        return int(action)

    def _learn(self, experience: Experience) -> int:
        self.steps += 1
        self.state, action, signals = self._observe(
            self.agent,
            self.state,
            self._key,
            np.uint32(self.steps % 2**32).view(np.int32),
            experience,
        )
        self.td_error = float(signals.td_error)
        return int(action)

    def _refuse_at_first(self, reward: float, ended: bool) -> None:
        if reward != 0.0 or ended:
            raise ValueError(
                f"the first observation of an episode came with reward {reward} and ended={ended}; "
                "it comes alone, since no action led to it"
            )

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
