"""Runs that learn from rollouts are the same runs: alone or among others, in parts, resumed.

On a CPU all of this is bit for bit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.engines import HostRollouts, Rollouts
from eligrad.envs import make
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.adapters.to_gymnasium import GymnasiumFromJax
from eligrad.runs.plan import env_seeds
from eligrad.training import resume, train
from tests.engines import tiny_ppo as tiny

SEEDS, ROLLOUTS = [3, 4, 5], 3


def timeless(record):
    """A record without what depends on the clock."""
    metrics = {k: v for k, v in record.metrics.items() if not k.endswith("_seconds")}
    return record._replace(metrics=metrics)


def assert_same(ours, theirs):
    ours, theirs = (jax.tree_util.tree_leaves_with_path(tree) for tree in (ours, theirs))
    for (path, a), (_, b) in zip(ours, theirs, strict=True):
        if isinstance(a, bytes):
            assert a == b, path
            continue
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=str(path))


def part(tree, place):
    return jax.tree.map(lambda leaf: leaf[place : place + 1], tree)


def engine(preset, env, seeds, **settings):
    agent = tiny.agent(preset, env, **settings)
    of_envs = env_seeds(seeds)
    if isinstance(env, GymnasiumEnvironment):
        return HostRollouts(agent, env, np.asarray(seeds), of_envs)
    return Rollouts(agent, env, env.default_params(), np.asarray(seeds), of_envs)


def play(preset, env, seeds, parts=(ROLLOUTS,), **settings):
    """The records of all parts as one, and the state at the end."""
    made = engine(preset, env, seeds, **settings)
    records = [timeless(made.advance(32 * rollouts)) for rollouts in parts]
    state = made.state
    made.close()
    joined = jax.tree.map(lambda *each: np.concatenate(each, axis=1), *records)
    if isinstance(env, GymnasiumEnvironment):
        state = state._replace(simulators=b"")  # of all runs together
    return joined, state


CASES = {
    "CartPole": ("ppo", lambda: make("CartPole-v1"), {}),
    "Pendulum": ("gradient-ppo", lambda: make("Pendulum-v1", max_episode_steps=9), {"num_envs": 2}),
    "Drift": ("ppo", tiny.Drift, {"num_envs": 4}),
}


@pytest.fixture(
    scope="module",
    params=[
        "Pendulum",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("CartPole", "Drift")),
    ],
)
def together(request):
    preset, make_env, settings = CASES[request.param]
    env = make_env()
    records, state = play(preset, env, SEEDS, **settings)
    assert records.ended.any(axis=1).all()
    assert len(np.unique(records.metrics["lambda_error"][:, -1])) == 3  # different runs
    return preset, env, settings, records, state


def test_alone(together):
    preset, env, settings, records, state = together
    alone, alone_state = play(preset, env, [4], **settings)
    assert_same(alone, part(records, 1))
    assert_same(alone_state._replace(**blank(alone_state)), part(state._replace(**blank(state)), 1))


def blank(state):
    """The simulators of a host engine are of no run alone, and empty here."""
    return {"simulators": np.zeros(len(state.step))} if hasattr(state, "simulators") else {}


def test_one_chunk_or_several(together):
    preset, env, settings, records, state = together
    parts, parts_state = play(preset, env, SEEDS, parts=(1, 1, 1), **settings)
    assert_same(parts, records)
    assert_same(parts_state, state)


def test_settings_in_a_list_are_those_of_runs_alone(together):
    preset, env, settings, *_ = together
    sizes, lams = [0.01, 0.02, 0.01], [0.9, 0.9, 0.95]
    each = {"critic_step_size": np.array(sizes), "lam": np.array(lams)}
    records, state = play(preset, env, [1, 1, 1], **settings, **each)
    assert len(np.unique(records.metrics["lambda_error"][:, 1])) == 3
    for run in range(3):
        one = {"critic_step_size": sizes[run], "lam": lams[run]}
        alone, alone_state = play(preset, env, [1], **settings, **one)
        assert_same(alone, part(records, run))
        assert_same(alone_state.agent, part(state.agent, run))


@pytest.mark.nightly
def test_lists_by_keyword():
    """Through `train`, by name, and with one seed for several settings."""
    options = {"steps": 64, **tiny.SETTINGS["ppo"]}
    both = train("ppo", "Probe/OffPolicy-v0", seeds=[2, 2], lam=[0.9, 0.95], **options)
    for run, lam in enumerate((0.9, 0.95)):
        alone = train("ppo", "Probe/OffPolicy-v0", seeds=[2], lam=lam, **options)
        assert_same(alone.state, part(both.state, run))
        ours, theirs = (
            result.episodes.filter(np.asarray(result.episodes["run"]) == place)
            for result, place in ((both, run), (alone, 0))
        )
        assert ours.drop_columns("run").equals(theirs.drop_columns("run"))


# Stopped and resumed.


def assert_resumes(folder, agent, env, steps, **options):
    """A run in two parts, the second from a folder, is the run in one."""
    by_hand = {} if isinstance(agent, str) else {"agent": agent, "env": env}
    straight = train(agent, env, steps=steps, out=folder / "straight", **options)
    train(agent, env, steps=steps // 2, out=folder / "parts", **options)
    resumed = resume(folder / "parts", steps=steps, **by_hand)
    assert_same(resumed.state, straight.state)
    assert resumed.episodes.equals(straight.episodes)
    assert tiny.timeless(resumed.chunks).equals(tiny.timeless(straight.chunks))
    return straight


@pytest.mark.usefixtures("quickest_programs")
def test_resumed_in_a_jax_environment(tmp_path):
    env = tiny.Drift()
    agent = tiny.agent("ppo", env, num_envs=4, anneal_steps=256.0)
    assert_resumes(tmp_path, agent, env, 128, seeds=SEEDS, checkpoint_every=32)


@pytest.mark.nightly
@pytest.mark.parametrize("num_envs", [2, 1])
def test_resumed_in_mujoco(tmp_path, num_envs):
    """By name; with simulators in the middle of episodes, which must be where they were."""
    pytest.importorskip("mujoco", reason="MuJoCo is an extra of its own: eligrad[mujoco]")
    options = {"rollout": 64, "minibatch_size": 32, "sequence": 16, "num_envs": num_envs}
    result = assert_resumes(tmp_path, "gradient-ppo", "Hopper-v4", 256, seeds=[8, 9], **options)
    episodes = result.episodes.to_pandas()
    assert (episodes.groupby("seed").size() > 3).all()
    assert 128 not in episodes["step"].to_numpy()
    assert (result.state.episode_length > 0).any()


# Both engines.


@pytest.mark.nightly
def test_both_engines_see_and_learn_the_same():
    """Where nothing is left to chance but the actions."""
    here, state_here = play("ppo", tiny.Drift(), SEEDS, num_envs=4)
    host = GymnasiumEnvironment(lambda: GymnasiumFromJax(tiny.Drift()))
    there, state_there = play("ppo", host, SEEDS, num_envs=4)
    np.testing.assert_array_equal(here.ended, there.ended)
    np.testing.assert_array_equal(here.episode_length, there.episode_length)
    np.testing.assert_allclose(here.episode_return, there.episode_return, atol=1e-4)
    for name, values in here.metrics.items():
        np.testing.assert_allclose(values, there.metrics[name], rtol=2e-3, atol=1e-4, err_msg=name)
    for ours, theirs in zip(
        jax.tree.leaves(state_here.agent.networks),
        jax.tree.leaves(state_there.agent.networks),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
