"""Breakout is the original's, frame by frame, and in every situation its ball can be in."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import minatar
import numpy as np
import pytest
from scipy.stats import binomtest, chi2_contingency

from eligrad.envs.core import step_autoreset
from eligrad.envs.minatar.base import LEFT, MinAtarState, Params
from eligrad.envs.minatar.breakout import FULL_WALL, Breakout, BreakoutState
from tests.minatar.lockstep import Policy, Site, lockstep, lookahead_policy, random_policy

SITES = {("reset", 0): Site(1)}
FLIPS = {0: (False, False), 1: (False, True), 2: (True, True), 3: (True, False)}
"""The original's four headings as (goes down, goes right)."""


def keeps_ball(env: Any, rng: np.random.Generator) -> int:
    """Follows the ball, and at the floor bounces it to a random side."""
    game = env.env
    ahead = game.ball_x + (1 if game.ball_dir in (1, 2) else -1)
    target = ahead if game.ball_y == 8 and rng.random() < 0.5 else game.ball_x
    return 0 if target == game.pos else 1 if target < game.pos else 2


def play(**options: Any) -> int:
    return lockstep(Breakout(), "breakout", SITES, limit=2, **options)


POLICIES: dict[str, Policy] = {
    "random": random_policy,
    "lookahead": lookahead_policy(depth=7, rollouts=2),
    "keeps_ball": keeps_ball,
}


@pytest.mark.parametrize("sticky", [0.0, 0.1])
@pytest.mark.parametrize(
    ("policy", "ramping", "transitions"),
    [
        ("random", True, 600),
        ("random", False, 600),
        ("lookahead", True, 100),
        ("keeps_ball", True, 600),
    ],
)
def test_lockstep(policy, ramping, transitions, sticky):
    play(policy=POLICIES[policy], ramping=ramping, transitions=transitions, sticky=sticky)


@pytest.mark.nightly
@pytest.mark.parametrize("sticky", [0.0, 0.1])
@pytest.mark.parametrize(
    ("policy", "transitions"), [("random", 20_000), ("lookahead", 4_000), ("keeps_ball", 20_000)]
)
def test_lockstep_long(policy, transitions, sticky):
    compared = play(policy=POLICIES[policy], transitions=transitions, sticky=sticky, seed=1)
    assert compared >= transitions


def test_cleared_wall_is_rebuilt_in_play():
    visited = Counter()
    bricks = [30]

    def watch(env: Any, state: MinAtarState) -> None:
        before, now = bricks[-1], int(env.env.brick_map.sum())
        visited["cleared"] += now == 0 and before > 0
        visited["rebuilt"] += now == 30 and before == 0
        visited["restarted"] += now == 30 and before > 0 and before != 30
        bricks.append(now)

    play(policy=keeps_ball, transitions=6000, sticky=0.0, on_step=watch)
    assert visited["cleared"] >= 1, visited
    assert visited["rebuilt"] >= 1, visited
    assert visited["restarted"] == 0, visited


def state_of(game: Any) -> BreakoutState:
    """Our state for a state of the original."""
    goes_down, goes_right = FLIPS[game.ball_dir]
    bits = 2 ** np.arange(30, dtype=np.int64)
    return BreakoutState(
        ball_row=np.int32(game.ball_y),
        ball_column=np.int32(game.ball_x),
        last_row=np.int32(game.last_y),
        last_column=np.int32(game.last_x),
        goes_down=np.bool_(goes_down),
        goes_right=np.bool_(goes_right),
        paddle=np.int32(game.pos),
        inside=np.bool_(game.strike),
        wall=np.int32(np.sum(game.brick_map[1:4].ravel() * bits)),
    )


def test_every_ball_paddle_and_action():
    """All balls, headings, paddles and actions, under empty, sparse, half, dense and full walls."""
    rng = np.random.default_rng(0)
    env = minatar.Environment("breakout", sticky_action_prob=0.0)
    game, visited = env.env, Counter()
    states, actions, expected = [], [], []
    for row, column, heading, paddle, strike, choice in itertools.product(
        range(9), range(10), range(4), range(10), (False, True), range(3)
    ):
        game.reset()
        game.ball_y, game.ball_x, game.ball_dir, game.pos = row, column, heading, paddle
        game.last_y, game.last_x, game.strike = int(rng.integers(10)), int(rng.integers(10)), strike
        density = rng.choice([0.0, 0.0, 0.05, 0.5, 0.95, 1.0])
        game.brick_map[1:4] = rng.random((3, 10)) < density
        empty = game.brick_map.sum() == 0
        states.append(state_of(game))
        reward, terminal = env.act(env.minimal_action_set()[choice])
        expected.append((env.state(), reward, terminal, state_of(game)))
        actions.append(choice)

        up = heading in (0, 1)
        visited["ceiling"] += up and row == 0
        visited["ceiling corner"] += up and row == 0 and column in (0, 9)
        visited["brick"] += reward == 1
        visited["passes through"] += strike and game.strike
        visited["miss"] += terminal
        visited["rebuilt at a miss"] += terminal and empty
        visited["rebuilt at a bounce"] += bool(empty and game.brick_map.any() and not terminal)
        visited["sent back"] += row == 8 and not up and game.ball_x == game.pos != column
        visited["brick beside a side wall"] += reward == 1 and game.ball_x == column

    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    step = jax.jit(
        jax.vmap(
            lambda s, a: Breakout().step_with_draws(
                jnp.full(1, 0.5), MinAtarState(s, jnp.int32(0)), a, Params(jnp.float32(0), True)
            )
        )
    )
    ours = jax.tree.map(np.asarray, step(batch, np.array(actions, np.int32)))
    np.testing.assert_array_equal(ours.observation, np.stack([e[0] for e in expected]))
    np.testing.assert_array_equal(ours.reward, np.array([e[1] for e in expected], np.float32))
    np.testing.assert_array_equal(ours.terminated, np.array([e[2] for e in expected]))
    theirs = jax.tree.map(lambda *leaves: np.stack(leaves), *[e[3] for e in expected])
    jax.tree.map(np.testing.assert_array_equal, ours.state.game, theirs)
    assert len(states) == 21_600
    assert len(visited) == 9, visited
    assert min(visited.values()) >= 10, visited


def test_start_sides_have_the_originals_odds():
    draws = 100_000
    env = minatar.Environment("breakout")
    env.seed(0)
    left = 0
    for _ in range(draws):
        env.env.reset()
        left += env.env.ball_x == 0
    game = Breakout()
    reset = jax.vmap(lambda key: game.reset(key, game.default_params())[0].game)
    ours = jax.jit(reset)(jax.random.split(jax.random.key(0), draws))
    sides = np.asarray(ours.ball_column)
    assert set(np.unique(sides)) == {0, 9}
    np.testing.assert_array_equal(np.asarray(ours.goes_right), sides == 0)
    ours_left = int(np.sum(sides == 0))
    table = [[left, draws - left], [ours_left, draws - ours_left]]
    assert chi2_contingency(table).pvalue > 1e-3, table


def test_next_episodes_side_is_independent_of_the_last_step():
    """Both use one call of the generator: the sticky draw must not tell where the ball starts."""
    game, count = Breakout(), 20_000
    params = Params(jnp.float32(0.5), jnp.bool_(True))
    lost = game.begin(jnp.zeros(1))._replace(ball_row=jnp.int32(8))
    state = MinAtarState(lost, jnp.int32(LEFT))
    step = jax.jit(jax.vmap(lambda key: step_autoreset(game, key, state, jnp.int32(0), params)))
    after = step(jax.random.split(jax.random.key(2), count))
    assert np.all(after.terminated)
    repeated = np.asarray(after.state.last_action) == LEFT
    from_left = np.asarray(after.state.game.ball_column) == 0
    table = np.histogram2d(repeated, from_left, bins=2)[0]
    assert chi2_contingency(table).pvalue > 1e-3, table
    assert binomtest(int(from_left.sum()), count).pvalue > 1e-3, table


def test_full_wall_is_thirty_bricks():
    assert bin(FULL_WALL).count("1") == 30
    first = Breakout().observe(Breakout().begin(jnp.zeros(1)))
    assert int(first[..., 3].sum()) == 30
