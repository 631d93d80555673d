"""Seaquest is the original's, frame by frame, also where the sea is as full as it can be."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import minatar
import numpy as np
import pytest
from scipy.stats import chi2_contingency

from eligrad.envs.minatar.base import NOOP, MinAtarState
from eligrad.envs.minatar.canvas import SIZE
from eligrad.envs.minatar.seaquest import Seaquest
from tests.minatar.lockstep import Policy, lockstep, lookahead_policy, random_policy
from tests.minatar.seaquest_play import (
    SITES,
    Frame,
    check,
    immortal_play,
    move_interval,
    survivor,
)

POLICIES: dict[str, Policy] = {
    "random": random_policy,
    "lookahead": lookahead_policy(depth=5, rollouts=2),
    "survivor": survivor(),
}


@pytest.mark.parametrize(
    ("policy", "sticky", "ramping", "transitions"),
    [
        ("random", 0.0, True, 800),
        ("random", 0.1, False, 800),
        ("lookahead", 0.1, True, 300),
    ],
)
def test_lockstep(policy, sticky, ramping, transitions):
    options = {"policy": POLICIES[policy], "sticky": sticky, "ramping": ramping, "limit": 32}
    lockstep(Seaquest(), "seaquest", SITES, transitions=transitions, **options)


def test_lockstep_survives_to_the_hardest_level():
    ramps, enemies = [], []

    def watch(env: Any, state: MinAtarState) -> None:
        ramps.append(env.env.ramp_index)
        enemies.append(len(env.env.e_fish) + len(env.env.e_subs))
        assert int(state.game.ramp) == ramps[-1]

    lockstep(
        Seaquest(),
        "seaquest",
        SITES,
        transitions=1500,
        policy=POLICIES["survivor"],
        limit=4,
        on_step=watch,
    )
    assert ramps.count(19) >= 30
    assert max(enemies) >= 12


@pytest.mark.nightly
@pytest.mark.parametrize("ramping", [False, True])
@pytest.mark.parametrize("sticky", [0.0, 0.1])
@pytest.mark.parametrize(
    ("policy", "transitions"), [("random", 20_000), ("lookahead", 4_000), ("survivor", 20_000)]
)
def test_lockstep_long(policy, transitions, sticky, ramping):
    options = {"policy": POLICIES[policy], "sticky": sticky, "ramping": ramping, "seed": 1}
    options |= {"limit": 16} if policy == "survivor" else {}
    lockstep(Seaquest(), "seaquest", SITES, transitions=transitions, **options)


def visits(game: Any, frame: Frame) -> dict[str, bool]:
    """Which of the situations worth testing a frame of the original was in."""
    before, after = frame.before, frame.after
    surfacing = before.y == 1 and after.y == 0 and not before.surfaced
    cells = Counter((x, y) for x, y, *_ in game.e_fish + game.e_subs)
    kinds = [{(x, y) for x, y, *_ in enemies} for enemies in (game.e_fish, game.e_subs)]
    return {
        "surfaces with 0 divers": bool(surfacing and before.divers == 0 and frame.terminal),
        "surfaces with some divers": surfacing and 0 < before.divers < 6,
        "surfaces with 6 divers": surfacing and before.divers == 6 and after.divers == -1,
        "surfaces with -1 divers": surfacing and before.divers == -1 and after.divers == -2,
        "out of oxygen": before.oxygen == 0 and bool(frame.terminal),
        "three enemies in a cell": max(cells.values(), default=0) >= 3,
        "fish and submarine in a cell": bool(kinds[0] & kinds[1]),
        "20 enemies": len(game.e_fish) + len(game.e_subs) >= 20,
        "two friendly bullets": len(game.f_bullets) == 2,
        "two divers in a row": len(game.divers) == 2 and game.divers[0][1] == game.divers[1][1],
        "hit": frame.reward == 1,
        "diver comes on board": after.divers == before.divers + 1,
        "hardest level": after.ramp == 19,
    }


def long_play(frames: int, seed: int) -> Counter:
    """Replays a long play; `state_of` fails where the original breaks what our words rely on."""
    seen: Counter = Counter()
    batch = []
    for game, frame in immortal_play(frames, seed):
        seen.update(name for name, visited in visits(game, frame).items() if visited)
        batch.append(frame)
        if len(batch) == 5000:
            check(batch)
            batch.clear()
    assert not batch, "the number of frames must be a multiple of the batch"
    return seen


def test_long_play_in_a_full_sea():
    seen = long_play(10_000, seed=0)
    assert len(seen) == 13, seen


@pytest.mark.nightly
def test_very_long_play_in_a_full_sea():
    long_play(400_000, seed=1)


def test_no_two_enemies_of_a_row_ever_agree_in_cell_and_timer():
    """All ways in which the interval can shorten during the lives of two successive enemies."""
    leads = []
    for ramp in range(6):
        spawn_interval, drops = 20 - ramp, 3 - ramp // 2
        # A drop takes two surfacings, and these are two frames apart; frame 99 is never.
        frames = [*range(60), 99]
        times = np.array(
            [
                t
                for t in itertools.combinations_with_replacement(frames, drops)
                if all(b - a >= 4 or b == 99 for a, b in itertools.pairwise(t))
            ]
        )
        for gap in range(spawn_interval, spawn_interval + 8):
            interval = np.full(len(times), move_interval(ramp))
            older, younger = (np.zeros(len(times), int), interval.copy()), None
            for frame in range(60):
                if frame == gap:
                    younger = (np.zeros(len(times), int), interval.copy())
                older = swim(*older, interval)
                if younger is not None:
                    younger = swim(*younger, interval)
                    cells, timers = (a - b for a, b in zip(older, younger, strict=True))
                    lead = cells * (interval + 1) - timers
                    leads.append(lead[older[0] < 10].min(initial=99))
                    ahead = (cells > 0) | ((cells == 0) & (timers < 0))
                    assert ahead[older[0] < 10].all()
                interval = interval - np.sum(times == frame, axis=1)
    assert min(leads) >= 7


def swim(x: np.ndarray, timer: np.ndarray, interval: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    moves = timer == 0
    return x + moves, np.where(moves, interval, timer - 1)


def test_appearances_are_distributed_as_in_the_original():
    draws = 100_000
    game = minatar.Environment("seaquest").env
    game.random = np.random.RandomState(0)
    theirs = np.zeros((2, 2, 10), int), np.zeros((2, 10), int)
    for _ in range(draws):
        game._spawn_enemy()
        game._spawn_diver()
        for kind, enemies in enumerate((game.e_fish, game.e_subs)):
            for x, y, *_ in enemies:
                theirs[0][kind, x // 9, y] += 1
        (x, y, *_) = game.divers[0]
        theirs[1][x // 9, y] += 1
        game.e_fish, game.e_subs, game.divers = [], [], []

    env = Seaquest()
    params = jax.tree.map(jnp.asarray, env.default_params())
    quiet, _ = jax.jit(env.reset)(jax.random.key(0), params)
    timers = {"enemy_timer": jnp.int32(0), "diver_timer": jnp.int32(0)}
    due = quiet._replace(game=quiet.game._replace(**timers))

    @jax.jit
    @jax.vmap
    def edges(key: jax.Array) -> jax.Array:
        step = env.step(key, due, jnp.int32(NOOP), params)
        return step.observation[:, :: SIZE - 1]

    seen = np.sum(edges(jax.random.split(jax.random.key(1), draws)), axis=0)
    names = ("enemy_fish", "enemy_sub", "diver")
    fish, subs, divers = (seen[:, :, env.channels.index(name)].T for name in names)
    for original, ours in zip(theirs, (np.stack([fish, subs]), divers), strict=True):
        assert original.sum() == ours.sum() == draws
        possible = original.ravel() > 0
        assert (ours.ravel() > 0).tolist() == possible.tolist()
        table = np.stack([original.ravel()[possible], ours.ravel()[possible]])
        assert chi2_contingency(table).pvalue > 0.01
