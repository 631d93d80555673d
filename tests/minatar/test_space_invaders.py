"""Space Invaders, side by side with the original."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.envs.minatar.base import LEFT, MinAtarState, Params
from eligrad.envs.minatar.space_invaders import Cell, SpaceInvaders, SpaceInvadersState

from .lockstep import Policy, lockstep, lookahead_policy, random_policy

SETTINGS = [(0.0, False), (0.0, True), (0.1, False), (0.1, True)]
CHOICES = {"noop": 0, "left": 1, "right": 2, "fire": 3}


class Scene(NamedTuple):
    """A situation, to be written into both games."""

    aliens: np.ndarray
    """Who is left of the 4 × 6 formation."""
    top: int = 0
    left: int = 2
    cannon: int = 5
    marches_right: bool = False
    march_interval: int = 12
    march_timer: int = 5
    bomb_timer: int = 5
    bomb: tuple[int, int] | None = None
    shot_age: int = 9
    """Frames since the cannon last fired; from 9 on that shot has left the board."""
    shot_column: int = 0
    earlier_age: int = 14
    earlier_column: int = 0


def in_original(scene: Scene, game: Any) -> None:
    game.reset()
    game.alien_map[:] = 0
    for r, c in np.argwhere(scene.aliens):
        game.alien_map[scene.top + r, scene.left + c] = 1
    for age, column in (
        (scene.shot_age, scene.shot_column),
        (scene.earlier_age, scene.earlier_column),
    ):
        if age < 9:
            game.f_bullet_map[8 - age, column] = 1
    if scene.bomb:
        game.e_bullet_map[scene.bomb] = 1
    game.pos, game.alien_dir = scene.cannon, 1 if scene.marches_right else -1
    game.enemy_move_interval, game.alien_move_timer = scene.march_interval, scene.march_timer
    game.alien_shot_timer, game.shot_timer = scene.bomb_timer, max(4 - scene.shot_age, 0)


def in_ours(scene: Scene) -> SpaceInvadersState:
    bits = sum(1 << 6 * int(r) + int(c) for r, c in np.argwhere(scene.aliens))

    def cell(row: int, column: int) -> Cell:
        return Cell(jnp.int32(row), jnp.int32(column))

    return SpaceInvadersState(
        cannon=jnp.int32(scene.cannon),
        shot=cell(max(8 - scene.shot_age, -1), scene.shot_column),
        earlier_shot=cell(max(8 - scene.earlier_age, -1), scene.earlier_column),
        bomb=cell(*scene.bomb) if scene.bomb else cell(10, 0),
        aliens=jnp.uint32(bits),
        corner=cell(scene.top, scene.left),
        marches_right=jnp.bool_(scene.marches_right),
        march_interval=jnp.int32(scene.march_interval),
        march_timer=jnp.int32(scene.march_timer),
        bomb_timer=jnp.int32(scene.bomb_timer),
        shot_timer=jnp.int32(max(4 - scene.shot_age, 0)),
    )


def assert_same_state(env: Any, state: MinAtarState) -> None:
    """Equal also in what the board does not show."""
    ours, theirs = state.game, env.env
    assert bool(ours.marches_right) == (theirs.alien_dir > 0)
    assert int(ours.cannon) == theirs.pos
    assert int(ours.march_interval) == theirs.enemy_move_interval
    assert int(ours.march_timer) == theirs.alien_move_timer
    assert int(ours.bomb_timer) == theirs.alien_shot_timer
    assert int(ours.shot_timer) == theirs.shot_timer


def watched(policy: Policy, events: Counter[str]) -> Policy:
    """Counts what the policy's action leads to; apart from stickiness nothing is random."""

    def policy_and_count(env: Any, rng: np.random.Generator) -> int:
        choice = policy(env, rng)
        before, after = env.env, copy.deepcopy(env.env)
        reward, terminal = after.act(env.minimal_action_set()[choice])
        events[f"reward {reward}"] += 1
        events[f"ended {terminal}"] += 1
        events[f"interval {after.enemy_move_interval}"] += 1
        events[f"shots {int(after.f_bullet_map.sum())}"] += 1
        last_row = before.alien_map[9].any()
        edge = before.alien_map[:, 9 if before.alien_dir > 0 else 0].any()
        moves = before.alien_move_timer == 0
        events[f"landed {moves and edge and last_row}, bombs {before.alien_shot_timer == 0}"] += 1
        if after.e_bullet_map[9, after.pos] and before.alien_shot_timer:
            events["bombed"] += 1
        if last_row and after.alien_map[9, after.pos] and not edge:
            events[f"rammed, march {moves}"] += 1
        if np.count_nonzero(before.alien_map) == reward:
            events["wave cleared"] += 1
        return choice

    return policy_and_count


def random_scene(rng: np.random.Generator) -> Scene:
    """Anything that play could lead to, with emphasis on the edges of the board."""
    aliens = rng.random((4, 6)) < rng.choice([0.1, 0.5, 1.0])
    aliens[rng.integers(4), rng.integers(6)] = True
    rows, columns = np.flatnonzero(aliens.any(axis=1)), np.flatnonzero(aliens.any(axis=0))
    lowest, leftmost, rightmost = 9 - int(rows[-1]), -int(columns[0]), 9 - int(columns[-1])
    since_bomb = int(rng.integers(10))
    bomb_row = int(rng.integers(10)) + since_bomb
    shot_age = int(rng.integers(12))
    return Scene(
        aliens,
        top=int(rng.choice([lowest, lowest, int(rng.integers(lowest + 1))])),
        left=int(rng.choice([leftmost, rightmost, int(rng.integers(leftmost, rightmost + 1))])),
        cannon=int(rng.integers(10)),
        marches_right=bool(rng.integers(2)),
        march_interval=int(rng.integers(6, 13)),
        march_timer=int(rng.choice([0, 0, int(rng.integers(12))])),
        bomb_timer=9 - since_bomb,
        bomb=(bomb_row, int(rng.integers(10))) if bomb_row < 10 else None,
        shot_age=shot_age,
        shot_column=int(rng.integers(10)),
        earlier_age=shot_age + int(rng.integers(5, 8)),
        earlier_column=int(rng.integers(10)),
    )


@pytest.mark.parametrize(("sticky", "ramping"), SETTINGS)
def test_random_play(sticky, ramping):
    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=400,
        sticky=sticky,
        ramping=ramping,
        limit=2,
        on_step=assert_same_state,
    )


@pytest.mark.parametrize(("sticky", "ramping"), [(0.0, False), (0.1, True)])
def test_lookahead_play(sticky, ramping):
    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=200,
        policy=lookahead_policy(4, 1),
        sticky=sticky,
        ramping=ramping,
        limit=2,
        on_step=assert_same_state,
    )


def play_scenes(transitions: int, sticky: float, seed: int) -> Counter[str]:
    """Random play, thrown into a new situation every few frames."""
    rng, events = np.random.default_rng(seed), Counter[str]()

    def throw(env: Any, state: MinAtarState) -> MinAtarState:
        if rng.random() > 0.4:
            return state
        scene = random_scene(rng)
        in_original(scene, env.env)
        return MinAtarState(in_ours(scene), state.last_action)

    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=transitions,
        policy=watched(random_policy, events),
        sticky=sticky,
        limit=2,
        seed=seed,
        on_step=assert_same_state,
        edit=throw,
    )
    return events


@pytest.mark.parametrize("sticky", [0.0, 0.1])
def test_situations(sticky):
    events = play_scenes(1500, sticky, seed=3)
    for event in (
        "landed True, bombs False",
        "landed True, bombs True",
        "bombed",
        "rammed, march False",
        "rammed, march True",
        "shots 2",
    ):
        assert events[event] > 0, event


def formation(*cells: tuple[int, int]) -> np.ndarray:
    aliens = np.zeros((4, 6), bool)
    for cell in cells:
        aliens[cell] = True
    return aliens


AT_THE_EDGE = Scene(formation((0, 0)), top=9, left=0, march_timer=0)
ONE_TO_CLEAR = Scene(formation((0, 0)), top=3, left=4, shot_age=4, shot_column=4)
SCENES = {
    "a bomb from an alien that stepped over the edge": (
        AT_THE_EDGE._replace(bomb_timer=0),
        "landed True, bombs True",
    ),
    "a bomb from the alien above one that stepped over the edge": (
        AT_THE_EDGE._replace(aliens=formation((2, 0), (3, 0)), top=6, bomb_timer=0),
        "landed True, bombs True",
    ),
    "a shot meets an alien that stepped over the edge": (
        AT_THE_EDGE._replace(aliens=formation((0, 0), (0, 2)), shot_age=7),
        "reward 1",
    ),
    "an alien comes down on the cannon": (
        AT_THE_EDGE._replace(top=8, cannon=0),
        "ended True",
    ),
    "a bomb's column is tied between left and right": (
        Scene(formation((0, 0), (0, 4)), left=3, cannon=5, bomb_timer=0),
        "landed False, bombs True",
    ),
    "two shots meet two aliens": (
        Scene(
            formation((0, 0), (3, 5), (2, 2)),
            top=2,
            left=1,
            shot_age=2,
            shot_column=6,
            earlier_age=5,
            earlier_column=1,
        ),
        "reward 2",
    ),
    "two shots clear the wave": (
        Scene(
            formation((0, 0), (3, 0)),
            left=2,
            shot_age=4,
            shot_column=2,
            earlier_age=7,
            earlier_column=2,
        ),
        "interval 11",
    ),
    "a cleared wave": (ONE_TO_CLEAR, "interval 11"),
    "the last cleared wave that makes the next one faster": (
        ONE_TO_CLEAR._replace(march_interval=7),
        "interval 6",
    ),
    "a cleared wave at the fastest": (ONE_TO_CLEAR._replace(march_interval=6), "interval 6"),
}


@pytest.mark.parametrize("ramping", [False, True])
def test_scenes(ramping):
    """Each situation must happen as its name says, and both games must go on alike."""
    frames_each, pending, names = 6, list(SCENES), ["none"]
    happened = {}

    def stage(env: Any, state: MinAtarState) -> MinAtarState:
        names.append(names[-1])
        if len(names) % frames_each or not pending:
            return state
        names[-1] = pending.pop()
        scene, _ = SCENES[names[-1]]
        in_original(scene, env.env)
        return MinAtarState(in_ours(scene), state.last_action)

    def policy(env: Any, rng: np.random.Generator) -> int:
        events = Counter[str]()
        choice = watched(lambda env, rng: CHOICES["noop"], events)(env, rng)
        happened.setdefault(names[-1], events)
        return choice

    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=2 * frames_each * (1 + len(SCENES)),
        policy=policy,
        sticky=0.0,
        ramping=ramping,
        limit=2,
        on_step=assert_same_state,
        edit=stage,
    )
    for name, (scene, expected) in SCENES.items():
        if not ramping and expected.startswith("interval"):
            expected = f"interval {scene.march_interval}"
        assert happened[name][expected] == 1, name
        assert happened[name]["wave cleared"] == ("clear" in name), name


def test_sticky_distribution():
    """The only dice of the game: how often the last action is repeated, through real keys."""
    count, env = 100_000, SpaceInvaders()
    state = MinAtarState(env.reset(jax.random.key(0), Params())[0].game, jnp.int32(LEFT))
    right = jnp.int32(CHOICES["right"])
    step = jax.vmap(lambda key: env.step(key, state, right, Params()).state.game.cannon)
    columns = np.asarray(jax.jit(step)(jax.random.split(jax.random.key(3), count)))
    repeated = np.count_nonzero(columns == 4)
    assert repeated + np.count_nonzero(columns == 6) == count
    assert abs(repeated - 0.1 * count) < 3 * np.sqrt(0.1 * 0.9 * count)


@pytest.mark.nightly
@pytest.mark.parametrize(("sticky", "ramping"), SETTINGS)
def test_long_random_play(sticky, ramping):
    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=20_000,
        sticky=sticky,
        ramping=ramping,
        limit=2,
        seed=1,
        on_step=assert_same_state,
    )


@pytest.mark.nightly
def test_long_lookahead_play():
    """Clears waves of its own accord, and so goes up the ramp."""
    events = Counter[str]()
    lockstep(
        SpaceInvaders(),
        "space_invaders",
        {},
        transitions=20_000,
        policy=watched(lookahead_policy(10, 2), events),
        limit=2,
        on_step=assert_same_state,
    )
    assert "wave cleared" in events


@pytest.mark.nightly
@pytest.mark.parametrize("sticky", [0.0, 0.1])
def test_long_situations(sticky):
    play_scenes(20_000, sticky, seed=4)
