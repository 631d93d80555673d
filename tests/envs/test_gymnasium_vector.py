"""Ready-made vector environments: every autoreset mode yields the same, exact transitions."""

from __future__ import annotations

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment, GymnasiumVector
from tests.envs.test_gymnasium import assert_equal_transitions, play
from tests.envs.tiny import limited

SEEDS = [7, 8, 9]
ACTIONS = np.random.default_rng(0).integers(0, 2, (12, 3))


def vector(kind: str, mode: AutoresetMode) -> gymnasium.vector.VectorEnv:
    builders = [functools.partial(limited, length) for length in (1, 3, 9)]
    if kind == "sync":
        return SyncVectorEnv(builders, autoreset_mode=mode)
    if kind == "sync, same arrays":
        return SyncVectorEnv(builders, copy=False, autoreset_mode=mode)
    return AsyncVectorEnv(builders, context="spawn", autoreset_mode=mode)


def expected(length: int, column: int):
    with GymnasiumEnvironment(limited, length=length).open(1) as copies:
        return play(copies, SEEDS[column : column + 1], ACTIONS[:, column : column + 1])


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", ["sync", "sync, same arrays", "async"])
def test_every_autoreset_mode_is_exact(kind, mode):
    with GymnasiumVector(vector(kind, mode)).open(3) as copies:
        first, steps = play(copies, SEEDS, ACTIONS)
    assert any(step.terminated.any() for step in steps)
    assert any(step.truncated.any() for step in steps)
    for column, length in enumerate((1, 3, 9)):
        own_first, own_steps = expected(length, column)
        rows = slice(column, column + 1)
        np.testing.assert_array_equal(first[rows], own_first)
        mine = [type(step)(*(field[rows] for field in step)) for step in steps]
        assert_equal_transitions(mine, own_steps)


def test_the_mode_is_not_read_from_shared_metadata():
    # Both write into Counter.metadata; the later one must not change what the earlier one does.
    earlier = GymnasiumVector(vector("sync", AutoresetMode.SAME_STEP))
    later = vector("sync", AutoresetMode.NEXT_STEP)
    assert later.metadata is earlier._vector.metadata
    again = GymnasiumVector(vector("sync", AutoresetMode.SAME_STEP))
    later.close()
    for env in (earlier, again):
        with env.open(3) as copies:
            _, steps = play(copies, SEEDS, ACTIONS)
        np.testing.assert_array_equal(steps[0].next_observation[0], [0, 1, 7])
        np.testing.assert_array_equal(steps[0].observation[0], [1, 0, 7])


def test_next_step_resets_that_cannot_be_done_early_are_refused():
    cartpole = gymnasium.make_vec(
        "CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"
    )
    with pytest.raises(ValueError, match=r"NEXT_STEP.*SAME_STEP or DISABLED"):
        GymnasiumVector(cartpole)


def test_misuse():
    env = GymnasiumVector(vector("sync", AutoresetMode.SAME_STEP))
    with pytest.raises(ValueError, match=r"num_copies is 2; .* has 3 copies"):
        env.open(2)
    with env.open(3) as copies:
        assert copies.snapshot() is None
        with pytest.raises(ValueError, match="no snapshots"):
            copies.restore([b""])
        copies.reset(SEEDS)
        with pytest.raises(TypeError, match="takes integers"):
            copies.step(np.zeros(3, np.float32))
