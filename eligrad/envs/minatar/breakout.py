"""Breakout: keep the ball in play and break the wall, which is rebuilt once it is gone.

The wall is one integer, a bit per brick. Nothing of a frame but the picture is then larger than a
scalar, so that a step has no reductions and compiles to a handful of fused kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from eligrad.envs.minatar.base import LEFT, NOOP, RIGHT, Game
from eligrad.envs.minatar.canvas import SIZE, Canvas

WALL_TOP, WALL_ROWS = 1, 3
FULL_WALL = 2 ** (WALL_ROWS * SIZE) - 1
"""All bricks: bit SIZE * (row - WALL_TOP) + column of the wall is the brick at (row, column)."""

BOTTOM = SIZE - 1
START_ROW, START_PADDLE = 3, 4

CHANNELS = ("paddle", "ball", "trail", "brick")
PADDLE, BALL, TRAIL, BRICK = range(len(CHANNELS))
CANVAS = Canvas(len(CHANNELS))
_WALL_ROW = CANVAS.row - WALL_TOP
_IN_WALL = (CANVAS.channel == BRICK) & (_WALL_ROW >= 0) & (_WALL_ROW < WALL_ROWS)
_BIT = np.where(_IN_WALL, _WALL_ROW * SIZE + CANVAS.column, 0)


class BreakoutState(NamedTuple):
    """The ball, where it came from and where it is heading, the paddle and the wall."""

    ball_row: Int[Array, ""]
    ball_column: Int[Array, ""]
    last_row: Int[Array, ""]
    last_column: Int[Array, ""]
    goes_down: Bool[Array, ""]
    goes_right: Bool[Array, ""]
    paddle: Int[Array, ""]
    """The paddle's column; it lies in the bottom row."""
    inside: Bool[Array, ""]
    """Whether the ball struck at its last step, or has been passing through bricks since."""
    wall: Int[Array, ""]


class Breakout(Game):
    """The ball moves diagonally; a brick is worth 1; a missed ball ends the episode.

    The one draw of a beginning: the ball starts on the left below 1/2, else on the right. A step
    draws nothing, and the difficulty does not ramp.
    """

    name = "MinAtar/Breakout-v1"
    actions = (NOOP, LEFT, RIGHT)
    channels = CHANNELS
    num_draws = 0
    num_first_draws = 1

    def begin(self, draws: Float[Array, "1"]) -> BreakoutState:
        """A full wall, and the ball below it at one of the sides."""
        from_left = draws[0] < 0.5
        row, column = jnp.int32(START_ROW), jnp.where(from_left, 0, SIZE - 1).astype(jnp.int32)
        return BreakoutState(
            ball_row=row,
            ball_column=column,
            last_row=row,
            last_column=column,
            goes_down=jnp.bool_(True),
            goes_right=from_left,
            paddle=jnp.int32(START_PADDLE),
            inside=jnp.bool_(False),
            wall=jnp.int32(FULL_WALL),
        )

    def advance(
        self,
        game: BreakoutState,
        action: Int[Array, ""],
        draws: Float[Array, "0"],
        ramping: Bool[Array, ""],
    ) -> tuple[BreakoutState, Float[Array, ""], Bool[Array, ""]]:
        """Moves the paddle, then the ball, which meets at most one of ceiling, brick and floor."""
        del draws, ramping
        aside = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
        paddle = jnp.clip(game.paddle + aside, 0, SIZE - 1)

        # A side wall turns the ball round, but the ball also slides one row along it.
        ahead = game.ball_column + jnp.where(game.goes_right, 1, -1)
        column = jnp.clip(ahead, 0, SIZE - 1)
        goes_right = game.goes_right ^ (ahead != column)
        row = game.ball_row + jnp.where(game.goes_down, 1, -1)

        at_ceiling = row < 0
        brick = (row - WALL_TOP) * SIZE + column
        in_wall = (brick >= 0) & (brick < WALL_ROWS * SIZE)
        bit = jnp.int32(1) << jnp.clip(brick, 0, WALL_ROWS * SIZE - 1)
        meets_brick = in_wall & ((game.wall & bit) != 0)
        breaks = meets_brick & ~game.inside
        wall = jnp.where(breaks, game.wall & ~bit, game.wall)

        at_floor = row == BOTTOM
        wall = jnp.where(at_floor & (wall == 0), FULL_WALL, wall)
        # The paddle sends the ball on if it was under it before the step, back if it is only now.
        sends_on = at_floor & (game.ball_column == paddle)
        sends_back = at_floor & (column == paddle) & ~sends_on
        bounces = breaks | sends_on | sends_back

        return (
            BreakoutState(
                ball_row=jnp.where(bounces, game.ball_row, jnp.maximum(row, 0)),
                ball_column=column,
                last_row=game.ball_row,
                last_column=game.ball_column,
                goes_down=game.goes_down ^ (at_ceiling | bounces),
                goes_right=goes_right ^ sends_back,
                paddle=paddle,
                inside=meets_brick,
                wall=wall,
            ),
            breaks.astype(jnp.float32),
            at_floor & ~bounces,
        )

    def observe(self, game: BreakoutState) -> Bool[Array, "10 10 4"]:
        """The paddle, the ball, its last place and the bricks."""
        return (
            CANVAS.pixel(PADDLE, BOTTOM, game.paddle)
            | CANVAS.pixel(BALL, game.ball_row, game.ball_column)
            | CANVAS.pixel(TRAIL, game.last_row, game.last_column)
            | (_IN_WALL & ((game.wall >> _BIT) & 1 != 0))
        )
