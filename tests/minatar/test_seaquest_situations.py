"""Seaquest in rare and crowded situations: each is set up in the original and played in both."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import minatar
import numpy as np
import pytest

from eligrad.envs.minatar.base import DOWN, FIRE, LEFT, NOOP, RIGHT, UP
from eligrad.envs.minatar.seaquest import FEWEST_DIVERS
from tests.minatar.lockstep import ScriptedRandom
from tests.minatar.seaquest_play import (
    Frame,
    RecordedRandom,
    check,
    fork,
    play_frame,
    scene,
    set_ramp,
)


@pytest.mark.parametrize(
    "scenes", [4000, pytest.param(100_000, marks=pytest.mark.nightly)], ids=str
)
def test_crowded_scenes(scenes):
    rng = np.random.default_rng(scenes)
    frames = (
        play_frame(scene(rng), int(rng.choice([FIRE, *range(6)])), RecordedRandom(rng))
        for _ in range(scenes)
    )
    while batch := list(itertools.islice(frames, 4000)):
        check(batch)


def sea(**changes: Any) -> Any:
    """A quiet original game in the deep, with some changes; divers move in this frame."""
    game = minatar.Environment("seaquest").env
    calm = {"sub_x": 4, "sub_y": 5, "surface": False, "e_spawn_timer": 9, "d_spawn_timer": 13}
    for name, value in {**calm, **changes}.items():
        setattr(game, name, value)
    set_ramp(game, 19)
    return game


Situation = tuple[Any, int, Callable[[Any, Frame], bool]]
"""A game of the original, the action, and what then must be true of it."""

SITUATIONS: dict[str, Situation] = {
    "friendly bullets leave both sides": (
        sea(f_bullets=[[0, 3, False], [9, 5, True]]),
        NOOP,
        lambda game, frame: game.f_bullets == [],
    ),
    "enemy bullets leave both sides": (
        sea(e_bullets=[[0, 3, False], [9, 3, True], [9, 6, False]]),
        NOOP,
        lambda game, frame: game.e_bullets == [[8, 6, False]],
    ),
    "enemy bullets cross": (
        sea(e_bullets=[[5, 3, False], [5, 3, True], [4, 3, True]]),
        NOOP,
        lambda game, frame: sorted(b[0] for b in game.e_bullets) == [4, 5, 6],
    ),
    "enemies leave both sides": (
        sea(e_fish=[[0, 3, False, 0], [9, 2, True, 0]], e_subs=[[0, 6, False, 0, 3]]),
        NOOP,
        lambda game, frame: game.e_fish == [] and game.e_subs == [],
    ),
    "of a fish and a submarine in a cell the fish is hit": (
        sea(f_bullets=[[4, 3, True]], e_fish=[[5, 3, True, 2]], e_subs=[[5, 3, True, 1, 4]]),
        NOOP,
        lambda game, frame: game.e_fish == [] and len(game.e_subs) == 1 and frame.reward == 1,
    ),
    "of two fish in a cell the older is hit": (
        sea(f_bullets=[[4, 3, True]], e_fish=[[5, 3, True, 1], [5, 3, True, 2]]),
        NOOP,
        lambda game, frame: game.e_fish == [[5, 3, True, 1]] and frame.reward == 1,
    ),
    "of two submarines in a cell the older is hit": (
        sea(f_bullets=[[6, 3, False]], e_subs=[[5, 3, True, 1, 7], [5, 3, True, 2, 8]]),
        NOOP,
        lambda game, frame: game.e_subs == [[5, 3, True, 1, 7]] and frame.reward == 1,
    ),
    "a fish swims into a bullet": (
        sea(f_bullets=[[5, 3, False]], e_fish=[[3, 3, True, 0]]),
        NOOP,
        lambda game, frame: game.e_fish == game.f_bullets == [] and frame.reward == 1,
    ),
    "a submarine that dies on its shot frame still fires": (
        sea(f_bullets=[[5, 3, False]], e_subs=[[3, 3, True, 0, 0]]),
        NOOP,
        lambda game, frame: game.e_subs == [] and game.e_bullets == [[5, 3, True]],
    ),
    "a submarine shot at rest does not fire": (
        sea(f_bullets=[[4, 3, False]], e_subs=[[3, 3, True, 1, 0]]),
        NOOP,
        lambda game, frame: game.e_subs == game.e_bullets == [] and frame.reward == 1,
    ),
    "a submarine that leaves on its shot frame fires out of sight": (
        sea(e_subs=[[9, 3, True, 0, 0]]),
        NOOP,
        lambda game, frame: game.e_subs == game.e_bullets == [],
    ),
    "two hits in a frame": (
        sea(f_bullets=[[5, 3, False], [6, 4, True]], e_fish=[[3, 3, True, 0], [7, 4, True, 1]]),
        NOOP,
        lambda game, frame: frame.reward == 2,
    ),
    "the last seat goes to the younger diver, on the left": (
        sea(diver_count=5, sub_x=2, divers=[[3, 5, False, 0], [1, 5, True, 0]]),
        NOOP,
        lambda game, frame: game.divers == [[2, 5, False, 5]] and game.diver_count == 6,
    ),
    "the last seat goes to the younger diver, on the right": (
        sea(diver_count=5, sub_x=7, divers=[[6, 5, True, 0], [8, 5, False, 0]]),
        NOOP,
        lambda game, frame: game.divers == [[7, 5, True, 5]] and game.diver_count == 6,
    ),
    "the last seat is taken before the divers move on": (
        sea(diver_count=5, sub_x=7, divers=[[7, 5, True, 0], [7, 5, False, 0]]),
        NOOP,
        lambda game, frame: game.divers == [[8, 5, True, 5]] and game.diver_count == 6,
    ),
    "two divers come on board at once": (
        sea(diver_count=4, sub_x=2, divers=[[3, 5, False, 0], [1, 5, True, 0]]),
        NOOP,
        lambda game, frame: game.divers == [] and game.diver_count == 6,
    ),
    "a full submarine passes divers by": (
        sea(diver_count=6, sub_x=2, divers=[[2, 5, False, 0], [1, 5, True, 0]]),
        NOOP,
        lambda game, frame: [d[0] for d in game.divers] == [1, 2],
    ),
    "a diver leaves on the right, one row above a player on the left": (
        sea(sub_x=0, divers=[[9, 4, True, 0]]),
        NOOP,
        lambda game, frame: game.divers == [] and game.diver_count == 0,
    ),
    "a diver leaves on the left, one row below a player on the right": (
        sea(sub_x=9, sub_or=True, divers=[[0, 6, False, 0]]),
        NOOP,
        lambda game, frame: game.divers == [] and game.diver_count == 0,
    ),
    "surfacing with no divers": (
        sea(sub_y=1),
        UP,
        lambda game, frame: bool(frame.terminal) and game.oxygen == 200,
    ),
    "surfacing with some divers": (
        sea(sub_y=1, diver_count=3, oxygen=77),
        UP,
        lambda game, frame: game.diver_count == 2 and game.oxygen == 200 and frame.reward == 0,
    ),
    "surfacing with six divers": (
        sea(sub_y=1, diver_count=6, oxygen=119),
        UP,
        lambda game, frame: game.diver_count == -1 and frame.reward == 5,
    ),
    "surfacing with less than none": (
        sea(sub_y=1, diver_count=-1, oxygen=119),
        UP,
        lambda game, frame: game.diver_count == -2 and not frame.terminal,
    ),
    "surfacing with the last breath is too late": (
        sea(sub_y=1, diver_count=6, oxygen=0),
        UP,
        lambda game, frame: bool(frame.terminal) and game.oxygen == 200 and frame.reward == 0,
    ),
    "out of oxygen": (
        sea(oxygen=0),
        NOOP,
        lambda game, frame: bool(frame.terminal) and game.oxygen == -1,
    ),
    "one breath left": (
        sea(oxygen=1),
        NOOP,
        lambda game, frame: not frame.terminal and game.oxygen == 0,
    ),
    "a bullet just ahead": (
        sea(e_bullets=[[5, 5, False]]),
        NOOP,
        lambda game, frame: bool(frame.terminal),
    ),
    "running into a bullet that is about to move on": (
        sea(e_bullets=[[5, 5, True]]),
        RIGHT,
        lambda game, frame: bool(frame.terminal),
    ),
    "a bullet that flies off": (
        sea(e_bullets=[[5, 5, True], [3, 5, False], [4, 4, True]]),
        NOOP,
        lambda game, frame: not frame.terminal,
    ),
    "a fish arrives": (
        sea(e_fish=[[3, 5, True, 0]]),
        NOOP,
        lambda game, frame: bool(frame.terminal),
    ),
    "running into a submarine that is about to move on": (
        sea(e_subs=[[3, 5, False, 0, 4]]),
        LEFT,
        lambda game, frame: bool(frame.terminal) and game.e_subs[0][0] == 2,
    ),
    "a submarine shoots from beside the player": (
        sea(e_subs=[[5, 5, False, 2, 0]]),
        NOOP,
        lambda game, frame: bool(frame.terminal) and game.e_bullets == [[4, 5, False]],
    ),
    "a shot in the last column": (
        sea(sub_x=9, sub_or=True),
        FIRE,
        lambda game, frame: game.f_bullets == [] and game.shot_timer == 4,
    ),
    "no second shot before the gun has cooled": (
        sea(shot_timer=1),
        FIRE,
        lambda game, frame: game.f_bullets == [] and game.shot_timer == 0,
    ),
    "the sea bed and the sides hold": (
        sea(sub_x=0, sub_y=8),
        DOWN,
        lambda game, frame: game.sub_y == 8,
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name):
    game, action, expected = SITUATIONS[name]
    game = fork(game)
    frame = play_frame(game, action, ScriptedRandom())
    assert expected(game, frame), "the original did not get into the situation"
    check([frame])


@pytest.mark.parametrize("same_course", [False, True])
@pytest.mark.parametrize("kind", ["e_fish", "e_subs"])
def test_no_enemy_appears_against_the_course_of_its_row(kind, same_course):
    """The script below lets a submarine go right in row 3."""
    enemy = [5, 3, same_course, 1] + [7] * (kind == "e_subs")
    game = sea(e_spawn_timer=0, **{kind: [enemy]})
    frame = play_frame(game, NOOP, ScriptedRandom((0, 0, 2)))
    assert len(game.e_fish + game.e_subs) == (2 if same_course else 1)
    check([frame])


def test_an_emptied_row_takes_the_other_course():
    game = sea(e_spawn_timer=0, e_fish=[[5, 4, True, 1]])
    game.e_fish.clear()
    frame = play_frame(game, NOOP, ScriptedRandom((1, 1, 3)))
    assert game.e_fish == [[9, 4, False, 1]]
    # The row's old course is still in our state, and must not matter.
    check([frame._replace(before=frame.before._replace(headings=np.int32(1 << 4)))])


def test_number_of_divers_has_a_lower_end():
    """The original counts on for ever, but would need 2³⁰ surfacings to tell the difference."""
    game = sea(sub_y=1, diver_count=FEWEST_DIVERS)
    frame = play_frame(game, UP, ScriptedRandom())
    assert game.diver_count == FEWEST_DIVERS - 1
    check([frame._replace(after=frame.after._replace(divers=np.int32(FEWEST_DIVERS)))])
