"""Evaluation plays whole episodes, in the world of the training and without touching it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.engines.devices import compile_seconds
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from eligrad.envs.core import Environment, Step
from eligrad.envs.spaces import Box, Discrete
from eligrad.training import evaluation, prepare, resume, saved, train
from eligrad.training.callbacks import EvaluateEvery
from eligrad.training.playing import HostEpisodes, JaxEpisodes, play
from tests.engines import tiny
from tests.envs.tiny import Counter

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def counters(*lengths: int) -> GymnasiumEnvironment:
    """An environment that is opened once, whose copies have these lengths in turn."""
    each = iter((lengths[0], *lengths))  # the first is built to see its spaces
    return GymnasiumEnvironment(lambda: Counter(next(each)))


class Terms(NamedTuple):
    wage: float


class Job(Environment):
    """Pays its wage twice."""

    name = "Job"
    observation_space = Box(0.0, 2.0, (2,))
    action_space = Discrete(2)

    def default_params(self):
        return Terms(1.0)

    def reset(self, key, params):
        return jnp.int32(0), jnp.zeros(2)

    def step(self, key, state, action, params):
        done = state + 1
        observation = jnp.full(2, done, jnp.float32)
        return Step(done, observation, jnp.float32(params.wage), done == 2, jnp.asarray(False))


def test_evaluations_keep_their_schedule_when_a_run_is_continued(tmp_path):
    def evaluated(begin, *steps) -> list[int]:
        every = [EvaluateEvery(30, episodes=1) for _ in steps]
        out = tmp_path / str(begin)
        options = {"seeds": 1, "chunk": 10, "checkpoint_every": 10, "out": out}
        train("qrc", "Probe/Trace-v0", steps=begin, callbacks=every[:1], **options)
        for total, each in zip(steps[1:], every[1:], strict=True):
            resume(out, steps=total, callbacks=[each])
        return [step for each in every for step, _ in each.history]

    assert evaluated(100, 100) == [30, 60, 90]
    assert evaluated(40, 40, 60, 100) == [30, 60, 90]


def test_evaluations_that_cannot_be_are_refused_at_once():
    with pytest.raises(ValueError, match="episodes is 0"):
        EvaluateEvery(100, episodes=0)


def test_several_evaluations_have_names_of_their_own():
    options = {"steps": 40, "seeds": 1, "chunk": 20}
    with pytest.raises(ValueError, match="several callbacks have the metric 'evaluation_return'"):
        train("qrc", "Probe/Trace-v0", callbacks=[EvaluateEvery(20), EvaluateEvery(40)], **options)
    two = [EvaluateEvery(20, episodes=1), EvaluateEvery(40, episodes=3, metric="rare")]
    chunks = train("qrc", "Probe/Trace-v0", callbacks=two, **options).chunks.to_pandas()
    assert chunks["evaluation_return"].notna().tolist() == [True, True]
    assert chunks["rare"].notna().tolist() == [False, True]
    assert [returns.shape for _, returns in two[1].history] == [(1, 3)]


class Places(NamedTuple):
    places: np.ndarray


class Sum(Job):
    """Pays the sum of several places, twice."""

    def default_params(self):
        return Places(np.float32([1.0, 2.0]))

    def step(self, key, state, action, params):
        paid = Terms(jnp.sum(jnp.asarray(params.places)))
        return super().step(key, state, action, paid)


def test_parameters_that_are_arrays_can_be_changed():
    def returns(**changes):
        return train(tiny.agent(2), Sum(), steps=4, env_params=changes).episodes["return"]

    assert returns().to_pylist() == [6.0, 6.0]
    assert returns(places=[3.0, 4.0]).to_pylist() == [14.0, 14.0]
    with pytest.raises(ValueError, match=r"places of env_params is 5.0; an array of shape \(2,\)"):
        returns(places=5.0)


@pytest.mark.parametrize("runs", [1, 2])
def test_policies_that_diverged_are_evaluated(runs):
    session = prepare("stream-ac", "Pendulum-v1", steps=10, seeds=runs, max_episode_steps=5)
    diverged = jax.tree.map(
        lambda x: jnp.full_like(x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x,
        session.engine.state.agent,
    )
    returns = evaluation.evaluate(session.agent, session.env, diverged, episodes=2)
    assert returns.shape == (runs, 2)
    assert np.isfinite(returns).all()


def test_callbacks_evaluate_in_the_world_of_the_training(tmp_path):
    watch = EvaluateEvery(4, episodes=2, keep_best=tmp_path / "made" / "best.npz")
    train(tiny.agent(2), Job(), steps=4, env_params={"wage": np.float32(3.0)}, callbacks=[watch])
    ((_, returns),) = watch.history
    np.testing.assert_array_equal(returns, [[6.0, 6.0]])
    assert saved.read_plan(tmp_path / "made" / "best.npz").env_params == {"wage": 3.0}


def test_an_episode_that_was_left_is_not_gone_on_with():
    agent = tiny.agent(3)
    keys = jax.random.split(jax.random.key(0), 2)
    states = jax.vmap(agent.init)(keys, jnp.zeros((2, 3)))
    message = "3 of 6 episodes ended; the others were cut off after 4 steps"
    with pytest.warns(evaluation.CutOffWarning, match=message):
        returns = evaluation.evaluate(agent, counters(2, 100), states, episodes=3, max_steps=4)
    # 10, 20, ... and the action, 0 or 1, for each step.
    np.testing.assert_array_equal(returns // 10 * 10, [[30, 60, 30], [100, 100, 100]])


@pytest.mark.parametrize("kind", ["jax", "gymnasium"])
def test_actions_are_for_where_the_next_step_begins(kind):
    """After an end that is the next episode, and not where the last action led."""
    in_jax = kind == "jax"
    episodes = JaxEpisodes(Job(), None, 0) if in_jax else HostEpisodes(counters(2), 1, 0)

    def at_the_beginning(observation, keys):
        assert keys.shape == (1,)
        return jnp.asarray(observation[:, 1] == 0, jnp.int32)

    steps = list(itertools.islice(play(at_the_beginning, episodes, episodes.reset()), 4))
    episodes.close()
    assert [int(action[0]) for action, _, _ in steps] == [1, 0, 1, 0]
    assert [int(following[0]) for _, _, following in steps] == [0, 0, 0, 0]
    assert [int(reached.next_observation[0, 1]) for _, reached, _ in steps] == [1, 2, 1, 2]


def test_an_endless_episode_in_jax_is_left_too():
    agent = tiny.agent(2)
    states = jax.vmap(agent.init)(jax.random.split(jax.random.key(0), 1), jnp.zeros((1, 2)))
    play = functools.partial(evaluation.evaluate, agent, states=states, episodes=2)
    with pytest.warns(evaluation.CutOffWarning, match=r"0 of 2 episodes ended.* after 7 steps"):
        returns = play(tiny.Breaks("reward", -1), max_steps=7)
    np.testing.assert_array_equal(returns, [[7.0, 7.0]])
    # Warnings are errors here: an episode that ends with the last step that is allowed is whole.
    np.testing.assert_array_equal(play(Job(), max_steps=2), [[2.0, 2.0]])


def test_an_evaluation_compiles_once():
    env, agent, compiled = Job(), tiny.agent(2), []
    state = train(agent, env, steps=4, seeds=2).state.agent
    evaluate = evaluation.Evaluation(env)

    def play(seed, **options):
        before = compile_seconds()
        returns = evaluate(agent, state, episodes=2, seed=seed, **options)
        compiled.append(compile_seconds() - before)
        return returns

    np.testing.assert_array_equal(play(0), np.full((2, 2), 2.0))
    np.testing.assert_array_equal(play(1), np.full((2, 2), 2.0))
    np.testing.assert_array_equal(play(1, params=Terms(3.0)), np.full((2, 2), 6.0))
    assert compiled[0] > 0
    assert compiled[1:] == [0, 0]


def test_evaluations_of_one_training_are_one_program(monkeypatch):
    made = []
    program = evaluation._program
    monkeypatch.setattr(evaluation, "_program", lambda *a: made.append(a) or program(*a))
    every = EvaluateEvery(2, episodes=1)
    train(tiny.agent(2), Job(), steps=6, chunk=2, callbacks=[every])
    assert len(made) == 1
    assert len(every.history) == 3


class Bonus(Job):
    bonus = 0.0

    def step(self, key, state, action, params):
        reached = super().step(key, state, action, params)
        return reached._replace(reward=reached.reward + self.bonus)


def test_an_environment_that_was_changed_is_evaluated_as_it_is():
    env, agent = Bonus(), tiny.agent(2)
    state = train(agent, env, steps=4).state.agent
    np.testing.assert_array_equal(evaluation.evaluate(agent, env, state, episodes=1), [[2.0]])
    env.bonus = 10.0
    np.testing.assert_array_equal(evaluation.evaluate(agent, env, state, episodes=1), [[22.0]])


class WithoutHash(Job):
    __hash__ = None  # pyright: ignore[reportAssignmentType]


@dataclasses.dataclass(frozen=True)
class HoldsAnArray(Job):
    weights: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(3))


@pytest.mark.parametrize("kind", [WithoutHash, HoldsAnArray])
def test_an_environment_without_a_hash_is_evaluated(kind):
    with pytest.raises(TypeError):
        hash(kind())
    agent = tiny.agent(2)
    state = train(agent, kind(), steps=4).state.agent
    np.testing.assert_array_equal(evaluation.evaluate(agent, kind(), state, episodes=1), [[2.0]])
