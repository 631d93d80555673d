"""Space Invaders: shoot the aliens before they land, and do not be hit.

The aliens march as one: what is left of their 4 × 6 formation fits into 24 bits, and the cell of
its upper left corner says the rest. The cool-downs leave room for two shots of the cannon and
one of the aliens at a time. So a state is a few scalars and a step a few scalar operations.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from eligrad.envs.core import select
from eligrad.envs.minatar.base import FIRE, LEFT, NOOP, RIGHT, Game
from eligrad.envs.minatar.canvas import SIZE, Canvas

LAST = SIZE - 1
ROWS, COLUMNS = 4, 6
"""The formation; the alien in its row r and column c is bit 6 r + c."""
FULL = np.uint32(2 ** (ROWS * COLUMNS) - 1)
ONE_ROW = np.uint32(2**COLUMNS - 1)

SHOT_COOL_DOWN = 5
BOMB_INTERVAL = 10
SLOWEST_MARCH, FASTEST_MARCH = 12, 6

CHANNELS = ("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet")
CANNON, ALIEN, ALIEN_LEFT, ALIEN_RIGHT, FRIENDLY_BULLET, ENEMY_BULLET = range(len(CHANNELS))
CANVAS = Canvas(len(CHANNELS))


class Cell(NamedTuple):
    """A place on the board; a row off the board means that nothing is there."""

    row: Int[Array, ""]
    column: Int[Array, ""]


class SpaceInvadersState(NamedTuple):
    """The cannon, the aliens, what both have fired, and the clocks."""

    cannon: Int[Array, ""]
    """The column; the row is always the last."""
    shot: Cell
    earlier_shot: Cell
    """A third is never in flight: the cool-down outlasts half a flight."""
    bomb: Cell
    """The aliens' shot; it has left the board before the next one is due."""
    aliens: UInt32[Array, ""]
    """Who is left of the formation."""
    corner: Cell
    """Where the formation's upper left alien is or was; its column can be off the board."""
    marches_right: Bool[Array, ""]
    march_interval: Int[Array, ""]
    """Frames between moves while there are many aliens; the ramp lowers it."""
    march_timer: Int[Array, ""]
    bomb_timer: Int[Array, ""]
    shot_timer: Int[Array, ""]


class SpaceInvaders(Game):
    """MinAtar's Space Invaders. Nothing in it is random, so it uses no draws."""

    name = "MinAtar/SpaceInvaders-v1"
    actions = (NOOP, LEFT, RIGHT, FIRE)
    channels = CHANNELS
    num_draws = 0

    def begin(self, draws: Float[Array, " draws"]) -> SpaceInvadersState:
        """A full formation, and nothing in the air."""
        return SpaceInvadersState(
            cannon=jnp.int32(SIZE // 2),
            shot=_cell(-1, 0),
            earlier_shot=_cell(-1, 0),
            bomb=_cell(SIZE, 0),
            aliens=jnp.uint32(FULL),
            corner=_cell(0, 2),
            marches_right=jnp.bool_(False),
            march_interval=jnp.int32(SLOWEST_MARCH),
            march_timer=jnp.int32(SLOWEST_MARCH),
            bomb_timer=jnp.int32(BOMB_INTERVAL),
            shot_timer=jnp.int32(0),
        )

    def advance(
        self,
        game: SpaceInvadersState,
        action: Int[Array, ""],
        draws: Float[Array, " draws"],
        ramping: Bool[Array, ""],
    ) -> tuple[SpaceInvadersState, Float[Array, ""], Bool[Array, ""]]:
        """The cannon acts, all bullets fly, the aliens march and bomb, then shots meet aliens."""
        game = _act(game, action)
        bombed = (game.bomb.row == LAST) & (game.bomb.column == game.cannon)
        trodden = _rams_cannon(game)
        game, landed = _march(game)
        trodden |= _rams_cannon(game)
        game, kills = _resolve_shots(_drop_bomb(game))
        game = _next_wave(game, ramping)
        return game, kills.astype(jnp.float32), bombed | trodden | landed

    def observe(self, game: SpaceInvadersState) -> Bool[Array, "10 10 6"]:
        """The aliens, in a second channel by their course, and the cannon and all bullets."""
        columns = _board_columns(_formation_row(game, CANVAS.row), game.corner.column)
        course = jnp.where(game.marches_right, ALIEN_RIGHT, ALIEN_LEFT)
        aliens = (columns >> CANVAS.column.astype(np.uint32)) & 1 == 1
        return (
            (aliens & ((CANVAS.channel == ALIEN) | (course == CANVAS.channel)))
            | CANVAS.pixel(CANNON, LAST, game.cannon)
            | CANVAS.pixel(FRIENDLY_BULLET, *game.shot)
            | CANVAS.pixel(FRIENDLY_BULLET, *game.earlier_shot)
            | CANVAS.pixel(ENEMY_BULLET, *game.bomb)
        )


def _cell(row: int, column: int) -> Cell:
    return Cell(jnp.int32(row), jnp.int32(column))


def _bit(position: Int[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    return jnp.uint32(1) << position.astype(jnp.uint32)


def _below_corner(
    game: SpaceInvadersState, row: Int[Array, "*shape"] | Int[np.ndarray, "*shape"]
) -> Int[Array, "*shape"]:
    """How far down from the corner a row is, on a board whose lower edge joins the upper one.

    It joins in the frame in which aliens land: that frame still shows and plays them in row 0.
    """
    below = row - game.corner.row
    return jnp.where(below < 0, below + SIZE, below)


def _formation_row(
    game: SpaceInvadersState, row: Int[Array, "*shape"] | Int[np.ndarray, "*shape"]
) -> UInt32[Array, "*shape"]:
    """The aliens in a row of the board, as bits of the formation's columns."""
    shift = COLUMNS * jnp.minimum(_below_corner(game, row), ROWS)
    return (game.aliens >> shift.astype(jnp.uint32)) & ONE_ROW


def _board_columns(
    formation_columns: UInt32[Array, "*shape"], left: Int[Array, ""]
) -> UInt32[Array, "*shape"]:
    """Bits of the formation's columns as bits of the board's."""
    # Aliens left off the board would need a negative shift: go further left first, then back.
    margin = COLUMNS - 1
    return (formation_columns << (left + margin).astype(jnp.uint32)) >> margin


def _occupied_columns(game: SpaceInvadersState) -> UInt32[Array, ""]:
    halves = game.aliens | (game.aliens >> 2 * COLUMNS)
    return _board_columns((halves | (halves >> COLUMNS)) & ONE_ROW, game.corner.column)


def _rams_cannon(game: SpaceInvadersState) -> Bool[Array, ""]:
    last_row = _board_columns(_formation_row(game, jnp.int32(LAST)), game.corner.column)
    return last_row & _bit(game.cannon) != 0


def _act(game: SpaceInvadersState, action: Int[Array, ""]) -> SpaceInvadersState:
    """Moves or fires the cannon; then every bullet flies on by one cell."""
    fires = (action == FIRE) & (game.shot_timer == 0)
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    cannon = jnp.clip(game.cannon + turn, 0, LAST)
    shot = select(fires, Cell(jnp.int32(LAST), cannon), game.shot)
    earlier_shot = select(fires, game.shot, game.earlier_shot)
    timer = jnp.where(fires, SHOT_COOL_DOWN, game.shot_timer)
    return game._replace(
        cannon=cannon,
        shot=shot._replace(row=jnp.maximum(shot.row - 1, -1)),
        earlier_shot=earlier_shot._replace(row=jnp.maximum(earlier_shot.row - 1, -1)),
        bomb=game.bomb._replace(row=jnp.minimum(game.bomb.row + 1, SIZE)),
        shot_timer=jnp.maximum(timer - 1, 0),
    )


def _march(game: SpaceInvadersState) -> tuple[SpaceInvadersState, Bool[Array, ""]]:
    """Sideways, or down and about at the edge: state, and whether the lowest row stepped off."""
    moves = game.march_timer == 0
    columns = _occupied_columns(game)
    at_edge = columns & jnp.where(game.marches_right, np.uint32(1 << LAST), np.uint32(1)) != 0
    descends, sidles = moves & at_edge, moves & ~at_edge
    landed = descends & (_formation_row(game, jnp.int32(LAST)) != 0)
    sideways = jnp.where(game.marches_right, jnp.int32(1), jnp.int32(-1))
    alive = jax.lax.population_count(game.aliens).astype(jnp.int32)
    timer = jnp.where(moves, jnp.minimum(alive, game.march_interval), game.march_timer)
    marched = game._replace(
        corner=Cell(
            game.corner.row + descends.astype(jnp.int32),
            game.corner.column + jnp.where(sidles, sideways, 0),
        ),
        marches_right=game.marches_right ^ descends,
        march_timer=timer - 1,
    )
    return marched, landed


def _drop_bomb(game: SpaceInvadersState) -> SpaceInvadersState:
    """When due, from the lowest alien of the column nearest to the cannon."""
    due = game.bomb_timer == 0
    column = _nearest(_occupied_columns(game), game.cannon)
    lowest = jnp.int32(0)
    # From the top down, so that the last alien counts; one that stepped off is in row 0.
    for r in range(ROWS):
        row = game.corner.row + r
        alive = game.aliens & _bit(COLUMNS * r + column - game.corner.column) != 0
        lowest = jnp.where(alive & (row < SIZE), row, lowest)
    return game._replace(
        bomb=select(due, Cell(lowest, column), game.bomb),
        bomb_timer=jnp.where(due, BOMB_INTERVAL, game.bomb_timer) - 1,
    )


def _nearest(columns: UInt32[Array, ""], column: Int[Array, ""]) -> Int[Array, ""]:
    """The place of the set bit closest to `column`, the left one of two; some bit must be set."""
    up_to = columns & ((_bit(column) << 1) - 1)
    beyond = columns - up_to
    left = _highest(up_to)
    right = _highest(beyond & ~(beyond - 1))
    take_left = (up_to != 0) & ((beyond == 0) | (column - left <= right - column))
    return jnp.where(take_left, left, right)


def _highest(bits: UInt32[Array, ""]) -> Int[Array, ""]:
    return 31 - jax.lax.clz(bits).astype(jnp.int32)


def _resolve_shots(game: SpaceInvadersState) -> tuple[SpaceInvadersState, Int[Array, ""]]:
    """Removes shots and aliens that share a cell: state, number of kills."""
    aliens, shot, hit = _strike(game, game.shot)
    game = game._replace(aliens=aliens, shot=shot)
    aliens, earlier_shot, earlier_hit = _strike(game, game.earlier_shot)
    game = game._replace(aliens=aliens, earlier_shot=earlier_shot)
    return game, hit.astype(jnp.int32) + earlier_hit.astype(jnp.int32)


def _strike(game: SpaceInvadersState, shot: Cell) -> tuple[Array, Cell, Bool[Array, ""]]:
    below = _below_corner(game, shot.row)
    right = shot.column - game.corner.column
    inside = (shot.row >= 0) & (below < ROWS) & (right >= 0) & (right < COLUMNS)
    target = jnp.where(inside, _bit(COLUMNS * below + right), 0)
    hit = game.aliens & target != 0
    return game.aliens & ~target, shot._replace(row=jnp.where(hit, -1, shot.row)), hit


def _next_wave(game: SpaceInvadersState, ramping: Bool[Array, ""]) -> SpaceInvadersState:
    cleared = game.aliens == 0
    faster = cleared & ramping & (game.march_interval > FASTEST_MARCH)
    return game._replace(
        aliens=jnp.where(cleared, FULL, game.aliens),
        corner=select(cleared, _cell(0, 2), game.corner),
        march_interval=game.march_interval - faster.astype(jnp.int32),
    )
