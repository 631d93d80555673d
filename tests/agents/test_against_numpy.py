"""Every agent, step by step, against an independent implementation in double precision."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import optim
from eligrad.agents import PRESETS, QLambda, QLambdaConfig, from_equinox
from eligrad.nets import CNN, MinAtarCNN, streaming_mlp
from eligrad.nets.cnn import Window
from tests.agents import reference
from tests.agents.stream import record

pytestmark = pytest.mark.usefixtures("quickest_compilation")

STEPS, ACTIONS = 200, 3


def network(make):
    """`make(key)` with other weights, of which none is 0, biases neither.

    The first observation normalises to 0: without biases, all of its action values would be tied.
    """
    built = from_equinox(make)
    shapes = jax.eval_shape(built.init, jax.random.key(0))

    def init(key):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.3, p.shape), p.dtype), shapes)

    return dataclasses.replace(built, init=init)


SMALL_CNN = network(
    lambda key: CNN(
        (5, 6, 2), ACTIONS, windows=(Window(4, 3, 1),), hidden=10, sparsity=0.0, key=key
    )
)
MINATAR_CNN = network(lambda key: MinAtarCNN((10, 10, 4), ACTIONS, sparsity=0.0, key=key))
SMALL_MLP = network(lambda key: streaming_mlp(7, ACTIONS, hidden=(9, 8), sparsity=0.0, key=key))


STEP_SIZES = {"sgd": 0.01, "adam": 1e-3, "obgd": 1.0, "adaptive-obgd": 1.0, "trace-adam": 0.008}


def settings(preset, **changes):
    """A preset with steps large enough to be seen, and exploration that changes on the way."""
    config = PRESETS[preset]
    step_size = STEP_SIZES[changes.get("optimizer", config.optimizer)]
    common = {
        "step_size": step_size,
        "h_scale": 0.5,
        "epsilon_start": 0.8,
        "epsilon_end": 0.2,
        "exploration_steps": 120,
    }
    return dataclasses.replace(config, **(common | changes))


class Trajectory(NamedTuple):
    """What is compared, after every step."""

    w: Any
    theta: Any
    traces: Any
    observation_mean: Any
    observation_variance: Any
    reward_mean: Any
    reward_variance: Any
    td_error: Any
    action: Any


def beginning(agent, recording):
    """The agent's state before the first step."""
    return agent.init(jax.random.key(5), jnp.asarray(recording.first))


def flat(tree):
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


def run_library(config, net, recording):
    """The agent in a scan; the state before the first step, and the trajectory."""
    agent = QLambda(config, net)
    first = beginning(agent, recording)

    def variance(stats):
        n = stats.samples.astype(jnp.float32)
        return jnp.where(n > 1, stats.population_variance * n / jnp.maximum(n - 1, 1), 1.0)

    def step(state, inputs):
        transition, act_key, update_key = inputs
        state, action = agent.act(state, act_key)
        state, metrics = agent.update(state, transition, update_key)
        seen, rewards, z = state.normalizer.observations, state.normalizer.rewards, state.traces
        alive = [t for t in ([z.w] if z.w is not None else []) + [z.h, z.theta] if t is not None]
        return state, Trajectory(
            w=flat(state.w),
            theta=flat(state.theta),
            traces=z.discount * flat(alive),
            observation_mean=flat(seen.mean),
            observation_variance=flat(variance(seen)),
            reward_mean=rewards.stats.mean,
            reward_variance=variance(rewards.stats),
            td_error=metrics["td_error"],
            action=action,
        )

    inputs = (recording.transitions, recording.act_keys, recording.update_keys)
    _, trajectory = jax.jit(lambda s, i: jax.lax.scan(step, s, i))(first, inputs)
    return first, jax.tree.map(lambda x: np.asarray(x, np.float64), trajectory)


def run_reference(config, first, recording):
    """The same from the same parameters, in NumPy; also the agent itself."""
    w, theta = (
        [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(t)]
        for t in (first.w, first.theta)
    )
    agent = reference.Agent(config, w, theta, recording.first)
    rows = []
    for t in range(len(recording.act_uniforms)):
        action = agent.act(recording.act_uniforms[t])
        reward, terminated, truncated, arrived, following = (x[t] for x in recording.transitions)
        agent.learn(
            float(reward), terminated, truncated, arrived, following, recording.update_uniforms[t]
        )
        traces = agent.alive()
        # GTD2 needs no trace of the values' gradient; its optimiser may.
        if config.rule == "gtd2" and not optim.uses_trace(config.optimizer):
            traces = traces[len(w) :]
        rows.append(
            Trajectory(
                w=_flat(agent.w),
                theta=_flat(agent.theta),
                traces=_flat(traces),
                observation_mean=agent.observations.mean.ravel(),
                observation_variance=agent.observations.variance().ravel(),
                reward_mean=agent.returns.mean,
                reward_variance=agent.returns.variance(),
                td_error=agent.delta,
                action=action,
            )
        )
    return Trajectory(*map(np.array, zip(*rows, strict=True))), agent


def _flat(leaves):
    return np.concatenate([leaf.ravel() for leaf in leaves]) if leaves else np.zeros(0)


def distance(a, b, first):
    """The largest error of any step over the largest movement, field by field."""
    errors = {}
    for field, x, y in zip(a._fields, a, b, strict=True):
        origin = np.asarray(flat(getattr(first, field))) if field in LEARNED else 0.0
        if y.size:
            rows = (len(y), -1)
            error = np.linalg.norm((x - y).reshape(rows), axis=1).max()
            errors[field] = error / np.linalg.norm((y - origin).reshape(rows), axis=1).max()
    return errors


LEARNED = ("w", "theta", "actor")


def assert_equal(config, net, recording):
    first, ours = run_library(config, net, recording)
    theirs, agent = run_reference(config, first, recording)
    assert agent.smallest_gap > 5e-6, "two actions tie in single precision: take another seed"
    if net is SMALL_MLP:  # of whose few units each counts
        assert agent.nearest_kink > 5e-6, "a unit is at its kink: take another step size"
    np.testing.assert_array_equal(ours.action, theirs.action)
    # Single precision: 6e-8 a rounding. Parameters are compared by how far they moved.
    errors = distance(ours, theirs, first)
    assert max(errors.values()) < 1e-5, errors
    for field in ("observation_mean", "observation_variance", "reward_mean", "reward_variance"):
        assert errors[field] < 1e-6, errors


IMAGES = record(STEPS, (5, 6, 2), np.bool_)
VECTORS = record(STEPS, (7,), np.float32)
ON_POLICY = {"sarsa-lambda", "expected-sarsa-lambda"}


def test_the_recording_has_every_kind_of_step():
    for recording in (IMAGES, VECTORS):
        e = recording.transitions
        ended = e.terminated | e.truncated
        for kind in (e.terminated & ~e.truncated, ~e.terminated & e.truncated):
            assert kind.sum() > 5
        assert (e.terminated & e.truncated).sum() > 2
        assert ended.sum() < STEPS / 4
        same = (e.next_observation == e.observation).reshape(STEPS, -1).all(axis=1)
        np.testing.assert_array_equal(same, ~ended)


OFF_POLICY = [
    name
    for name, config in PRESETS.items()
    if isinstance(config, QLambdaConfig) and name not in ON_POLICY
]


@pytest.mark.parametrize(
    ("preset", "trace_cut"),
    [
        *((preset, "after") for preset in OFF_POLICY),
        ("qrc", "watkins"),
        *(pytest.param(p, "watkins", marks=pytest.mark.nightly) for p in OFF_POLICY if p != "qrc"),
    ],
)
def test_images(preset, trace_cut):
    assert_equal(settings(preset, trace_cut=trace_cut), SMALL_CNN, IMAGES)


@pytest.mark.parametrize("preset", sorted(ON_POLICY))
def test_on_policy_targets(preset):
    assert_equal(settings(preset), SMALL_CNN, IMAGES)


@pytest.mark.parametrize("preset", sorted(ON_POLICY))
def test_on_policy_targets_know_no_cut(preset):
    """Both conventions are one program, so that one of them is enough above."""

    def program(trace_cut):
        agent = QLambda(settings(preset, trace_cut=trace_cut), SMALL_MLP)
        key, state = jax.random.key(0), beginning(agent, VECTORS)
        transition = jax.tree.map(lambda x: jnp.asarray(x[0]), VECTORS.transitions)
        return str(jax.make_jaxpr(agent.update)(state, transition, key))

    assert program("after") == program("watkins")


CAUTIOUS = {"kappa": 5.0}
"""With larger steps β shrinks θ until layer normalisation magnifies the rounding."""


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("qrc", {"optimizer": "adam"}),
        ("qrc", {"optimizer": "obgd"} | CAUTIOUS),
        ("qrc", {"optimizer": "trace-adam"}),
        ("gq2", {"optimizer": "obgd"} | CAUTIOUS),
        ("sarsa-lambda", {"rule": "td"}),
        *(
            pytest.param(preset, {"optimizer": optimizer} | CAUTIOUS, marks=pytest.mark.nightly)
            for preset, optimizer in (
                ("qrc", "adaptive-obgd"),
                ("q-lambda", "adaptive-obgd"),
                ("gq2", "adaptive-obgd"),
                ("qc", "obgd"),
                ("q-lambda", "trace-adam"),
                ("gq2", "trace-adam"),
            )
        ),
    ],
)
def test_vectors(preset, changes):
    assert_equal(settings(preset, **changes), SMALL_MLP, VECTORS)


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("qrc", {"regularize": "head", "beta": 0.3}),
        ("qrc", {"regularize": "parameters", "beta": 0.3}),
        ("qrc", {"h": "features", "regularize": "parameters"}),
        ("qrc", {"h": "features", "regularize": "output", "optimizer": "obgd"}),
        *(
            pytest.param(preset, changes, marks=pytest.mark.nightly)
            for preset, changes in (
                ("qrc", {"h": "features", "regularize": "head"}),
                ("qc", {"h": "features"}),
                ("gq2", {"h": "features", "optimizer": "trace-adam"}),
                ("sarsa-lambda", {"h": "features", "regularize": "output"}),
            )
        ),
    ],
)
def test_what_h_is_and_what_is_regularised(preset, changes):
    assert_equal(settings(preset, **changes), SMALL_CNN, IMAGES)


def test_the_network_of_minatar():
    assert_equal(settings("qrc"), MINATAR_CNN, record(30, (10, 10, 4), np.bool_))


# The comparison is worth something only if it can fail.


def _flawed(recording, **changes):
    return recording._replace(transitions=recording.transitions._replace(**changes))


E = IMAGES.transitions
FLAWS = {
    "cut before instead of after": ({"trace_cut": "watkins"}, IMAGES),
    "another rule": ({"rule": "tdc"}, IMAGES),
    "another regulariser": ({"regularize": "parameters"}, IMAGES),
    "a regulariser of the head alone": ({"regularize": "head"}, IMAGES),
    "another target": ({"target": "expected"}, IMAGES),
    "traces one per cent shorter": ({"lam": 0.792}, IMAGES),
    "exploration over fewer steps": ({"exploration_steps": 100}, IMAGES),
    "truncation taken for termination": (
        {},
        _flawed(IMAGES, terminated=E.terminated | E.truncated),
    ),
    "termination taken for truncation": (
        {},
        _flawed(IMAGES, terminated=E.terminated & False, truncated=E.terminated | E.truncated),
    ),
    "bootstrap from the next episode": ({}, _flawed(IMAGES, next_observation=E.observation)),
}


@pytest.fixture(scope="module")
def right():
    first = beginning(QLambda(settings("qrc"), SMALL_CNN), IMAGES)
    return first, run_reference(settings("qrc"), first, IMAGES)[0]


@pytest.mark.parametrize("flaw", sorted(FLAWS))
def test_a_flaw_is_noticed(flaw, right):
    first, trajectory = right
    changes, recording = FLAWS[flaw]
    flawed, _ = run_reference(settings("qrc", **changes), first, recording)
    same_actions = (flawed.action == trajectory.action).all()
    assert not same_actions or distance(flawed, trajectory, first)["w"] > 1e-3


def test_hand_written_gradients_are_gradients():
    """Central differences of the reference's own networks."""
    rng = np.random.default_rng(0)
    for shapes, observation in (
        ([(18, 4), (4,), (48, 6), (6,), (6, 3), (3,)], rng.standard_normal((5, 6, 2))),
        ([(7, 9), (9,), (9, 8), (8,), (8, 3), (3,)], rng.standard_normal(7)),
    ):
        params = [rng.normal(0, 0.5, shape) for shape in shapes]
        weights, step = rng.standard_normal(3), 1e-6
        analytic = reference.gradient(params, observation, weights)
        for leaf, slope in zip(params, analytic, strict=True):
            for index in rng.permutation(leaf.size)[:20]:
                value, ends = leaf.flat[index], []
                for sign in (1, -1):
                    leaf.flat[index] = value + sign * step
                    ends.append(weights @ reference.q_values(params, observation))
                leaf.flat[index] = value
                assert slope.flat[index] == pytest.approx(
                    (ends[0] - ends[1]) / (2 * step), abs=1e-7
                )
