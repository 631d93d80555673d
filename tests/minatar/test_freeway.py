"""Freeway is the original's, frame by frame, in any traffic, to its very last step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import minatar
import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from eligrad.envs.core import step_autoreset
from eligrad.envs.minatar.base import MinAtarState, Params
from eligrad.envs.minatar.freeway import LANES, SLOWEST, Freeway, FreewayState
from tests.minatar.lockstep import (
    Policy,
    ScriptedRandom,
    Site,
    lockstep,
    lookahead_policy,
    random_policy,
    restart,
    set_random,
    uniform_of,
)

SITES = {
    **{("_randomize_cars", i): Site(1 + i) for i in range(LANES)},
    **{("_randomize_cars", LANES + i): Site(1 + LANES + i, 0.5) for i in range(LANES)},
}


def hurries(env: Any, rng: np.random.Generator) -> int:
    """Mostly up: crosses often, and is hit often."""
    return int(rng.choice(3, p=[0.05, 0.9, 0.05]))


def play(limit: int = 16, **options: Any) -> int:
    return lockstep(Freeway(), "freeway", SITES, limit=limit, **options)


POLICIES: dict[str, Policy] = {
    "random": random_policy,
    "lookahead": lookahead_policy(depth=7, rollouts=2),
    "hurries": hurries,
}


@pytest.mark.parametrize("sticky", [0.0, 0.1])
@pytest.mark.parametrize(
    ("policy", "ramping", "transitions"),
    [
        ("random", True, 500),
        ("random", False, 500),
        ("lookahead", True, 100),
        ("hurries", True, 1200),
    ],
)
def test_lockstep(policy, ramping, transitions, sticky):
    play(policy=POLICIES[policy], ramping=ramping, transitions=transitions, sticky=sticky)


@pytest.mark.nightly
@pytest.mark.parametrize("sticky", [0.0, 0.1])
@pytest.mark.parametrize(
    ("policy", "transitions"), [("random", 20_000), ("lookahead", 4_000), ("hurries", 20_000)]
)
def test_lockstep_long(policy, transitions, sticky):
    compared = play(policy=POLICIES[policy], transitions=transitions, sticky=sticky, seed=1)
    assert compared >= transitions


def test_an_episode_has_2501_steps():
    clock: list[int] = []

    def watch(env: Any, state: MinAtarState) -> None:
        assert int(state.game.frames_left) == env.env.terminate_timer
        clock.append(env.env.terminate_timer)

    play(policy=hurries, transitions=2 * 2503, limit=2, on_step=watch)
    # The clock stands at its start again once the 2501st step has ended the episode.
    assert clock.index(2500) == 2501 - 1
    assert clock[2501 - 2] == 0


def state_of(game: Any) -> FreewayState:
    """Our state for a state of the original."""
    column, _, wait, speed = np.array(game.cars, np.int32).T
    return FreewayState(
        chicken=np.int32(game.pos),
        rest=np.int32(game.move_timer),
        frames_left=np.int32(game.terminate_timer),
        car_column=column,
        car_wait=wait,
        car_slowness=np.abs(speed),
        goes_right=speed > 0,
    )


def test_beginnings():
    rng, begin, speeds = np.random.default_rng(0), jax.jit(Freeway().begin), set[int]()
    env = minatar.Environment("freeway")
    for _ in range(20):
        uniforms = np.zeros(Freeway.num_first_draws, np.float32)
        restart(env, uniforms, SITES, rng)
        jax.tree.map(np.testing.assert_array_equal, begin(uniforms), state_of(env.env))
        speeds |= {car[3] for car in env.env.cars}
    assert speeds == {-5, -4, -3, -2, -1, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("situations", [2_000, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_random_situations(situations):
    """Cars, chickens and clocks at random, where play would rarely put them together."""
    rng = np.random.default_rng(0)
    env = minatar.Environment("freeway", sticky_action_prob=0.0)
    game, visited = env.env, Counter()
    states, uniforms, actions, expected = [], [], [], []
    for _ in range(situations):
        game.terminal = False
        game.pos, game.move_timer = int(rng.integers(1, 10)), int(rng.choice([0, 0, 1, 2, 3]))
        game.terminate_timer = int(rng.choice([0, 1, 7, 2500]))
        for i, car in enumerate(game.cars):
            slowness = int(rng.integers(1, 6))
            column = int(rng.choice([0, 3, 4, 5, 9, rng.integers(10)]))
            wait = int(rng.choice([0, rng.integers(slowness + 1)]))
            car[:] = [column, i + 1, wait, slowness * int(rng.choice([-1, 1]))]
        before = state_of(game)
        sticky, speeds, sides = [0], rng.integers(0, 5, LANES), rng.integers(0, 2, LANES)
        random = ScriptedRandom(tuple(int(i) for i in (*sticky, *speeds, *sides)))
        set_random(env, random)
        choice = int(rng.integers(3))
        reward, terminal = env.act(env.minimal_action_set()[choice])
        drawn = np.full(1 + 2 * LANES, 0.5, np.float32)
        for draw in random.log[1:]:
            drawn[SITES[draw.site].index] = uniform_of(draw)
        after = state_of(game)
        states.append(before)
        uniforms.append(drawn)
        actions.append(choice)
        expected.append((env.state(), reward, terminal, after))

        wraps = np.abs(before.car_column - after.car_column) == 9
        visited["right edge"] += np.any(wraps & (after.car_column == 0))
        visited["left edge"] += np.any(wraps & (after.car_column == 9))
        visited["arrival"] += reward
        visited["end"] += terminal
        visited["arrival at the end"] += terminal and reward
        visited["hit"] += reward == 0 and before.chicken < 8 and after.chicken == 9
        visited["walks into a car"] += (
            reward == 0 and choice > 0 and before.rest == 0 and before.chicken < 8
        ) and after.chicken == 9

    step = jax.jit(
        jax.vmap(
            lambda u, s, a: Freeway().step_with_draws(
                u, MinAtarState(s, jnp.int32(0)), a, Params(jnp.float32(0), True)
            )
        )
    )
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    ours = step(np.stack(uniforms), batch, np.array(actions, np.int32))
    ours = jax.tree.map(np.asarray, ours)
    np.testing.assert_array_equal(ours.observation, np.stack([e[0] for e in expected]))
    np.testing.assert_array_equal(ours.reward, np.array([e[1] for e in expected], np.float32))
    np.testing.assert_array_equal(ours.terminated, np.array([e[2] for e in expected]))
    theirs = jax.tree.map(lambda *leaves: np.stack(leaves), *[e[3] for e in expected])
    jax.tree.map(np.testing.assert_array_equal, ours.state.game, theirs)
    assert len(visited) == 7, visited
    assert min(visited.values()) >= 10, visited


def counts(slowness: np.ndarray, goes_right: np.ndarray) -> np.ndarray:
    """How often each lane had each of the ten speeds, flattened."""
    kind = 2 * (np.asarray(slowness) - 1) + np.asarray(goes_right)
    lane = np.arange(LANES) * 2 * SLOWEST
    return np.bincount((kind + lane).ravel(), minlength=LANES * 2 * SLOWEST)


@pytest.mark.parametrize("initialize", [True, False], ids=["beginning", "arrival"])
def test_traffic_has_the_originals_odds(initialize):
    shuffles = 100_000 // LANES
    env = minatar.Environment("freeway")
    env.seed(0)
    speeds = np.zeros((shuffles, LANES), np.int32)
    for i in range(shuffles):
        env.env._randomize_cars(initialize=initialize)
        speeds[i] = [car[3] for car in env.env.cars]

    game, params = Freeway(), Params(jnp.float32(0), True)

    def shuffled(key):
        state, _ = game.reset(key, params)
        if initialize:
            return state.game
        arriving = state.game._replace(chicken=jnp.int32(1), rest=jnp.int32(0))
        stepped = game.step(
            jax.random.fold_in(key, 1), state._replace(game=arriving), jnp.int32(1), params
        )
        return stepped.state.game

    ours = jax.jit(jax.vmap(shuffled))(jax.random.split(jax.random.key(1), shuffles))
    table = np.stack(
        [counts(np.abs(speeds), speeds > 0), counts(ours.car_slowness, ours.goes_right)]
    )
    assert table.sum() == 2 * LANES * shuffles
    # Pooled, the few numbers of a margin show a small bias that eighty cells would hide.
    by_lane = table.reshape(2, LANES, SLOWEST, 2)
    for pooled in (table, by_lane.sum(axis=(1, 2)), by_lane.sum(axis=(1, 3))):
        assert chi2_contingency(pooled).pvalue > 1e-3, pooled


def test_next_episodes_traffic_is_independent_of_the_last_steps():
    """Arriving in the last frame shuffles twice, out of one call of the generator."""
    game, count = Freeway(), 10_000
    params = Params(jnp.float32(0), jnp.bool_(True))
    state, _ = game.reset(jax.random.key(0), params)
    arriving = {"chicken": jnp.int32(1), "rest": jnp.int32(0), "frames_left": jnp.int32(0)}
    state = state._replace(game=state.game._replace(**arriving))
    step = jax.jit(jax.vmap(lambda key: step_autoreset(game, key, state, jnp.int32(1), params)))
    after = step(jax.random.split(jax.random.key(2), count))
    assert np.all(after.terminated)
    assert np.all(after.reward == 1)
    # All cars stood at the left edge, so that the mark is behind them at either side.
    last_marks = np.asarray(after.next_observation)[:, 1:9, :, 2:].any(axis=2)
    last, then = np.argmax(last_marks, axis=2) + 1, np.asarray(after.state.game.car_slowness)
    assert np.all(last_marks.sum(axis=2) == 1)
    table = np.histogram2d(last.ravel(), then.ravel(), bins=SLOWEST)[0]
    assert chi2_contingency(table).pvalue > 1e-3, table
    assert chisquare(table.sum(axis=0)).pvalue > 1e-3, table


def test_largest_uniform_number_is_the_slowest_car():
    draws = jnp.full(2 * LANES, np.nextafter(np.float32(1), np.float32(0)))
    assert np.all(np.asarray(Freeway().begin(draws).car_slowness) == SLOWEST)
