"""Freeway: walk a chicken across eight lanes of traffic, as often as the time allows."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from eligrad.envs.minatar.base import DOWN, NOOP, UP, Game
from eligrad.envs.minatar.canvas import SIZE, Canvas

LANES = SIZE - 2
"""One car drives in each row but the first and the last."""
SLOWEST = 5
"""Cars move once in 2 … 1 + SLOWEST frames."""
CHICKEN_COLUMN = 4
CHICKEN_REST = 3
"""The chicken can move in one frame of three."""
TIME_LIMIT = 2500
"""The episode ends with the frame after this many frames."""

CHANNELS = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
CHICKEN, CAR = 0, 1
CANVAS = Canvas(len(CHANNELS))

_LANE_ROW = np.arange(1, LANES + 1, dtype=np.int32)
_NOWHERE = -1


class FreewayState(NamedTuple):
    """The chicken, the clock and, lane by lane, the cars."""

    chicken: Int[Array, ""]
    """The chicken's row; it walks up and down one column."""
    rest: Int[Array, ""]
    """Frames until the chicken can move again."""
    frames_left: Int[Array, ""]
    car_column: Int[Array, " lanes"]
    car_wait: Int[Array, " lanes"]
    """Frames until each car moves."""
    car_slowness: Int[Array, " lanes"]
    """Frames that each car waits between two moves."""
    goes_right: Bool[Array, " lanes"]


class Freeway(Game):
    """A crossing is worth 1 and shuffles the traffic; a car sends the chicken back to the start.

    Draws of a beginning, and of a step in which the chicken arrives: the slowness of the eight
    cars (0 … 7), then their directions (8 … 15; left below 1/2). The difficulty does not ramp.
    """

    name = "MinAtar/Freeway-v1"
    actions = (NOOP, UP, DOWN)
    channels = CHANNELS
    num_draws = num_first_draws = 2 * LANES

    def begin(self, draws: Float[Array, "16"]) -> FreewayState:
        """All cars at the left edge, the chicken at the bottom and at rest."""
        slowness, goes_right = _traffic(draws)
        return FreewayState(
            chicken=jnp.int32(SIZE - 1),
            rest=jnp.int32(CHICKEN_REST),
            frames_left=jnp.int32(TIME_LIMIT),
            car_column=jnp.zeros(LANES, jnp.int32),
            car_wait=slowness,
            car_slowness=slowness,
            goes_right=goes_right,
        )

    def advance(
        self,
        game: FreewayState,
        action: Int[Array, ""],
        draws: Float[Array, "16"],
        ramping: Bool[Array, ""],
    ) -> tuple[FreewayState, Float[Array, ""], Bool[Array, ""]]:
        """Moves the chicken, shuffles the traffic if it arrived, then moves the cars."""
        del ramping
        up, down = (action == UP) & (game.rest == 0), (action == DOWN) & (game.rest == 0)
        rest = jnp.where(up | down, CHICKEN_REST, game.rest)
        chicken = jnp.clip(
            game.chicken + down.astype(jnp.int32) - up.astype(jnp.int32), 0, SIZE - 1
        )
        arrives = chicken == 0
        chicken = jnp.where(arrives, SIZE - 1, chicken)

        new_slowness, new_right = _traffic(draws)
        slowness = jnp.where(arrives, new_slowness, game.car_slowness)
        goes_right = jnp.where(arrives, new_right, game.goes_right)
        wait = jnp.where(arrives, new_slowness, game.car_wait)

        moves = wait == 0
        column = jnp.where(moves, _beside(game.car_column, goes_right), game.car_column)
        # A car hits with the place it leaves and with the place it reaches. One lane at most is
        # the chicken's, so that the order of the cars does not matter.
        sweeps = (game.car_column == CHICKEN_COLUMN) | (column == CHICKEN_COLUMN)
        is_hit = jnp.any(sweeps & (chicken == _LANE_ROW))

        frames_left = game.frames_left - 1
        return (
            FreewayState(
                chicken=jnp.where(is_hit, SIZE - 1, chicken),
                rest=jnp.maximum(rest - 1, 0),
                frames_left=frames_left,
                car_column=column,
                car_wait=jnp.where(moves, slowness, wait - 1),
                car_slowness=slowness,
                goes_right=goes_right,
            ),
            arrives.astype(jnp.float32),
            frames_left < 0,
        )

    def observe(self, game: FreewayState) -> Bool[Array, "10 10 7"]:
        """The chicken, the cars, and behind each car a mark in the channel of its speed."""
        behind = _beside(game.car_column, ~game.goes_right)
        cars = _per_row(CANVAS.index(CAR, _LANE_ROW, game.car_column))
        marks = _per_row(CANVAS.index(CAR + game.car_slowness, _LANE_ROW, behind))
        chicken = CANVAS.pixel(CHICKEN, game.chicken, CHICKEN_COLUMN)
        return chicken | (cars == CANVAS.entry) | (marks == CANVAS.entry)


def _traffic(draws: Float[Array, "16"]) -> tuple[Int[Array, " lanes"], Bool[Array, " lanes"]]:
    """Slowness and direction of each car."""
    slowness = 1 + jnp.floor(SLOWEST * draws[:LANES]).astype(jnp.int32)
    return slowness, draws[LANES:] >= 0.5


def _beside(column: Int[Array, " lanes"], right: Bool[Array, " lanes"]) -> Int[Array, " lanes"]:
    """The next column to the right or left, round the edges."""
    return jnp.where(
        right,
        jnp.where(column == SIZE - 1, 0, column + 1),
        jnp.where(column == 0, SIZE - 1, column - 1),
    )


def _per_row(entries: Int[Array, " lanes"]) -> Int[Array, "10 1 1"]:
    """Each lane's flat index beside its row of the board."""
    return jnp.pad(entries, 1, constant_values=_NOWHERE)[:, None, None]
