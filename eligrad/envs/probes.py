"""Probes: tiny environments, each solved only if one thing works.

When an agent fails on a real task, it is hard to see why. Run these in the order of `PROBES` in
`names.py`: the first one that fails shows which part does not work. Each has exact answers.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PRNGKeyArray

from eligrad._base.checks import whole_number
from eligrad.envs.core import Environment, State, Step
from eligrad.envs.spaces import Box, Discrete


class Probe(Environment[State]):
    """An environment with known answers, one for each observation that an agent acts on."""

    action_space = Discrete(2)

    observations: np.ndarray
    """Every observation that an agent acts on, one per row."""
    optimal_actions: tuple[int | float | None, ...]
    """The best action at each of them; None where all are equally good."""

    def values(self, gamma: float) -> np.ndarray:
        """The optimal value of each observation."""
        return self.action_values(gamma).max(axis=1)

    def action_values(self, gamma: float) -> np.ndarray:
        """The optimal value of each observation and action, of shape `(observations, actions)`."""
        raise NotImplementedError(f"{self.name} has no table of action values")


class _OneStep(Probe[Int32[Array, ""]]):
    """One observation, drawn at random, one action, one reward, the end.

    The final observation is the one acted on, so that an agent which bootstraps from a terminated
    transition gets the value wrong.
    """

    def _reward(self, index: Array, action: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _reward(index, action)")

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[Array, Array]:
        """Draws one of the observations; the state is its index."""
        index = jax.random.randint(key, (), 0, len(self.observations), jnp.int32)
        return index, jnp.asarray(self.observations)[index]

    def step(self, key: PRNGKeyArray, state: Array, action: Array, params: Any) -> Step:
        """Pays the reward of the action and ends the episode."""
        return Step(
            state=state,
            observation=jnp.asarray(self.observations)[state],
            reward=self._reward(state, action),
            terminated=jnp.asarray(True),
            truncated=jnp.asarray(False),
        )


class _Bandit(_OneStep):
    """A one-step probe whose rewards are a table."""

    rewards: ClassVar[tuple[tuple[float, ...], ...]]
    """By observation and action."""

    def _reward(self, index: Array, action: Array) -> Array:
        return jnp.asarray(self.rewards, jnp.float32)[index, action]

    def action_values(self, gamma: float) -> np.ndarray:
        """The rewards: nothing follows them."""
        return np.asarray(self.rewards)


_ALWAYS = np.array([[1.0]], np.float32)
_EITHER = np.array([[-1.0], [1.0]], np.float32)


class Reward(_Bandit):
    """One observation, reward 1. Is the reward learned, and nothing beyond the end?"""

    name = "Probe/Reward-v0"
    observation_space = Box(0.0, 1.0, (1,))
    observations = _ALWAYS
    optimal_actions = (None,)
    rewards = ((1.0, 1.0),)


class Observation(_Bandit):
    """The observation, -1 or 1, is the reward. Does the value depend on the observation?"""

    name = "Probe/Observation-v0"
    observation_space = Box(-1.0, 1.0, (1,))
    observations = _EITHER
    optimal_actions = (None, None)
    rewards = ((-1.0, -1.0), (1.0, 1.0))


class Action(_Bandit):
    """One observation, reward 1 for action 1 and -1 for action 0. Is the better action taken?"""

    name = "Probe/Action-v0"
    observation_space = Box(0.0, 1.0, (1,))
    observations = _ALWAYS
    optimal_actions = (1,)
    rewards = ((-1.0, 1.0),)


class Policy(_Bandit):
    """Action 0 is right at observation -1, action 1 at 1. Does it act on what it observes?"""

    name = "Probe/Policy-v0"
    observation_space = Box(-1.0, 1.0, (1,))
    observations = _EITHER
    optimal_actions = (0, 1)
    rewards = ((1.0, -1.0), (-1.0, 1.0))


class Continuous(_OneStep):
    """Reward -(action - observation / 2)² for an action in [-1, 1]. Are real actions learned?"""

    name = "Probe/Continuous-v0"
    observation_space = Box(-1.0, 1.0, (1,))
    action_space = Box(-1.0, 1.0, (1,))
    observations = np.array([[-1.0], [0.0], [1.0]], np.float32)
    optimal_actions = (-0.5, 0.0, 0.5)

    def _reward(self, index: Array, action: Array) -> Array:
        target = jnp.asarray(self.optimal_actions, jnp.float32)[index]
        return -jnp.square(action[0] - target)

    def values(self, gamma: float) -> np.ndarray:
        """No loss anywhere."""
        return np.zeros(len(self.observations))


class _OneHot(Probe[State]):
    """A probe with numbered observations; the one past the last is all zeros, and final."""

    def __init__(self, size: int) -> None:
        self.observation_space = Box(0.0, 1.0, (size,))
        self.observations = np.eye(size, dtype=np.float32)

    def _observe(self, index: Array) -> Array:
        return jax.nn.one_hot(index, len(self.observations), dtype=jnp.float32)


class Discount(_OneHot[Int32[Array, ""]]):
    """Two steps, rewards 0 and 1. Is the future worth gamma, and known one step ahead?"""

    name = "Probe/Discount-v0"
    optimal_actions = (None, None)

    def __init__(self) -> None:
        super().__init__(2)

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[Array, Array]:
        """Begins at the first observation; the state is the number of steps taken."""
        position = jnp.zeros((), jnp.int32)
        return position, self._observe(position)

    def step(self, key: PRNGKeyArray, state: Array, action: Array, params: Any) -> Step:
        """One step ahead."""
        position = state + 1
        ended = position == 2
        return Step(
            state=position,
            observation=self._observe(position),
            reward=ended.astype(jnp.float32),
            terminated=ended,
            truncated=jnp.asarray(False),
        )

    def action_values(self, gamma: float) -> np.ndarray:
        """Gamma, then 1."""
        return np.array([[gamma, gamma], [1.0, 1.0]])


class Trace(_OneHot[Int32[Array, ""]]):
    """The first action picks one of two corridors; its end, `length` steps later, pays 1 or -1.

    Is credit carried over a delay? Begun with values of zero, one-step TD moves a value back by
    one place per walk through a corridor, so `length` episodes teach it nothing about the
    first action. With a trace, two episodes are enough.
    """

    name = "Probe/Trace-v0"

    def __init__(self, length: int = 10) -> None:
        length = whole_number("length", length)
        super().__init__(1 + 2 * length)
        self.length = length
        self.optimal_actions = (1,) + 2 * length * (None,)

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[Array, Array]:
        """Begins at the fork. State 0 is the fork, 1 … length the bad corridor, then the good."""
        place = jnp.zeros((), jnp.int32)
        return place, self._observe(place)

    def step(self, key: PRNGKeyArray, state: Array, action: Array, params: Any) -> Step:
        """Into a corridor, or one place on; only the first action matters."""
        bad_end, good_end = self.length, 2 * self.length
        ended = (state == bad_end) | (state == good_end)
        entered = jnp.where(action == 1, bad_end + 1, 1)
        # Past the last place: the final observation of both corridors is all zeros.
        place = jnp.where(ended, good_end + 1, jnp.where(state == 0, entered, state + 1))
        return Step(
            state=place,
            observation=self._observe(place),
            reward=jnp.where(ended, jnp.where(state == good_end, 1.0, -1.0), 0.0),
            terminated=ended,
            truncated=jnp.asarray(False),
        )

    def action_values(self, gamma: float) -> np.ndarray:
        """±gamma to the power of the steps that are left before the last one."""
        corridor = gamma ** np.arange(self.length - 1, -1, -1)
        fork = gamma**self.length
        bad, good = (np.stack([sign * corridor] * 2, axis=1) for sign in (-1, 1))
        return np.concatenate([[[-fork, fork]], bad, good])


class RingState(NamedTuple):
    """A place on one of two rings (0-3 poor, 4-7 rich), and the steps taken."""

    place: Int32[Array, ""]
    steps: Int32[Array, ""]


class Truncation(_OneHot[RingState]):
    """Walks round a ring of four places, for ever; each episode shows three steps of it.

    Every step on the rich ring pays 1, on the poor one 0, and no way leads from one to the other,
    so the values are 1 / (1 - gamma) and 0. They come out too low if a truncation is taken for a
    termination, and as a mixture if the bootstrap is the next episode's first observation.
    """

    name = "Probe/Truncation-v0"
    optimal_actions = 8 * (None,)
    max_steps = 3

    def __init__(self) -> None:
        super().__init__(8)

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[RingState, Array]:
        """Begins anywhere on either ring."""
        place = jax.random.randint(key, (), 0, 8, jnp.int32)
        return RingState(place, jnp.zeros((), jnp.int32)), self._observe(place)

    def step(self, key: PRNGKeyArray, state: RingState, action: Array, params: Any) -> Step:
        """One place on, round the same ring."""
        rich = state.place // 4
        place = 4 * rich + (state.place + 1) % 4
        steps = state.steps + 1
        return Step(
            state=RingState(place, steps),
            observation=self._observe(place),
            reward=rich.astype(jnp.float32),
            terminated=jnp.asarray(False),
            truncated=steps == self.max_steps,
        )

    def action_values(self, gamma: float) -> np.ndarray:
        """Of never-ending walks."""
        return np.repeat([[0.0, 0.0], [1.0, 1.0]], 4, axis=0) / (1.0 - gamma)


class TownState(NamedTuple):
    """The place (of `OffPolicy`; 4 is the end), and the place where the walk started."""

    place: Int32[Array, ""]
    came_from_a: Bool[Array, ""]


class OffPolicy(_OneHot[TownState]):
    """Are traces cut where the agent strays from the greedy policy?

    From A or B (drawn at random) action 0 earns 1/2 and ends; action 1 leads to the junction. There
    action 1 earns 1 and ends; action 0 strays into the detour, which costs 3 for who came from A
    and earns 3 for who came from B: 0 on average, and junction and detour look the same for both.
    For any gamma above 1/2 the best way is to go (value gamma) and not to stray. An agent that
    strays now and then and credits A with what came of it, finds A's way bad and B's too good:
    under uniformly random actions an uncut trace gives `gamma ∓ 3/2 (gamma lam)²` for going.
    Both conventions of cutting, before and after the straying step, give gamma.
    """

    name = "Probe/OffPolicy-v0"
    optimal_actions = (1, 1, 1, None)
    A, B, JUNCTION, DETOUR = range(4)

    def __init__(self) -> None:
        super().__init__(4)

    def reset(self, key: PRNGKeyArray, params: Any) -> tuple[TownState, Array]:
        """Begins at A or at B."""
        from_a = jax.random.bernoulli(key)
        place = jnp.where(from_a, self.A, self.B)
        return TownState(place, from_a), self._observe(place)

    def step(self, key: PRNGKeyArray, state: TownState, action: Array, params: Any) -> Step:
        """One step from A or B, from the junction, or from the detour."""
        at_start = state.place < self.JUNCTION
        at_junction = state.place == self.JUNCTION
        onward = jnp.where(at_start, action == 1, at_junction & (action == 0))
        place = jnp.where(onward, jnp.where(at_start, self.JUNCTION, self.DETOUR), 4)
        payment = jnp.where(
            at_start, 0.5, jnp.where(at_junction, 1.0, jnp.where(state.came_from_a, -3.0, 3.0))
        )
        return Step(
            state=TownState(place, state.came_from_a),
            observation=self._observe(place),
            reward=jnp.where(onward, 0.0, payment),
            terminated=~onward,
            truncated=jnp.asarray(False),
        )

    def action_values(self, gamma: float) -> np.ndarray:
        """For gamma above 1/2; the detour's is the average over A and B."""
        return np.array([[0.5, gamma], [0.5, gamma], [0.0, 1.0], [0.0, 0.0]])
