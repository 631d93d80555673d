"""Ways to play the original Seaquest, and its states in our words."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import minatar
import numpy as np

from eligrad.envs.minatar.base import DOWN, FIRE, LEFT, NOOP, RIGHT, UP, MinAtarState, Params
from eligrad.envs.minatar.seaquest import (
    DIVER_LEFT,
    DIVER_RIGHT,
    ENEMY_LEFT,
    ENEMY_RIGHT,
    FISH,
    FRIENDLY_LEFT,
    FRIENDLY_RIGHT,
    Seaquest,
    SeaquestState,
)
from tests.minatar.lockstep import STICKY, Policy, ScriptedRandom, Site, random_policy, uniform_of

SITES = {
    ("_spawn_enemy", 0): Site(1, 1 / 2),
    ("_spawn_enemy", 1): Site(2, 1 / 3),
    ("_spawn_enemy", 2): Site(3),
    ("_spawn_diver", 0): Site(4, 1 / 2),
    ("_spawn_diver", 1): Site(5),
}
START = minatar.Environment("seaquest").env
LISTS = ("f_bullets", "e_bullets", "e_fish", "e_subs", "divers")


def move_interval(ramp: int) -> int:
    return max(5 - ramp // 2, 2)


def set_ramp(game: Any, ramp: int) -> None:
    game.ramp_index, game.e_spawn_speed = ramp, 20 - ramp
    game.move_speed = move_interval(ramp)


def state_of(game: Any) -> SeaquestState:
    """Our state for one of the original; fails where ours could not hold it."""
    assert game.e_spawn_speed == 20 - game.ramp_index
    assert game.move_speed == move_interval(game.ramp_index)
    enemies, drifters = np.zeros((2, 10, 10), np.int32)
    headings: dict[int, bool] = {}
    for kind in ("e_fish", "e_subs"):
        for x, y, right, timer, *shot in getattr(game, kind):
            assert headings.setdefault(y, right) == right, "two courses in a row"
            place = 4 * timer
            assert not (enemies[y, x] >> place) & 15, "two enemies agree in cell and timer"
            enemies[y, x] |= (1 + shot[0] if shot else FISH) << place
    assert len(game.f_bullets) <= 2
    assert len({(x, y) for x, y, _ in game.f_bullets}) == len(game.f_bullets)
    assert len(game.divers) <= 2
    assert len({(x, y, right) for x, y, right, _ in game.divers}) == len(game.divers)
    for x, y, right in game.f_bullets:
        drifters[y, x] |= FRIENDLY_RIGHT if right else FRIENDLY_LEFT
    for x, y, right in game.e_bullets:
        drifters[y, x] |= ENEMY_RIGHT if right else ENEMY_LEFT
    for x, y, right, timer in game.divers:
        assert timer == (game.d_spawn_timer - 1) % 6, "divers out of step"
        drifters[y, x] |= DIVER_RIGHT if right else DIVER_LEFT
    return SeaquestState(
        enemies=enemies.ravel(),
        drifters=drifters.ravel(),
        headings=np.int32(sum(1 << y for y, right in headings.items() if right)),
        x=np.int32(game.sub_x),
        y=np.int32(game.sub_y),
        facing_right=np.bool_(game.sub_or),
        oxygen=np.int32(game.oxygen),
        divers=np.int32(game.diver_count),
        surfaced=np.bool_(game.surface),
        ramp=np.int32(game.ramp_index),
        enemy_timer=np.int32(game.e_spawn_timer),
        diver_timer=np.int32(game.d_spawn_timer),
        shot_timer=np.int32(game.shot_timer),
    )


def fork(game: Any) -> Any:
    """A copy that can be played on its own, much faster than a deep copy."""
    twin = copy.copy(game)
    for name in LISTS:
        setattr(twin, name, [list(entity) for entity in getattr(game, name)])
    return twin


def towards(game: Any, x: int, y: int) -> list[int]:
    """The actions that bring the player nearer to a cell."""
    moves = [LEFT] * (x < game.sub_x) + [RIGHT] * (x > game.sub_x)
    return moves + [UP] * (y < game.sub_y) + [DOWN] * (y > game.sub_y)


def wishes(game: Any) -> list[int]:
    """What a diver hunter would like to do: bob at the surface while that makes the game harder
    at no cost, else fetch divers and then air."""
    if game.diver_count < 0 and game.ramp_index < 19:
        return [UP] if game.sub_y > 0 else [DOWN]
    if game.diver_count == 6 or (game.oxygen < 60 and game.diver_count > 0):
        return [UP]
    if game.divers:
        x, y, *_ = min(game.divers, key=lambda d: abs(d[0] - game.sub_x) + abs(d[1] - game.sub_y))
        return towards(game, x, y) or [NOOP]
    return [FIRE, DOWN if game.sub_y < 3 else NOOP]


def hunter(env: Any, rng: np.random.Generator) -> int:
    """Goes for divers and air, whatever is in the way."""
    return int(rng.choice([*wishes(env.env), FIRE if rng.random() < 0.5 else NOOP]))


def drifter(env: Any, rng: np.random.Generator) -> int:
    """Mostly fires, and prefers deep water, where the enemies are."""
    return int(rng.choice(6, p=[0.1, 0.15, 0.1, 0.15, 0.15, 0.35]))


def survivor(frames: int = 5) -> Policy:
    """A diver hunter that looks ahead, and survives until the game is at its hardest."""

    def lifetime(game: Any, first: int, then: int) -> int:
        twin = fork(game)
        for frame in range(frames):
            if twin.act(then if frame else first)[1]:
                return frame
        return frames

    def policy(env: Any, rng: np.random.Generator) -> int:
        game, wanted = fork(env.env), wishes(env.env)
        game.random = np.random.RandomState(int(rng.integers(2**31)))
        scores = [
            max(lifetime(game, action, then) for then in (NOOP, LEFT, RIGHT, UP, DOWN))
            + 0.5 * (action in wanted)
            + 0.1 * rng.random()
            for action in range(6)
        ]
        return int(np.argmax(scores))

    return policy


class RecordedRandom(ScriptedRandom):
    """Draws at natural odds, and remembers the draws."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.dice = rng

    def _draw(self, outcomes: int, caller: str, is_rand: bool) -> int:
        site = (caller, self.count.get(caller, 0))
        p = {**STICKY, **SITES}[site].probability if is_rand else None
        outcome = self.dice.integers(outcomes) if p is None else self.dice.random() >= p
        self.script = (*(draw.outcome for draw in self.log), int(outcome))
        return super()._draw(outcomes, caller, is_rand)


class Frame(NamedTuple):
    """One step of the original, in our words."""

    before: SeaquestState
    action: np.int32
    ramping: np.bool_
    uniforms: np.ndarray
    after: SeaquestState
    observation: np.ndarray
    reward: np.float32
    terminal: np.bool_


def play_frame(game: Any, action: int, random: Any) -> Frame:
    """Plays one step of the original's game itself, under no sticky actions."""
    before = state_of(game)
    game.random = random
    reward, terminal = game.act(action)
    uniforms = np.full(6, 0.5, np.float32)
    for draw in random.log:
        uniforms[SITES[draw.site].index] = uniform_of(draw)
    return Frame(
        before=before,
        action=np.int32(action),
        ramping=np.bool_(game.ramping),
        uniforms=uniforms,
        after=state_of(game),
        observation=game.state(),
        reward=np.float32(reward),
        terminal=np.bool_(terminal),
    )


@jax.jit
@jax.vmap
def replay(frame: Frame) -> Any:
    state = MinAtarState(frame.before, jnp.int32(NOOP))
    return Seaquest().step_with_draws(
        frame.uniforms, state, frame.action, Params(jnp.float32(0), frame.ramping)
    )


def check(frames: list[Frame]) -> None:
    """Ours, put into each state of the original, must make the same step in everything."""
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *frames)
    ours = jax.tree.map(np.asarray, replay(batch))
    np.testing.assert_array_equal(ours.observation, batch.observation)
    np.testing.assert_array_equal(ours.reward, batch.reward)
    np.testing.assert_array_equal(ours.terminated, batch.terminal)
    # The course of a row without enemies means nothing.
    rows = (ours.state.game.enemies.reshape(-1, 10, 10) != 0).any(axis=2)
    occupied = np.sum(rows * (1 << np.arange(10)), axis=1).astype(np.int32)
    game = ours.state.game._replace(headings=ours.state.game.headings & occupied)
    jax.tree.map(np.testing.assert_array_equal, game, batch.after)


def immortal_play(frames: int, seed: int) -> Iterator[tuple[Any, Frame]]:
    """A long play in which nothing ends the game, so that the sea gets as full as it can.

    Yields the original's game after each frame, for the caller to look into.
    """
    rng = np.random.default_rng(seed)
    env = minatar.Environment("seaquest")
    policies = (hunter, hunter, drifter, random_policy)
    policy = hunter
    for number in range(frames):
        if number % 100 == 0:
            policy = policies[int(rng.integers(len(policies)))]
        if number % 4000 == 0:
            env.env.reset()
        frame = play_frame(env.env, policy(env, rng), RecordedRandom(rng))
        yield env.env, frame
        if frame.terminal:
            env.env.terminal = False
            env.env.oxygen = 200 if env.env.oxygen <= 0 else env.env.oxygen


def scene(rng: np.random.Generator) -> Any:
    """A crowded moment: everything in two or three rows around the player."""
    game = fork(START)
    set_ramp(game, int(rng.choice([0, 2, 4, 19])))
    game.ramping = bool(rng.random() < 0.8)
    rows = rng.choice(np.arange(1, 9), size=int(rng.integers(1, 4)), replace=False)
    game.sub_x, game.sub_y = int(rng.integers(10)), int(rng.choice([*rows, *rows, 0, 1]))
    game.sub_or = bool(game.sub_x == 9 or (game.sub_x > 0 and rng.random() < 0.5))
    game.surface = game.sub_y == 0 and bool(rng.random() < 0.8)
    game.oxygen = int(rng.choice([0, 1, 19, 20, 100, 200]))
    game.diver_count = int(rng.choice([-2, -1, 0, 1, 5, 5, 6]))
    game.shot_timer = int(rng.choice([0, 0, 3]))
    game.e_spawn_timer = int(rng.choice([0, 0, min(5, game.e_spawn_speed - 1)]))
    game.d_spawn_timer = int(rng.integers(30))

    timers = game.move_speed + 1
    # A place is a cell and a timer; in the first cell no timer is untouched.
    places = [place for place in range(10 * timers) if place != game.move_speed]
    for row in rows:
        right = bool(rng.random() < 0.5)
        taken = rng.choice(places, size=int(rng.integers(12)), replace=False)
        # From the oldest to the youngest, as the original's lists have them.
        for cell, timer in sorted(zip(-(taken // timers), taken % timers, strict=True)):
            enemy = [int(-cell if right else 9 + cell), int(row), right, int(timer)]
            if rng.random() < 0.5:
                game.e_fish.append(enemy)
            else:
                game.e_subs.append([*enemy, int(rng.choice([0, 0, 1, 10]))])
        for x in rng.choice(10, size=int(rng.integers(4)), replace=False):
            game.e_bullets.append([int(x), int(row), bool(rng.random() < 0.5)])
    cells = [(x, int(y)) for x in range(10) for y in rows if (x, y) != (game.sub_x, game.sub_y)]
    # Where two bullets are still in sight, the gun has not cooled.
    bullets = int(rng.integers(2 if game.shot_timer == 0 else 3))
    for cell in rng.choice(len(cells), size=bullets, replace=False):
        # Bullets fly away from the player.
        x, y = cells[cell]
        right = x > game.sub_x if x != game.sub_x else bool(rng.random() < 0.5)
        game.f_bullets.append([x, y, right])
    for age in (60 - game.d_spawn_timer, 30 - game.d_spawn_timer):
        moves, right = age // 6, bool(rng.random() < 0.5)
        if moves <= 9 and rng.random() < 0.8:
            timer = (game.d_spawn_timer - 1) % 6
            game.divers.append([moves if right else 9 - moves, int(rng.choice(rows)), right, timer])
    return game
