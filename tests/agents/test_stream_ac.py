"""Stream AC(λ) and Gradient AC(λ), step by step, against an implementation in double precision."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from eligrad import normalize
from eligrad.agents import (
    PRESETS,
    DiscretePolicy,
    SoftplusGaussianPolicy,
    StreamAC,
    from_equinox,
)
from eligrad.envs.spaces import Box, Discrete
from eligrad.nets import streaming_mlp
from tests.agents import reference
from tests.agents.stream import record
from tests.agents.test_against_numpy import VECTORS, distance, flat, network

pytestmark = pytest.mark.usefixtures("quickest_compilation")

SIZE, ENTRIES = 7, 2


@functools.cache
def net(outputs):
    return network(lambda key: streaming_mlp(SIZE, outputs, hidden=(9, 8), sparsity=0.0, key=key))


def gaussian(network):
    return SoftplusGaussianPolicy(network, (-1.0, -2.0), (1.0, 6.0), (ENTRIES,))


POLICIES = {
    "softmax": DiscretePolicy(net(3), 3),
    "gaussian": gaussian(net(4)),
}


def make(preset, policy, **changes):
    config = dataclasses.replace(PRESETS[preset], **changes)
    return StreamAC(config, POLICIES[policy], net(1))


class Trajectory(NamedTuple):
    """What is compared, after every step."""

    actor: Any
    w: Any
    theta: Any
    traces: Any
    observation_mean: Any
    reward_mean: Any
    td_error: Any
    action: Any


def run_library(agent, recording):
    """The state before the first step, and the trajectory."""
    first = agent.init(jax.random.key(5), jnp.asarray(recording.first))

    def step(state, inputs):
        transition, act_key, update_key = inputs
        state, _ = agent.act(state, act_key)
        action = state.action
        state, metrics = agent.update(state, transition, update_key)
        z = state.traces
        critic = z.discount * flat([t for t in (z.w, z.h, z.theta) if t is not None])
        actor = state.actor_traces.discount * flat(state.actor_traces.w)
        return state, Trajectory(
            actor=flat(state.actor),
            w=flat(state.w),
            theta=flat(state.theta),
            traces=jnp.concatenate([critic, actor]),
            observation_mean=state.normalizer.observations.mean,
            reward_mean=state.normalizer.rewards.stats.mean,
            td_error=metrics["td_error"],
            action=action,
        )

    inputs = (recording.transitions, recording.act_keys, recording.update_keys)
    _, trajectory = jax.jit(lambda s, i: jax.lax.scan(step, s, i))(first, inputs)
    return first, jax.tree.map(lambda x: np.asarray(x, np.float64), trajectory)


def run_reference(agent, first, recording, twin: Any = reference.ActorCritic):
    """The same from the same parameters and noise, in NumPy; also the agent itself."""
    actor, w, theta = (
        [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
        for tree in (first.actor, first.w, first.theta)
    )
    discrete = isinstance(agent.policy, DiscretePolicy)
    other = twin(agent.config, actor, w, theta, recording.first, discrete)
    noise = jax.vmap(lambda key: agent.policy.noise(key, ()))(recording.act_keys)
    rows = []
    for t in range(len(noise)):
        action = other.act(np.asarray(noise[t], np.float64))
        other.learn(*(x[t] for x in recording.transitions))
        rows.append(
            Trajectory(
                actor=_flat(other.actor),
                w=_flat(other.w),
                theta=_flat(other.theta),
                traces=_flat(other.alive()),
                observation_mean=other.observations.mean,
                reward_mean=other.returns.mean,
                td_error=other.delta,
                action=action,
            )
        )
    return Trajectory(*map(np.array, zip(*rows, strict=True))), other


def _flat(leaves):
    return np.concatenate([leaf.ravel() for leaf in leaves]) if leaves else np.zeros(0)


VARIANTS = [
    ("stream-ac", "gaussian", {}),
    ("gradient-ac", "gaussian", {}),
    ("gradient-ac", "softmax", {"regularize": "output", "h": "features", "h_scale": 0.5}),
    *(
        pytest.param(*each, marks=pytest.mark.nightly)
        for each in (
            ("gradient-ac", "gaussian", {"regularize": "head"}),
            ("stream-ac", "softmax", {"entropy_bonus": 0.3, "actor_step_size": 0.01}),
            ("gradient-ac", "softmax", {"regularize": "parameters", "critic_kappa": 5.0}),
            ("gradient-ac", "gaussian", {"rule": "tdc", "regularize": "parameters"}),
            ("gradient-ac", "gaussian", {"rule": "gtd2", "regularize": "parameters"}),
        )
    ),
]


@pytest.mark.parametrize(("preset", "policy", "changes"), VARIANTS)
def test_against_numpy(preset, policy, changes):
    agent = make(preset, policy, **changes)
    first, ours = run_library(agent, VECTORS)
    theirs, twin = run_reference(agent, first, VECTORS)
    if policy == "softmax":
        assert twin.smallest_gap > 5e-6, "two actions tie in single precision: take another seed"
        np.testing.assert_array_equal(ours.action, theirs.action)
    errors = distance(ours, theirs, first)
    assert max(errors.values()) < 1e-5, errors


# The comparison is worth something only if it can fail.


class Remembers(reference.ActorCritic):
    """Carries the actor's traces into the next episode."""

    def forget(self):
        kept = getattr(self, "z_actor", None)
        super().forget()
        if kept is not None:
            self.z_actor, self.discount = kept, self.s.gamma
            self.z_w = [np.zeros_like(p) for p in self.w]


E = VECTORS.transitions


def _flawed(**changes):
    return VECTORS._replace(transitions=E._replace(**changes))


FLAWS: dict[str, Any] = {
    "another regulariser": ({"regularize": "parameters"}, VECTORS, reference.ActorCritic),
    "less entropy": ({"entropy_bonus": 0.009}, VECTORS, reference.ActorCritic),
    "the critic's kappa": ({"actor_kappa": 2.0}, VECTORS, reference.ActorCritic),
    "traces one per cent shorter": ({"lam": 0.792}, VECTORS, reference.ActorCritic),
    "traces across an end": ({}, VECTORS, Remembers),
    "truncation taken for termination": (
        {},
        _flawed(terminated=E.terminated | E.truncated),
        reference.ActorCritic,
    ),
    "bootstrap from the next episode": (
        {},
        _flawed(next_observation=E.observation),
        reference.ActorCritic,
    ),
}


@pytest.fixture(scope="module")
def right():
    agent = make("gradient-ac", "gaussian")
    first = agent.init(jax.random.key(5), jnp.asarray(VECTORS.first))
    return first, run_reference(agent, first, VECTORS)[0]


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_noticed(flaw, right):
    first, trajectory = right
    changes, recording, twin = FLAWS[flaw]
    flawed, _ = run_reference(make("gradient-ac", "gaussian", **changes), first, recording, twin)
    assert distance(flawed, trajectory, first)["actor"] > 1e-4


# The actor's gradient.


def objective(policy, params, x, action, weight):
    """log π(action) + weight · entropy, by scipy."""
    outputs = reference.q_values(params, x)
    if policy == "softmax":
        p = reference.softmax(outputs)
        return np.log(p[action]) + weight * stats.entropy(p)
    mean, std = reference.gaussian(outputs)
    normal = stats.norm(mean, std)
    return normal.logpdf(action).sum() + weight * normal.entropy().sum()


@pytest.mark.parametrize("reward", [3.0, -3.0])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_actors_gradient_is_the_slope_of_its_objective(policy, reward):
    """After one step the actor's trace is the gradient; central differences in double precision."""
    agent = make("stream-ac", policy, entropy_bonus=0.3)
    state = agent.init(jax.random.key(2), jnp.asarray(VECTORS.first))
    # Not the first observation: normalised, it is 0, and most of the gradient with it.
    x = jnp.asarray(np.random.default_rng(0).normal(size=SIZE), jnp.float32)
    state, _ = agent.act(state._replace(observation=x), jax.random.key(3))
    transition = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), E)._replace(
        reward=jnp.float32(reward)
    )
    learned, metrics = agent.update(state, transition, jax.random.key(4))
    assert np.sign(metrics["td_error"]) == np.sign(reward)
    params = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(state.actor)]
    weight = 0.3 * np.sign(reward)
    action, step = np.asarray(state.action, np.float64 if policy == "gaussian" else int), 1e-6
    for leaf, slope in zip(params, jax.tree.leaves(learned.actor_traces.w), strict=True):
        for place in range(leaf.size):
            value, ends = leaf.flat[place], []
            for sign in (1, -1):
                leaf.flat[place] = value + sign * step
                ends.append(objective(policy, params, np.asarray(x), action, weight))
            leaf.flat[place] = value
            expected = (ends[0] - ends[1]) / (2 * step)
            assert np.ravel(slope)[place] == pytest.approx(expected, rel=1e-4, abs=1e-5)


# As a program.


@functools.cache
def traceable(outputs):
    """A network that a compiled program can initialise."""
    return from_equinox(
        lambda key, s: streaming_mlp(SIZE, outputs, hidden=(4,), sparsity=s, key=key)
    )


def test_settings_in_a_vmap_are_the_settings_alone():
    """Every number of the settings may differ from run to run of one program."""
    recording = record(12, (SIZE,), np.float32, seed=1)
    base = PRESETS["gradient-ac"]
    names = [f.name for f in dataclasses.fields(base) if not f.metadata]
    rng = np.random.default_rng(0)
    # Half of its default or more; β and all else at least a little.
    rows = [
        {name: np.float32(rng.uniform(0.5, 1) * max(getattr(base, name), 0.1)) for name in names}
        for _ in range(2)
    ]
    agents = [
        StreamAC(dataclasses.replace(base, **row), gaussian(traceable(4)), traceable(1))
        for row in rows
    ]

    def run(agent):
        return run_final(agent, recording)

    together = jax.jit(jax.vmap(run))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents))
    alone = jax.jit(run)
    for i, agent in enumerate(agents):
        ours = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        for a, b in zip(*map(jax.tree.leaves, (ours, alone(agent))), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def run_final(agent, recording):
    def step(state, inputs):
        transition, act_key, update_key = inputs
        state, _ = agent.act(state, act_key)
        return agent.update(state, transition, update_key)

    first = agent.init(jax.random.key(5), jnp.asarray(recording.first))
    inputs = (recording.transitions, recording.act_keys, recording.update_keys)
    return jax.lax.scan(step, first, inputs)[0]


def test_what_an_interruption_and_a_look_change():
    agent = make("gradient-ac", "gaussian")
    state = run_final(agent, record(5, (SIZE,), np.float32, seed=4))
    other = jnp.asarray(VECTORS.first) + 1.0
    assert state.traces.discount > 0
    left = agent.interrupt(state, other)
    assert left.traces.discount == left.actor_traces.discount == 0
    stats_of_both = left.normalizer.observations, state.normalizer.observations
    assert stats_of_both[0].samples == stats_of_both[1].samples + 1
    np.testing.assert_array_equal(left.observation, normalize.normalize(stats_of_both[0], other))
    jax.tree.map(np.testing.assert_array_equal, (left.actor, left.w), (state.actor, state.w))
    # The best action is the mean, stretched from [-1, 1] to [-1, 1] and [-2, 6], and clipped.
    seen = normalize.normalize(stats_of_both[1], other)
    mean = np.asarray(agent.policy(state.actor, seen).mean)
    greedy = agent.greedy_action(state, other)
    np.testing.assert_allclose(greedy, np.clip([mean[0], 2 + 4 * mean[1]], [-1, -2], [1, 6]))
    drawn = jax.vmap(lambda key: agent.sampled_action(state, other, key))(
        jax.random.split(jax.random.key(0), 50)
    )
    assert len(np.unique(drawn[:, 0])) > 10
    assert (drawn >= jnp.array([[-1.0, -2.0]])).all()
    assert (drawn <= jnp.array([[1.0, 6.0]])).all()


def test_a_lost_policy_has_diverged():
    agent = make("stream-ac", "gaussian")
    metrics = {"td_error": np.zeros((2, 3)), "entropy": np.array([[1, 2, np.nan], [1, 2, 3]])}
    np.testing.assert_array_equal(agent.diverged(metrics).any(axis=1), [True, False])


def test_networks_that_do_not_fit_are_refused():
    observations = Box(-np.inf, np.inf, (SIZE,))
    actions = Box(-1.0, 1.0, (ENTRIES,))
    agent = StreamAC(PRESETS["stream-ac"], gaussian(traceable(4)), traceable(1))
    agent.check_spaces(observations, actions)
    with pytest.raises(ValueError, match=r"\(4,\) is accepted: a mean .*a number for each deviat"):
        dataclasses.replace(agent, policy=gaussian(traceable(2))).check_spaces(
            observations, actions
        )
    with pytest.raises(ValueError, match="policy chooses among 3 actions; there are 2"):
        make("stream-ac", "softmax").check_spaces(observations, Discrete(2))
    with pytest.raises(ValueError, match="critic"):
        dataclasses.replace(agent, critic=traceable(2)).check_spaces(observations, actions)
