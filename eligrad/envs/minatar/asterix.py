"""Asterix: pick up the treasure that crosses the board, keep away from the enemies.

Rows 1 to 8 hold at most one entity each. What is known of all eight fits into 32-bit words of
eight 4-bit digits, one digit per row, so that a step is a handful of scalar operations: nothing
to reduce over, nothing to index.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from eligrad.envs.minatar.base import DOWN, LEFT, NOOP, RIGHT, UP, Game
from eligrad.envs.minatar.canvas import SIZE, Canvas

SLOWEST_SPAWN, SLOWEST_MOVE = 10, 5
RAMP_INTERVAL = 100
LAST_RAMP = 9
"""The ramp after which entities spawn and move on every frame."""

EACH_ROW = np.uint32(0x11111111)
"""A one in every digit."""

CHANNELS = ("player", "enemy", "trail", "gold")
PLAYER, ENEMY, TRAIL, GOLD = range(len(CHANNELS))
CANVAS = Canvas(len(CHANNELS))
_HAS_DIGIT = (CANVAS.row >= 1) & (CANVAS.row <= 8)
_DIGIT = np.where(_HAS_DIGIT, 4 * (CANVAS.row - 1), 0).astype(np.uint32)
"""Where each row's digit is in a word."""


class AsterixState(NamedTuple):
    """The player, the eight rows, and the clocks."""

    player_x: Int[Array, ""]
    player_y: Int[Array, ""]
    occupied: UInt32[Array, ""]
    """Digit i is 1 where row i + 1 holds an entity; the words below mean nothing where it is 0."""
    rightward: UInt32[Array, ""]
    """Digit 1: the entity came from the left side."""
    gold: UInt32[Array, ""]
    """Digit 1: treasure, else an enemy."""
    travelled: UInt32[Array, ""]
    """How many cells the entity is from the side it came from."""
    spawn_timer: Int[Array, ""]
    move_timer: Int[Array, ""]
    ramp_timer: Int[Array, ""]
    ramp_index: Int[Array, ""]
    """How often the game became harder; both speeds follow from it."""


class Asterix(Game):
    """MinAtar's Asterix.

    Draws: 0 decides the side an entity comes from (below 1/2: from the left), 1 what it is (below
    1/3: treasure), 2 which of the free rows it takes.
    """

    name = "MinAtar/Asterix-v1"
    actions = (NOOP, LEFT, UP, RIGHT, DOWN)
    channels = CHANNELS
    num_draws = 3

    def begin(self, draws: Float[Array, " draws"]) -> AsterixState:
        """An empty board with the player in the middle."""
        nothing = jnp.uint32(0)
        return AsterixState(
            player_x=jnp.int32(SIZE // 2),
            player_y=jnp.int32(SIZE // 2),
            occupied=nothing,
            rightward=nothing,
            gold=nothing,
            travelled=nothing,
            spawn_timer=jnp.int32(SLOWEST_SPAWN),
            move_timer=jnp.int32(SLOWEST_MOVE),
            ramp_timer=jnp.int32(RAMP_INTERVAL),
            ramp_index=jnp.int32(0),
        )

    def advance(
        self,
        game: AsterixState,
        action: Int[Array, ""],
        draws: Float[Array, " draws"],
        ramping: Bool[Array, ""],
    ) -> tuple[AsterixState, Float[Array, ""], Bool[Array, ""]]:
        """Spawns, moves the player, moves the entities; contact counts before and after those."""
        spawns, moves = game.spawn_timer == 0, game.move_timer == 0
        spawn_timer = jnp.where(spawns, SLOWEST_SPAWN - game.ramp_index, game.spawn_timer)
        move_timer = jnp.where(moves, SLOWEST_MOVE - game.ramp_index // 2, game.move_timer)
        game = _spawn(game, spawns, draws)
        game = game._replace(
            player_x=jnp.clip(game.player_x + _signed(action, LEFT, RIGHT), 0, SIZE - 1),
            player_y=jnp.clip(game.player_y + _signed(action, UP, DOWN), 1, SIZE - 2),
        )
        game, collected, caught = _touch(game)
        # Where nothing moves, the second contact can only find the enemy of the first one again.
        game, collected_later, caught_later = _touch(_move(game, moves))
        game = _ramp(game._replace(spawn_timer=spawn_timer - 1, move_timer=move_timer - 1), ramping)
        reward = collected.astype(jnp.float32) + collected_later.astype(jnp.float32)
        return game, reward, caught | caught_later

    def observe(self, game: AsterixState) -> Bool[Array, "10 10 4"]:
        """The player and, in each row, the entity and the cell that it has just left."""

        def flags(word: Array) -> Array:
            return (word >> _DIGIT) & 1 == 1

        travelled = ((game.travelled >> _DIGIT) & 15).astype(jnp.int32)
        rightward, occupied = flags(game.rightward), flags(game.occupied) & _HAS_DIGIT
        kind = jnp.where(flags(game.gold), GOLD, ENEMY)
        at, behind = _column(rightward, travelled), _column(rightward, travelled - 1)
        entities = (kind == CANVAS.channel) & (at == CANVAS.column)
        trails = (CANVAS.channel == TRAIL) & (behind == CANVAS.column)
        player = CANVAS.pixel(PLAYER, game.player_y, game.player_x)
        return player | (occupied & (entities | trails))


def _signed(action: Int[Array, ""], backward: int, forward: int) -> Int[Array, ""]:
    return (action == forward).astype(jnp.int32) - (action == backward).astype(jnp.int32)


def _column(rightward: Bool[Array, "*rows"], travelled: Int[Array, "*rows"]) -> Array:
    return jnp.where(rightward, travelled, SIZE - 1 - travelled)


def _free_row(occupied: UInt32[Array, ""], draw: Float[Array, ""]) -> UInt32[Array, ""]:
    """A word with a one in the drawn free row's digit; 0 where no row is free."""
    free = ~occupied & EACH_ROW
    # One multiplication is all eight prefix sums: digit i counts the free rows up to row i.
    up_to = free * EACH_ROW
    drawn = jnp.floor(draw * (up_to >> 28).astype(jnp.float32)).astype(jnp.uint32)
    differs = (up_to - free) ^ (drawn * EACH_ROW)
    differs |= differs >> 2
    differs |= differs >> 1
    return free & ~differs


def _spawn(
    game: AsterixState, spawns: Bool[Array, ""], draws: Float[Array, " draws"]
) -> AsterixState:
    row = jnp.where(spawns, _free_row(game.occupied, draws[2]), 0)
    return game._replace(
        occupied=game.occupied | row,
        rightward=(game.rightward & ~row) | jnp.where(draws[0] < 1 / 2, row, 0),
        gold=(game.gold & ~row) | jnp.where(draws[1] < 1 / 3, row, 0),
        travelled=game.travelled & ~(row * 15),
    )


def _touch(game: AsterixState) -> tuple[AsterixState, Bool[Array, ""], Bool[Array, ""]]:
    """Collects the treasure in the player's cell: state, whether there was one, or an enemy."""
    shift = (4 * (game.player_y - 1)).astype(jnp.uint32)

    def flag(word: Array) -> Array:
        return (word >> shift) & 1 == 1

    travelled = ((game.travelled >> shift) & 15).astype(jnp.int32)
    here = _column(flag(game.rightward), travelled) == game.player_x
    here &= flag(game.occupied)
    gold = flag(game.gold)
    collected = here & gold
    occupied = game.occupied & ~(collected.astype(jnp.uint32) << shift)
    return game._replace(occupied=occupied), collected, here & ~gold


def _move(game: AsterixState, moves: Bool[Array, ""]) -> AsterixState:
    travelled = game.travelled + jnp.where(moves, game.occupied, 0)
    # Of the numbers up to 10, only 10, which is off the board, has both bit 3 and bit 1.
    gone = (travelled >> 3) & (travelled >> 1)
    return game._replace(travelled=travelled, occupied=game.occupied & ~gone)


def _ramp(game: AsterixState, ramping: Bool[Array, ""]) -> AsterixState:
    active = ramping & (game.ramp_index < LAST_RAMP)
    due = active & (game.ramp_timer < 0)
    waited = game.ramp_timer - active.astype(jnp.int32)
    return game._replace(
        ramp_timer=jnp.where(due, RAMP_INTERVAL, waited),
        ramp_index=game.ramp_index + due.astype(jnp.int32),
    )
