"""What holds for all five games: the protocol, sticky actions, ranges, and states as plain data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import minatar
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eligrad.envs.core import step_autoreset
from eligrad.envs.minatar import GAMES, Breakout, Freeway, Game, Params
from tests.minatar.lockstep import ScriptedRandom, set_random

STEPS = 256
ORIGINALS = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}

each_game = pytest.mark.parametrize("game_class", GAMES, ids=lambda game: game.__name__)


def original_of(game_class: type[Game], **options: Any) -> Any:
    return minatar.Environment(ORIGINALS[game_class.__name__], **options)


@functools.cache
def player(game_class: type[Game]) -> Callable[..., Any]:
    """Plays STEPS actions from a state; compiled once for every test of this file."""
    game = game_class()

    def play(key: Any, state: Any, actions: Any, params: Params) -> Any:
        def step(state: Any, inputs: Any) -> Any:
            transition = step_autoreset(game, inputs[0], state, inputs[1], params)
            return transition.state, transition

        return jax.lax.scan(step, state, (jax.random.split(key, STEPS), actions))

    return jax.jit(play)


@functools.cache
def resetter(game_class: type[Game]) -> Callable[..., Any]:
    return jax.jit(game_class().reset)


def play(game_class: type[Game], seed: int, sticky: float = 0.1, ramping: bool = True) -> Any:
    """The first state, the last one and all transitions of a stream of random play."""
    params = Params(jnp.float32(sticky), jnp.bool_(ramping))
    actions = np.random.default_rng(seed).integers(len(game_class.actions), size=STEPS)
    key = jax.random.key(seed)
    state, observation = resetter(game_class)(key, params)
    last, trace = player(game_class)(key, state, jnp.asarray(actions, jnp.int32), params)
    return (state, observation), last, jax.tree.map(np.asarray, trace)


def describe(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.asarray(leaf).dtype), tree)


@each_game
def test_channels_and_actions_are_the_originals(game_class):
    env = original_of(game_class)
    channels = sorted(env.env.channels, key=env.env.channels.get)
    assert list(game_class.channels) == channels
    assert list(game_class.actions) == env.minimal_action_set()
    assert game_class().observation_space.shape == tuple(env.state_shape())
    assert game_class().name == f"MinAtar/{game_class.__name__}-v1"


@each_game
def test_sticky_draw_comes_first(game_class):
    env = original_of(game_class)
    random = ScriptedRandom()
    set_random(env, random)
    env.act(0)
    assert random.log[0].site == ("act", 0)

    game, params = game_class(), Params(jnp.float32(0.3), jnp.bool_(True))
    key = jax.random.key(0)
    state, _ = resetter(game_class)(key, params)
    state = state._replace(last_action=jnp.int32(game.actions[1]))
    other = jnp.int32(2)
    step = jax.jit(game.step_with_draws)
    later_draws = np.full(game.num_draws, 0.5, np.float32)
    for sticky_draw, carried_out in [(0.29, game.actions[1]), (0.31, game.actions[2])]:
        draws = jnp.asarray(np.float32([sticky_draw, *later_draws]))
        assert int(step(draws, state, other, params).state.last_action) == carried_out

    # `step` feeds exactly one vector of uniform numbers, the sticky one in front.
    uniform = jax.random.uniform(key, (1 + game.num_draws,), jnp.float32)
    by_key = jax.jit(game.step)(key, state, other, params)
    by_draws = step(uniform, state, other, params)
    jax.tree.map(np.testing.assert_array_equal, by_key, by_draws)


@each_game
def test_one_call_of_the_generator_a_step(game_class):
    """More would cost as much as the game; what an episode needs to begin is included."""
    game, key = game_class(), jax.random.key(0)
    params = game.default_params()
    state, _ = jax.eval_shape(game.reset, key, params)
    action = jax.ShapeDtypeStruct((), jnp.int32)
    program = str(jax.make_jaxpr(game.step_autoreset)(key, state, action, params))
    assert program.count("random_bits[") == 1
    assert "random_split" not in program
    assert f"shape=({1 + game.num_draws + game.num_first_draws},)" in program


@each_game
def test_last_action_survives_a_restart(game_class):
    env = original_of(game_class)
    env.last_action = 3
    env.reset()
    assert env.last_action == 3

    params = Params(jnp.float32(0.1), jnp.bool_(True))
    key = jax.random.key(0)
    state, first = resetter(game_class)(key, params)
    assert int(state.last_action) == 0
    ended = state._replace(last_action=jnp.int32(3))
    restarted, observation = jax.jit(game_class().restart)(key, ended, params)
    assert int(restarted.last_action) == 3
    jax.tree.map(np.testing.assert_array_equal, restarted.game, state.game)
    np.testing.assert_array_equal(observation, first)


@each_game
def test_last_action_survives_in_a_stream(game_class):
    """With certain stickiness the last action is repeated for ever, through every end."""
    params = Params(jnp.float32(1), jnp.bool_(True))
    state, _ = resetter(game_class)(jax.random.key(0), params)
    state = state._replace(last_action=jnp.int32(game_class.actions[1]))
    _, trace = player(game_class)(jax.random.key(0), state, jnp.full(STEPS, 2, jnp.int32), params)
    assert np.all(np.asarray(trace.state.last_action) == game_class.actions[1])


STATE_BOUNDS = {
    Breakout: {
        "ball_row": (0, 9),
        "ball_column": (0, 9),
        "last_row": (0, 9),
        "last_column": (0, 9),
        "paddle": (0, 9),
        "wall": (0, 2**30 - 1),
    },
    Freeway: {
        "chicken": (1, 9),
        "rest": (0, 3),
        "frames_left": (0, 2500),
        "car_column": (0, 9),
        "car_wait": (0, 5),
        "car_slowness": (1, 5),
    },
}


def check_ranges(game_class: type[Game], trace: Any) -> None:
    """An entity off the board would be missing from the picture; counters keep their bounds."""
    board = trace.next_observation
    cells = {name: board[..., i].sum(axis=(1, 2)) for i, name in enumerate(game_class.channels)}
    match game_class.__name__:
        case "Asterix":
            assert np.all(cells["player"] == 1)
            assert np.all((board[..., 1] + board[..., 3].astype(int)).sum(axis=2) <= 1)
            assert not board[:, [0, 9]].any()
        case "Breakout":
            assert np.all(cells["paddle"] == 1)
            assert np.all(cells["ball"] == 1)
            assert np.all(cells["trail"] == 1)
            assert not board[:, [0, 4, 5, 6, 7, 8, 9], :, 3].any()
        case "Freeway":
            assert np.all(cells["chicken"] == 1)
            assert np.all(board[:, 1:9, :, 1].sum(axis=2) == 1)
            assert np.all(board[:, 1:9, :, 2:].sum(axis=(2, 3)) == 1)
        case "Seaquest":
            assert np.all(cells["sub_front"] == 1)
            assert np.all(cells["sub_back"] == 1)
            assert np.all(cells["diver_guage"] <= 6)
        case "SpaceInvaders":
            assert np.all(cells["cannon"] == 1)
            np.testing.assert_array_equal(board[..., 1], board[..., 2] | board[..., 3])
            assert np.all(cells["alien"] <= 24)
        case other:
            raise AssertionError(f"no ranges are known for {other}")
    for field, (low, high) in STATE_BOUNDS.get(game_class, {}).items():
        values = getattr(trace.state.game, field)
        assert values.min() >= low, field
        assert values.max() <= high, field


@each_game
@settings(max_examples=15)
@given(seed=st.integers(0, 2**31 - 1), sticky=st.floats(0, 1, width=32), ramping=st.booleans())
@example(seed=0, sticky=0.0, ramping=True)
@example(seed=0, sticky=1.0, ramping=False)
def test_shapes_dtypes_and_ranges_never_change(game_class, seed, sticky, ramping):
    (state, observation), last, trace = play(game_class, seed, sticky, ramping)
    assert describe(last) == describe(state)
    assert jax.tree.structure(last) == jax.tree.structure(state)
    assert game_class().observation_space.contains(observation)
    for observations in (trace.observation, trace.next_observation):
        assert observations.shape == (STEPS, *observation.shape)
        assert observations.dtype == np.bool_
    assert trace.reward.dtype == np.float32
    assert trace.terminated.dtype == trace.truncated.dtype == np.bool_
    assert np.all(np.isfinite(trace.reward))
    assert np.all(trace.reward >= 0)
    assert not trace.truncated.any()
    assert set(trace.state.last_action) <= set(game_class.actions)
    going_on = ~trace.terminated
    np.testing.assert_array_equal(trace.observation[going_on], trace.next_observation[going_on])
    check_ranges(game_class, trace)


@each_game
def test_state_survives_a_file(game_class, tmp_path):
    """Saved as plain arrays and loaded again, it is the same bit for bit, and so is its future."""
    _, state, _ = play(game_class, seed=5)
    leaves, structure = jax.tree.flatten(state)
    np.savez(tmp_path / "state.npz", *[np.asarray(leaf) for leaf in leaves])
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        loaded = [file[f"arr_{i}"] for i in range(len(leaves))]
    for before, after in zip(leaves, loaded, strict=True):
        assert after.dtype == before.dtype
        assert after.shape == before.shape
        assert after.tobytes() == np.asarray(before).tobytes()

    params = Params(jnp.float32(0.1), jnp.bool_(True))
    actions = jnp.asarray(np.arange(STEPS) % len(game_class.actions), jnp.int32)
    futures = [
        player(game_class)(jax.random.key(6), start, actions, params)
        for start in (state, jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in loaded]))
    ]
    jax.tree.map(np.testing.assert_array_equal, *futures)


@pytest.mark.nightly
@each_game
def test_alone_or_in_a_batch_the_play_is_the_same(game_class):
    params = Params(jnp.float32(0.1), jnp.bool_(True))
    keys = jax.random.split(jax.random.key(7), 3)
    states, _ = jax.vmap(resetter(game_class), in_axes=(0, None))(keys, params)
    actions = jnp.asarray(np.arange(STEPS) % len(game_class.actions), jnp.int32)
    play_alone = player(game_class)
    batched = jax.vmap(play_alone, in_axes=(0, 0, None, None))(keys, states, actions, params)
    for i in range(3):
        state, ours = (jax.tree.map(lambda leaf, i=i: leaf[i], tree) for tree in (states, batched))
        alone = play_alone(keys[i], state, actions, params)
        jax.tree.map(np.testing.assert_array_equal, ours, alone)
