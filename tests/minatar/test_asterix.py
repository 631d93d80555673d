"""Asterix, side by side with the original."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minatar.environments import asterix as rules
from scipy import stats

from eligrad.envs.minatar.asterix import Asterix, AsterixState
from eligrad.envs.minatar.base import MinAtarState, Params

from .lockstep import Policy, Site, lockstep, lookahead_policy, random_policy, set_random

SITES = {
    ("_spawn_entity", 0): Site(1, 1 / 2),
    ("_spawn_entity", 1): Site(2, 1 / 3),
    ("_spawn_entity", 2): Site(3),
}
SETTINGS = [(0.0, False), (0.0, True), (0.1, False), (0.1, True)]


def packed(game: Any) -> AsterixState:
    """The original's state in our words."""
    words = dict.fromkeys(("occupied", "rightward", "gold", "travelled"), 0)
    for i, entity in enumerate(game.entities):
        if entity is not None:
            x, _, rightward, gold = entity
            digits = (1, int(rightward), int(gold), x if rightward else 9 - x)
            for word, digit in zip(words, digits, strict=True):
                words[word] |= digit << 4 * i
    integers = ("player_x", "player_y", "spawn_timer", "move_timer", "ramp_timer", "ramp_index")
    return AsterixState(
        **{word: jnp.uint32(value) for word, value in words.items()},
        **{field: jnp.int32(getattr(game, field)) for field in integers},
    )


def assert_same_state(env: Any, state: MinAtarState) -> None:
    """Equal also in what the board does not show; digits of empty rows mean nothing."""
    ours, theirs = state.game, packed(env.env)
    live = ours.occupied * 15
    ours = ours._replace(
        rightward=ours.rightward & live, gold=ours.gold & live, travelled=ours.travelled & live
    )
    assert jax.tree.map(int, ours) == jax.tree.map(int, theirs)


def set_level(game: Any, level: int) -> None:
    """Moves the original to a level of the ramp."""
    game.ramp_index = level
    game.spawn_speed, game.move_speed = 10 - level, 5 - level // 2
    game.spawn_timer = min(game.spawn_timer, game.spawn_speed)
    game.move_timer = min(game.move_timer, game.move_speed)


def edited(env: Any, state: MinAtarState) -> MinAtarState:
    return MinAtarState(packed(env.env), state.last_action)


def watched(policy: Policy, events: Counter[str]) -> Policy:
    """Counts what the policy's action leads to under one draw of the original's dice."""

    def policy_and_count(env: Any, rng: np.random.Generator) -> int:
        choice = policy(env, rng)
        trial = copy.deepcopy(env)
        set_random(trial, np.random.RandomState(int(rng.integers(2**31))))
        trial.sticky_action_prob = 0.0
        reward, terminal = trial.act(trial.minimal_action_set()[choice])
        before, after = env.env, trial.env
        full = all(entity is not None for entity in before.entities)
        stood = (before.player_x, before.player_y) == (after.player_x, after.player_y)
        events[f"full rows {full}, spawn due {before.spawn_timer == 0}"] += 1
        if reward or terminal:
            events[f"reward {reward}, caught {terminal}, player stood {stood}"] += 1
        events[f"ramp {after.ramp_index}"] += 1
        for i, entity in enumerate(before.entities):
            if entity is not None and after.entities[i] is None and not reward:
                events[f"left at {entity[0]}"] += 1
        return choice

    return policy_and_count


@pytest.mark.parametrize(("sticky", "ramping"), SETTINGS)
def test_random_play(sticky, ramping):
    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=1000,
        sticky=sticky,
        ramping=ramping,
        on_step=assert_same_state,
    )


@pytest.mark.parametrize(("sticky", "ramping"), [(0.0, False), (0.1, True)])
def test_lookahead_play(sticky, ramping):
    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=700,
        policy=lookahead_policy(4, 1),
        sticky=sticky,
        ramping=ramping,
        on_step=assert_same_state,
    )


def deep_play(transitions: int, policy: Policy, sticky: float) -> Counter[str]:
    """Every episode begins somewhere on the ramp, with the next level near."""
    rng, events = np.random.default_rng(5), Counter[str]()

    def begin_deep(env: Any, state: MinAtarState) -> MinAtarState:
        just_reset = env.env.spawn_timer == 10
        if not just_reset:
            return state
        set_level(env.env, int(rng.integers(10)))
        env.env.ramp_timer = int(rng.integers(-1, 6))
        return edited(env, state)

    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=transitions,
        policy=watched(policy, events),
        sticky=sticky,
        on_step=assert_same_state,
        edit=begin_deep,
    )
    return events


def test_deep_in_the_ramp():
    events = deep_play(6000, random_policy, sticky=0.1)
    assert {f"ramp {level}" for level in range(10)} <= events.keys()
    assert "full rows True, spawn due True" in events


def test_contacts_and_exits():
    """Every way to meet an entity: in the player's row before or after it moves, or one below."""
    setups = [
        (x, y, x + offset, rightward, gold, move_timer, choice)
        for x, y in [(0, 1), (4, 3), (9, 8)]
        for offset in (-1, 0, 1)
        if 0 <= x + offset <= 9
        for rightward in (False, True)
        for gold in (False, True)
        for move_timer in (0, 2)
        for choice in range(5)
    ]
    events, pending, plan = Counter[str](), list(reversed(setups)), [0]

    def set_up(env: Any, state: MinAtarState) -> MinAtarState:
        if not pending:
            return state
        x, y, column, rightward, gold, move_timer, plan[0] = pending.pop()
        game = env.env
        game.reset()
        game.player_x, game.player_y, game.move_timer = x, y, move_timer
        game.entities[y - 1] = [column, y, rightward, gold]
        game.entities[y % 8] = [x, y % 8 + 1, not rightward, not gold]
        return edited(env, state)

    compared = lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=2 * (1 + len(setups)),
        policy=watched(lambda env, rng: plan[0], events),
        sticky=0.0,
        on_step=assert_same_state,
        edit=set_up,
    )
    assert compared == 2 * (1 + len(setups))
    assert not pending
    for reward, caught in ((1, False), (0, True)):
        for stood in (False, True):
            assert events[f"reward {reward}, caught {caught}, player stood {stood}"] > 0
    assert events["left at 0"] > 0
    assert events["left at 9"] > 0


def test_spawns_onto_the_player():
    """At the edge, an entity can appear in the player's own cell: it counts in that frame."""
    events = Counter[str]()

    def corner_player(env: Any, state: MinAtarState) -> MinAtarState:
        game = env.env
        game.reset()
        game.player_x, game.spawn_timer = 9 * (game.player_x != 9), 0
        game.entities = [None if i == 4 else [3, i + 1, True, False] for i in range(8)]
        return edited(env, state)

    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=300,
        policy=watched(lambda env, rng: 0, events),
        sticky=0.0,
        on_step=assert_same_state,
        edit=corner_player,
    )
    assert events["reward 1, caught False, player stood True"] > 0
    assert events["reward 0, caught True, player stood True"] > 0


@pytest.mark.parametrize("taken", [(), (1, 4, 5)])
def test_spawn_distribution(taken):
    """Side, kind and row together, through real keys, against the original's own generator."""
    count = 100_000
    original: Any = rules.Env()
    original.random = np.random.RandomState(1)
    theirs = Counter[tuple[int, bool, bool]]()
    for _ in range(count):
        original.entities = [[3, i + 1, True, True] if i in taken else None for i in range(8)]
        original._spawn_entity()
        (spawned,) = (e for i, e in enumerate(original.entities) if e and i not in taken)
        theirs[spawned[1] - 1, bool(spawned[2]), bool(spawned[3])] += 1

    original.entities = [[3, i + 1, True, True] if i in taken else None for i in range(8)]
    original.spawn_timer = 0
    state = MinAtarState(packed(original), jnp.int32(0))
    step = jax.vmap(lambda key: Asterix().step(key, state, jnp.int32(0), Params()).state.game)
    after = jax.jit(step)(jax.random.split(jax.random.key(7), count))
    shifts = 4 * np.array([i for i in range(8) if i not in taken], np.uint32)
    digits = {
        word: (np.asarray(getattr(after, word))[:, None] >> shifts) & 1
        for word in ("occupied", "rightward", "gold")
    }
    assert (digits["occupied"].sum(axis=1) == 1).all()
    row = np.argmax(digits["occupied"], axis=1)
    chosen = np.arange(count)
    ours = Counter(
        zip(
            (shifts[row] // 4).tolist(),
            (digits["rightward"][chosen, row] == 1).tolist(),
            (digits["gold"][chosen, row] == 1).tolist(),
            strict=True,
        )
    )
    assert ours.keys() == theirs.keys()
    assert len(ours) == 4 * (8 - len(taken))
    table = [[ours[kind] for kind in theirs], list(theirs.values())]
    result: Any = stats.chi2_contingency(table)
    assert result.pvalue > 0.01


@pytest.mark.nightly
@pytest.mark.parametrize(("sticky", "ramping"), SETTINGS)
def test_long_random_play(sticky, ramping):
    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=20_000,
        sticky=sticky,
        ramping=ramping,
        seed=1,
        on_step=assert_same_state,
    )


@pytest.mark.nightly
def test_long_lookahead_play():
    """Survives through ramps of its own accord."""
    events = Counter[str]()
    lockstep(
        Asterix(),
        "asterix",
        SITES,
        transitions=20_000,
        policy=watched(lookahead_policy(), events),
        on_step=assert_same_state,
    )
    assert "ramp 3" in events


@pytest.mark.nightly
@pytest.mark.parametrize("sticky", [0.0, 0.1])
def test_long_deep_play(sticky):
    events = deep_play(20_000, lookahead_policy(4, 2), sticky)
    assert "full rows True, spawn due True" in events
