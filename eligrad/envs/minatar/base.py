"""What the five MinAtar games share: sticky actions, minimal action sets, one draw per step.

A game is a deterministic machine fed with uniform numbers. Every random decision it can take has
a fixed place in the vector `draws`, so that a test can play each outcome by hand, and a step with
the beginning that may follow it costs one call of the random generator.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eligrad.envs.core import Environment, Step, Transition, check_action, follow
from eligrad.envs.minatar.canvas import SIZE
from eligrad.envs.spaces import Box, Discrete

NOOP, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
"""The full action set, in the original's order."""


class Params(NamedTuple):
    """The numbers of a game."""

    sticky_probability: Any = 0.1
    """How often the previous action is repeated instead of the chosen one."""
    ramping: Any = True
    """Whether the game becomes harder with time."""


class MinAtarState(NamedTuple):
    """A game's state and the last action, which is kept for the next episode."""

    game: Any
    last_action: Int[Array, ""]


class Game(Environment[MinAtarState]):
    """One game; a subclass gives the rules, this class the protocol."""

    actions: ClassVar[tuple[int, ...]]
    """The minimal action set: which of the six actions each choice stands for."""
    channels: ClassVar[tuple[str, ...]]
    """What each channel of the observation shows."""
    num_draws: ClassVar[int]
    """How many uniform numbers a step may use."""
    num_first_draws: ClassVar[int] = 0
    """How many uniform numbers the beginning of an episode uses."""

    def __init__(self) -> None:
        self.action_space = Discrete(len(self.actions))
        self.observation_space = Box(False, True, (SIZE, SIZE, len(self.channels)), np.bool_)

    def begin(self, draws: Float[Array, " draws"]) -> Any:
        """The game's state at the beginning of an episode."""
        raise NotImplementedError(f"{type(self).__name__} must define begin(draws)")

    def advance(
        self,
        game: Any,
        action: Int[Array, ""],
        draws: Float[Array, " draws"],
        ramping: Bool[Array, ""],
    ) -> tuple[Any, Float[Array, ""], Bool[Array, ""]]:
        """One step of the game under one of the six actions: state, reward, terminated."""
        raise NotImplementedError(
            f"{type(self).__name__} must define advance(game, action, draws, ramping)"
        )

    def observe(self, game: Any) -> Bool[Array, "10 10 channels"]:
        """What the player sees of a state."""
        raise NotImplementedError(f"{type(self).__name__} must define observe(game)")

    def default_params(self) -> Params:
        """The settings of the original's `-v1` environments."""
        return Params()

    def reset(self, key: PRNGKeyArray, params: Params) -> tuple[MinAtarState, Array]:
        """Begins the first episode; no action has been carried out before it."""
        return self._begin(_uniform(key, self.num_first_draws), jnp.int32(NOOP))

    def restart(
        self, key: PRNGKeyArray, state: MinAtarState, params: Params
    ) -> tuple[MinAtarState, Array]:
        """Begins the next episode; a sticky first step repeats the old episode's last action."""
        return self._begin(_uniform(key, self.num_first_draws), state.last_action)

    def _begin(self, draws: Array, last_action: Array) -> tuple[MinAtarState, Array]:
        game = self.begin(draws)
        return MinAtarState(game, last_action), self.observe(game)

    def step(self, key: PRNGKeyArray, state: MinAtarState, action: Array, params: Params) -> Step:
        """Plays one frame; the sticky draw comes before the game's own."""
        return self.step_with_draws(_uniform(key, 1 + self.num_draws), state, action, params)

    def step_autoreset(
        self, key: PRNGKeyArray, state: MinAtarState, action: Array, params: Params
    ) -> Transition:
        """A step and the beginning that may follow it, with all numbers drawn in one call.

        On a CPU such a call takes about as long as a frame of most games, and the general way,
        which splits the key in two first, needs up to three.
        """
        uniform = _uniform(key, 1 + self.num_draws + self.num_first_draws)
        for_step, for_beginning = jnp.split(uniform, (1 + self.num_draws,))
        stepped = self.step_with_draws(for_step, state, action, params)
        return follow(stepped, self._begin(for_beginning, stepped.state.last_action))

    def render(self, state: MinAtarState, params: Params) -> np.ndarray:
        """What the player sees, a pixel for each cell, in the original's colours."""
        # Imports matplotlib, which importing the games should not.
        from eligrad.envs.minatar.render import render

        return render(self.observe(state.game))

    def step_with_draws(
        self, uniform: Float[Array, " draws"], state: MinAtarState, action: Array, params: Params
    ) -> Step:
        """Plays one frame with its random numbers given: the sticky draw, then the game's own."""
        check_action(self, action)
        chosen = self._full_action(action)
        carried_out = jnp.where(uniform[0] < params.sticky_probability, state.last_action, chosen)
        game, reward, terminated = self.advance(
            state.game, carried_out, uniform[1:], jnp.asarray(params.ramping)
        )
        return Step(
            state=MinAtarState(game, carried_out),
            observation=self.observe(game),
            reward=reward,
            terminated=terminated,
            truncated=jnp.zeros((), bool),
        )

    def _full_action(self, action: Array) -> Int[Array, ""]:
        # A sum over a mask instead of a table look-up: gathers are slow in a batch.
        hit = action.astype(jnp.int32) == np.arange(len(self.actions), dtype=np.int32)
        return jnp.sum(jnp.where(hit, np.array(self.actions, np.int32), 0), dtype=jnp.int32)


def _uniform(key: PRNGKeyArray, count: int) -> Float[Array, " count"]:
    return jax.random.uniform(key, (count,), jnp.float32)
