"""MinAtar's Seaquest: shoot fish and submarines, rescue divers, come up for air in time.

The original keeps lists of things at sea; here each cell of the board is a word, and a frame is
arithmetic on all words at once. Nothing can overflow, since there are no slots. Two facts about
the game make this exact.

**No two enemies ever agree in cell and move timer.** All enemies of a row go the same way (none
appears against the course of another), so take an older A and a younger B of one row. A frame
maps (place, timer) to (place, timer - 1), or (place + 1, interval) where the timer was 0. Call
the lead of A the number of frames after which B will be where A is now, at today's interval:
(cells between them)·(interval + 1) + (B's timer - A's timer). The frame map keeps it; only a
shortening of the interval lowers it, by the cells between them. At most one enemy appears per
frame, so the lead starts at 1 or more. The interval shortens three times, 5 → 4 → 3 → 2, and
until then enemies appear at least 19, 17 and 15 frames apart: a lead of 19 drops to 15, 11 and 7
at worst and never to 0. (A test goes through all the times at which the interval can shorten.)
Hence a cell holds at most one enemy per value of the timer, and the *oldest* of a cell, which the
original finds first in its lists, is the one with the *smallest timer*. It also means that no two
enemies enter a cell in the same frame.

**Things of one kind and course in one cell are interchangeable.** Enemy bullets of one course
have no other property, so a set stands for the list. A friendly bullet always flies away from
the player at full speed, so two of them never share a cell. Divers appear every 30 frames, live
for 59, and move every 6th, all in the same frames: at most two exist, and two of the same course
are five cells apart. Only where two divers of opposite courses reach the player at once and one
place is free does their order matter: the younger one, which has come the shorter way, gets it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from eligrad.envs.minatar.base import DOWN, FIRE, LEFT, RIGHT, UP, Game
from eligrad.envs.minatar.canvas import SIZE

MAX_OXYGEN = 200
OXYGEN_PER_CELL = MAX_OXYGEN // SIZE
SEATS = 6
SHOT_COOL_DOWN = 5
DIVER_INTERVAL = 30
DIVER_MOVE_INTERVAL = 6
SLOWEST_SPAWN, FASTEST_SPAWN = 20, 1
SLOWEST_MOVE, FASTEST_MOVE = 5, 2
LAST_RAMP = SLOWEST_SPAWN - FASTEST_SPAWN
FEWEST_DIVERS = -(2**30)
"""Each surfacing without divers costs one more; the original would count on for ever."""

# Boards are flat, row after row: one loop over 100 cells is faster than ten over 10.
CELLS = np.arange(SIZE * SIZE, dtype=np.int32)
ROWS, COLUMNS = np.divmod(CELLS, np.int32(SIZE))
NOT_FIRST_COLUMN = np.where(COLUMNS > 0, -1, 0).astype(np.int32)
NOT_LAST_COLUMN = np.where(COLUMNS < SIZE - 1, -1, 0).astype(np.int32)

# An enemy is four bits at the place of its move timer in the cell's word: a submarine is
# 1 + the frames until it shoots, from 1 to 11; a fish is 12, which no submarine can be.
ENEMY = 0xF
FRESH_SUB = 11
FISH = 12
EACH = 0x111111
"""The lowest bit of each of the six enemies that a cell has room for."""

# What keeps its course: one bit for each kind and course; courses alternate.
FRIENDLY_RIGHT, FRIENDLY_LEFT, ENEMY_RIGHT, ENEMY_LEFT, DIVER_RIGHT, DIVER_LEFT = (
    1 << bit for bit in range(6)
)
FRIENDLY = FRIENDLY_RIGHT | FRIENDLY_LEFT
HOSTILE = ENEMY_RIGHT | ENEMY_LEFT
DIVERS = DIVER_RIGHT | DIVER_LEFT
RIGHTWARD = FRIENDLY_RIGHT | ENEMY_RIGHT | DIVER_RIGHT
LEFTWARD = FRIENDLY_LEFT | ENEMY_LEFT | DIVER_LEFT


class SeaquestState(NamedTuple):
    """Where everything is, and every clock."""

    enemies: Int[Array, "100"]
    """Fish and submarines by cell and move timer."""
    drifters: Int[Array, "100"]
    """Bullets and divers by cell, kind and course."""
    headings: Int[Array, ""]
    """The course of each row's enemies: bit y is set where those of row y go right."""
    x: Int[Array, ""]
    y: Int[Array, ""]
    facing_right: Bool[Array, ""]
    oxygen: Int[Array, ""]
    divers: Int[Array, ""]
    """Divers on board; negative after a surfacing with all six, and then further down."""
    surfaced: Bool[Array, ""]
    """Whether this stay at the surface has been paid for."""
    ramp: Int[Array, ""]
    """How often the game has become harder."""
    enemy_timer: Int[Array, ""]
    diver_timer: Int[Array, ""]
    shot_timer: Int[Array, ""]


def _right(board: Array) -> Array:
    """The board moved by one column; what leaves it is gone."""
    return lax.pad(board, np.int32(0), ((1, -1, 0),)) & NOT_FIRST_COLUMN


def _left(board: Array) -> Array:
    return lax.pad(board, np.int32(0), ((-1, 1, 0),)) & NOT_LAST_COLUMN


def _drift(drifters: Array) -> Array:
    return _right(drifters & RIGHTWARD) | _left(drifters & LEFTWARD)


def _total(board: Array) -> Array:
    # In two dimensions, because XLA turns long sums into slow sums of windows.
    return jnp.sum(board.reshape(SIZE, SIZE), dtype=jnp.int32)


def _settle(board: Array) -> Array:
    """The same board (its words lie below 2³⁰ - 1), but computed once.

    Left alone, XLA on CPUs computes a cell again for every cell that looks at it, and so on back
    to the start of the frame: three times the work. It spares what it holds to be expensive, such
    as a remainder.
    """
    return lax.rem(board, jnp.full_like(board, 2**30 - 1))


def _goes_right(headings: Array) -> Array:
    return ((headings >> ROWS) & 1) != 0


def _present(enemies: Array) -> Array:
    """The lowest bit of each enemy that is there."""
    return (enemies | enemies >> 1 | enemies >> 2 | enemies >> 3) & EACH


def _fish(enemies: Array) -> Array:
    """The lowest bit of each fish."""
    return (enemies >> 3) & (enemies >> 2) & EACH


def _oldest(lowest_bits: Array) -> Array:
    """All bits of the first of the enemies given by their lowest bits."""
    return ENEMY * (lowest_bits & -lowest_bits)


class Seaquest(Game):
    """Seaquest, as in MinAtar 1.0.15.

    Draws: 0 course, 1 kind and 2 row of an enemy; 3 course and 4 row of a diver.
    """

    name = "MinAtar/Seaquest-v1"
    actions = (0, 1, 2, 3, 4, 5)
    # The spelling of the gauges is the original's.
    channels = (
        "sub_front",
        "sub_back",
        "friendly_bullet",
        "trail",
        "enemy_bullet",
        "enemy_fish",
        "enemy_sub",
        "oxygen_guage",
        "diver_guage",
        "diver",
    )
    num_draws = 5

    def begin(self, draws: Float[Array, " draws"]) -> SeaquestState:
        """At the surface, in the middle, nothing else in sight; no draw is used."""
        board = jnp.zeros(SIZE * SIZE, jnp.int32)
        return SeaquestState(
            enemies=board,
            drifters=board,
            headings=jnp.int32(0),
            x=jnp.int32(5),
            y=jnp.int32(0),
            facing_right=jnp.bool_(False),
            oxygen=jnp.int32(MAX_OXYGEN),
            divers=jnp.int32(0),
            surfaced=jnp.bool_(True),
            ramp=jnp.int32(0),
            enemy_timer=jnp.int32(SLOWEST_SPAWN),
            diver_timer=jnp.int32(DIVER_INTERVAL),
            shot_timer=jnp.int32(0),
        )

    def advance(
        self,
        game: SeaquestState,
        action: Int[Array, ""],
        draws: Float[Array, " draws"],
        ramping: Bool[Array, ""],
    ) -> tuple[SeaquestState, Float[Array, ""], Bool[Array, ""]]:
        """Appearances, the player, friendly bullets, divers, enemies, their bullets, the air."""
        move_interval = jnp.maximum(SLOWEST_MOVE - game.ramp // 2, FASTEST_MOVE)

        # The player; a shot starts where the player is, since firing is not moving.
        x = jnp.clip(game.x + _int(action == RIGHT) - _int(action == LEFT), 0, SIZE - 1)
        y = jnp.clip(game.y + _int(action == DOWN) - _int(action == UP), 0, SIZE - 2)
        facing_right = (game.facing_right | (action == RIGHT)) & (action != LEFT)
        fires = (action == FIRE) & (game.shot_timer == 0)
        cell = SIZE * y + x
        here = cell == CELLS
        shot = jnp.where(facing_right, FRIENDLY_RIGHT, FRIENDLY_LEFT)
        drifters = game.drifters | jnp.where(here & fires, shot, 0)

        # A new diver.
        diver_due = game.diver_timer == 0
        diver_right = draws[3] < 0.5
        diver_cell = SIZE * _row(draws[4]) + _edge(diver_right) == CELLS
        diver = jnp.where(diver_right, DIVER_RIGHT, DIVER_LEFT)
        drifters |= jnp.where(diver_cell & diver_due, diver, 0)

        # One sum answers which divers meet the player (at most one of each course), and above
        # their bits whether a new enemy would appear against the course of its row.
        divers_move = game.diver_timer % DIVER_MOVE_INTERVAL == 1
        comes_right = here | ((cell - 1 == CELLS) & (x > 0) & divers_move)
        comes_left = here | ((cell + 1 == CELLS) & (x < SIZE - 1) & divers_move)
        meeting = drifters & (
            jnp.where(comes_right, DIVER_RIGHT, 0) | jnp.where(comes_left, DIVER_LEFT, 0)
        )
        enemy_right = draws[0] < 0.5
        enemy_row = _row(draws[2])
        oncoming = ((game.headings >> enemy_row) & 1 != 0) != enemy_right
        in_the_way = (enemy_row == ROWS) & (game.enemies != 0) & oncoming
        found = _total(meeting + jnp.where(in_the_way, 2 * DIVER_LEFT, 0))

        # Divers come on board.
        meets_right, meets_left = (found & DIVER_RIGHT) != 0, (found & DIVER_LEFT) != 0
        contested = meets_right & meets_left & (game.divers == SEATS - 1)
        room = game.divers < SEATS
        takes_right = meets_right & room & ~(contested & (x >= SIZE // 2))
        takes_left = meets_left & room & ~(contested & (x < SIZE // 2))
        taken = jnp.where(takes_right, DIVER_RIGHT, 0) | jnp.where(takes_left, DIVER_LEFT, 0)
        drifters &= ~(meeting & taken)
        divers = game.divers + _int(takes_right) + _int(takes_left)

        # A new enemy.
        enemy_due = game.enemy_timer == 0
        appears = enemy_due & (found < 2 * DIVER_LEFT)
        row_bit = jnp.int32(1) << enemy_row
        headings = jnp.where(enemy_right, game.headings | row_bit, game.headings & ~row_bit)
        headings = jnp.where(appears, headings, game.headings)
        enemy_cell = SIZE * enemy_row + _edge(enemy_right) == CELLS
        enemy = jnp.where(draws[1] < 1 / 3, FRESH_SUB, FISH) << (4 * move_interval)
        enemies = game.enemies | jnp.where(enemy_cell & appears, enemy, 0)

        # Everything that keeps its course moves; friendly bullets hit fish first, then subs.
        hostile_before = drifters & HOSTILE
        moving = jnp.where(divers_move, FRIENDLY | HOSTILE | DIVERS, FRIENDLY | HOSTILE)
        drifters = _settle(_drift(drifters & moving) | (drifters & ~moving))
        friendly = (drifters & FRIENDLY) != 0
        fish = _fish(enemies)
        target = _oldest(jnp.where(fish != 0, fish, _present(enemies)))
        hit = friendly & (target != 0)
        enemies = jnp.where(hit, enemies & ~target, enemies)

        # Submarines count down to their shots; one that is hit on its way still fires.
        subs = _present(enemies) & ~_fish(enemies)
        due = enemies & ~(enemies >> 1 | enemies >> 2 | enemies >> 3) & EACH
        ticked = enemies - subs + FRESH_SUB * due
        departing = _settle((ticked & ENEMY) | (due & 1) << 4)
        goes_right = _goes_right(headings)
        arriving = jnp.where(goes_right, _right(departing), _left(departing))
        hit_arriving = friendly & ~hit & (arriving != 0)
        staying = ticked >> 4
        arrived = jnp.where(hit_arriving, 0, arriving & ENEMY) << (4 * move_interval)

        fires_here = ((due & ~1) | (arriving >> 4)) != 0
        fired = jnp.where(fires_here, jnp.where(goes_right, ENEMY_RIGHT, ENEMY_LEFT), 0)
        drifters |= _drift(fired)
        hit |= hit_arriving
        drifters = jnp.where(hit, drifters & ~FRIENDLY, drifters)

        # One sum counts the hits (at most two) and above them says whether the player was met.
        harm = enemies | arriving | hostile_before | (drifters & HOSTILE)
        harmed = here & (harm != 0)
        met = _total(_int(hit) + jnp.where(harmed, 8, 0))

        # The air.
        at_surface = y == 0
        arrives = at_surface & ~game.surfaced
        surfaces = arrives & (divers != 0)
        full = surfaces & (divers == SEATS)
        bonus = jnp.where(full, game.oxygen // OXYGEN_PER_CELL, 0)
        terminated = (met >= 8) | (game.oxygen <= 0) | (arrives & (divers == 0))
        left_on_board = jnp.where(full, -1, jnp.maximum(divers - 1, FEWEST_DIVERS))
        harder = surfaces & ramping & (game.ramp < LAST_RAMP)

        interval = SLOWEST_SPAWN - game.ramp
        game = SeaquestState(
            enemies=_settle(staying | arrived),
            drifters=_settle(drifters),
            headings=headings,
            x=x,
            y=y,
            facing_right=facing_right,
            oxygen=jnp.where(surfaces, MAX_OXYGEN, game.oxygen - _int(~at_surface)),
            divers=jnp.where(surfaces, left_on_board, divers),
            surfaced=at_surface & (game.surfaced | surfaces),
            ramp=game.ramp + _int(harder),
            enemy_timer=jnp.where(enemy_due, interval, game.enemy_timer) - 1,
            diver_timer=jnp.where(diver_due, DIVER_INTERVAL, game.diver_timer) - 1,
            shot_timer=jnp.maximum(jnp.where(fires, SHOT_COOL_DOWN, game.shot_timer) - 1, 0),
        )
        return game, ((met & 7) + bonus).astype(jnp.float32), terminated

    def observe(self, game: SeaquestState) -> Bool[Array, "10 10 channels"]:
        """The boards of all channels as bits of one, which is then taken apart."""
        enemies, drifters = game.enemies, game.drifters
        fish = _fish(enemies)
        subs = _present(enemies) & ~fish
        cell = SIZE * game.y + game.x
        enemy_right = _goes_right(game.headings)
        rightward = ((enemies != 0) & enemy_right) | ((drifters & DIVER_RIGHT) != 0)
        leftward = ((enemies != 0) & ~enemy_right) | ((drifters & DIVER_LEFT) != 0)
        bottom = ROWS == SIZE - 1
        boards = (
            cell == CELLS,
            cell + jnp.where(game.facing_right, -1, 1) == CELLS,
            (drifters & FRIENDLY) != 0,
            (_left(_int(rightward)) | _right(_int(leftward))) != 0,
            (drifters & HOSTILE) != 0,
            fish != 0,
            subs != 0,
            bottom & (game.oxygen >= (COLUMNS + 1) * OXYGEN_PER_CELL),
            bottom & (SIZE - 1 - game.divers <= COLUMNS) & (COLUMNS < SIZE - 1),
            (drifters & DIVERS) != 0,
        )
        shown = jnp.zeros(SIZE * SIZE, jnp.int32)
        for channel, board in enumerate(boards):
            shown |= jnp.where(board, 1 << channel, 0)
        picture = (shown[:, None] >> np.arange(len(boards), dtype=np.int32)[None, :]) & 1 != 0
        return picture.reshape(SIZE, SIZE, len(boards))


def _row(uniform: Array) -> Array:
    """Appearances are in the eight rows between the surface and the sea bed."""
    return 1 + (uniform * (SIZE - 2)).astype(jnp.int32)


def _edge(from_left: Array) -> Array:
    return jnp.where(from_left, 0, SIZE - 1)


def _int(flag: Array) -> Array:
    return flag.astype(jnp.int32)
