"""What goes wrong is named, and stops no more than it must."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import QLambda
from eligrad.engines import EnvironmentFault
from eligrad.engines.host import finite_actions
from eligrad.envs.core import Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.runs.checkpoint import read_header
from eligrad.training import prepare, train
from eligrad.training.callbacks import EvaluateEvery
from tests.engines import tiny

pytestmark = pytest.mark.usefixtures("quickest_compilation")


@pytest.mark.parametrize(
    ("what", "at", "message"),
    [
        ("reward", 57, r"'Breaks' gave a reward \(nan\) that is not finite, to seed 4 at step 57"),
        ("observation", 57, "'Breaks' gave an observation that is not .*, to seed 4 at step 57"),
        ("observation", 0, "'Breaks' gave an observation that is not .*, to seed 4 at step 0"),
    ],
)
def test_numbers_that_are_none(tmp_path, what, at, message):
    with pytest.raises(EnvironmentFault, match=message):
        train(
            tiny.agent(observations=2),
            tiny.Breaks(what, at),
            steps=100,
            seeds=[4],
            chunk=10,
            checkpoint_every=20,
            out=tmp_path / "run",
        )
    # The last good checkpoint is kept, and none that is not good was written.
    saved = [read_header(path)["step"] for path in sorted((tmp_path / "run").glob("*.npz"))]
    assert saved == ([20, 40] if at else [])


def with_step_sizes(*step_sizes: float) -> QLambda:
    """One agent for each, in one."""

    def make(step_size):
        agent = tiny.agent()
        config = dataclasses.replace(agent.config, step_size=step_size)
        return dataclasses.replace(agent, config=config)

    return jax.vmap(make)(jnp.array(step_sizes))


def test_a_diverging_run_leaves_its_neighbours_alone():
    sound = train(with_step_sizes(0.01, 0.01, 0.01), tiny.ENV, steps=200, seeds=[0, 1, 2])
    mixed = train(with_step_sizes(0.01, 10.0, 0.01), tiny.ENV, steps=200, seeds=[0, 1, 2])
    assert sound.summary["diverged"] == 0
    assert mixed.summary["diverged"] == 1
    since = mixed.summary["seeds"][1]["diverged_step"]
    assert 1 <= since <= 100
    for seed in (0, 2):
        ours, theirs = (
            r.episodes.filter(np.asarray(r.episodes["seed"]) == seed) for r in (mixed, sound)
        )
        assert ours.equals(theirs)
        assert mixed.summary["seeds"][seed]["diverged_step"] is None


@pytest.mark.parametrize("processes", [1, 3])
def test_a_diverging_policy_in_gymnasium_leaves_its_neighbours_alone(processes):
    """The simulator refuses its actions; the other runs go on as if they were alone."""

    def run(step_sizes):
        settings = {"actor_step_size": step_sizes, "actor_kappa": [3.0, 1e-30, 3.0]}
        options = {"seeds": 3, "chunk": 50, "processes": processes}
        options["callbacks"] = [EvaluateEvery(250, episodes=1)]
        return train("stream-ac", "Pendulum-v1", steps=250, **options, **settings)

    mixed, sound = run([1.0, 1e38, 1.0]), run([1.0, 1e-30, 1.0])
    assert mixed.summary["diverged"] == 1
    assert mixed.summary["seeds"][1]["diverged_step"] is not None
    for seed in (0, 2):
        ours, theirs = (
            r.episodes.filter(np.asarray(r.episodes["seed"]) == seed) for r in (mixed, sound)
        )
        assert ours.num_rows
        assert ours.equals(theirs)


def test_a_fault_of_the_simulator_is_not_blamed_on_a_policy_that_diverged_before():
    session = prepare("stream-ac", "Pendulum-v1", steps=20, seeds=2)
    state = session.engine.state
    diverged = jax.tree.map(
        lambda x: jnp.full_like(x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x,
        state.agent,
    )
    session.engine.state = state._replace(agent=diverged, simulators=b"")
    step, taken = session.engine._copies.step, itertools.count(1)

    def fails(actions):
        if next(taken) == 8:
            raise OSError("the motor is gone")
        return step(actions)

    session.engine._copies.step = fails
    with (
        contextlib.closing(session),
        pytest.raises(EnvironmentFault, match=r"step 8: OSError.*motor is gone"),
    ):
        session.run()


def test_actions_that_are_not_finite_become_the_nearest_to_0():
    space = Box(np.float32([-1, 2, -np.inf]), np.float32([1, 3, np.inf]), (3,))
    actions = np.float32([[0.5, 2.5, 9.0], [np.nan, -np.inf, np.inf], [-7.0, 2.5, np.nan]])
    finite = finite_actions(space, actions)
    np.testing.assert_array_equal(finite, [[0.5, 2.5, 9.0], [0.0, 2.0, 0.0], [-7.0, 2.5, 0.0]])
    assert finite.dtype == np.float32
    assert finite_actions(space, actions[:1]) is not finite
    np.testing.assert_array_equal(finite_actions(Discrete(3), np.arange(3)), np.arange(3))


class Grows(tiny.Breaks):
    """Its observations are longer after the first."""

    name = "Grows"

    def __init__(self):
        super().__init__("reward", -1)

    def step(self, key, state, action, params):
        stepped = super().step(key, state, action, params)
        return Step(*stepped)._replace(observation=jnp.zeros(3))


def small(agent="qrc", env="Probe/Trace-v0", **options):
    return train(agent, env, **{"steps": 100} | options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: small(env="MinAtar/Breakot-v1"), "unknown environment .* 'MinAtar/Breakout-v1'"),
        (lambda: small(env="Probe/Continuous-v0"), "'Probe/Continuous-v0': .* continuous actions"),
        (lambda: small(env=Grows()), r"'Grows': step gives .* of shape \(3,\); .* \(2,"),
        (lambda: small("qrcc"), "unknown agent 'qrcc'; did you mean 'qrc'"),
        (lambda: small(lam=1.2), r"lam is 1.2; values in \[0, 1\] are accepted"),
        (lambda: small(lamb=0.2), "unknown setting of qrc 'lamb'; did you mean 'lam'"),
        (lambda: small(tiny.agent(lam=1.2), tiny.ENV), "lam is 1.2"),
        (lambda: small(tiny.agent(), tiny.ENV, lam=0.2), r"\['lam'\] go with an agent's name"),
        (lambda: small(steps=1.5), "steps is 1.5; a whole number"),
        (lambda: small(steps=0), "steps is 0; a whole number"),
        (lambda: small(seeds=[1, 1]), r"seeds are \[1, 1\]; different ones"),
        (lambda: small(seeds=0), "seeds is 0; a whole number"),
        (lambda: small(chunk=10, checkpoint_every=15), "checkpoint_every is 15; a multiple"),
        (lambda: small(loggers="wandb"), "loggers is 'wandb'; a list of names"),
        (
            lambda: small(env=tiny.ENV, max_episode_steps=3),
            "max_episode_steps is 3, but .* exists already",
        ),
        (
            lambda: small(env="MinAtar/Breakout-v1", env_params={"ramping": 0.3}),
            "ramping of env_params is 0.3; True or False is accepted, like its default, True",
        ),
        (
            lambda: small(env="MinAtar/Breakout-v1", env_params={"sticky_probability": "0.1"}),
            r"is '0.1'; a number \(float32\) is accepted, like its default, 0.1$",
        ),
        (
            lambda: small(env="MinAtar/Breakout-v1", env_params={"sticky_probability": [0.1, 0.2]}),
            r"is \[0.1, 0.2\]; a number",
        ),
        (
            lambda: small(exploration_fraction=[0.1, 0.2]),
            r"exploration_fraction is \[0.1, 0.2\]; one value is accepted, or",
        ),
        (lambda: small(regularize=[]), r"regularize is \[\]; one value is accepted$"),
        (
            lambda: small(env="MinAtar/Breakout-v1", env_params={"sticky": 0.0}),
            "unknown parameter of .* 'sticky'; did you mean 'sticky_probability'",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="exists already; choose another folder"):
        small(out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_fraction_for_each_run_gives_each_its_own_exploration():
    plan = prepare("qrc", "Probe/Trace-v0", steps=50, seeds=2, exploration_fraction=[0.1, 0.2]).plan
    np.testing.assert_allclose(plan.settings.exploration_steps, [5.0, 10.0])
