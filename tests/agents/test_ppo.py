"""PPO, update by update, against an independent program in double precision."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import PPO, GradientPPO, GradientPPOConfig, PPOConfig, Transition
from tests.agents import numpy_ppo
from tests.agents import ppo_cases as cases

pytestmark = pytest.mark.usefixtures("quickest_compilation")

SMALL = PPOConfig(
    gamma=0.9,
    lam=0.8,
    actor_step_size=0.03,
    critic_step_size=0.02,
    value_clip=0.1,
    entropy_bonus=0.05,
    max_gradient_norm=0.3,
    rollout=24,
    num_envs=1,
    epochs=3,
    minibatch_size=8,
)
"""Steps so large that ratios and values leave their clips."""


def changed(**settings) -> PPOConfig:
    return dataclasses.replace(SMALL, **settings)


def assert_equal(config, policy):
    """All parameters by how far they moved, and all that is told of each update.

    In single precision Adam's 1 - 0.999 is wrong by 1e-5, and so are all steps.
    """
    first, ours = cases.run_library(config, policy)
    theirs = cases.run_reference(config, policy, first)
    errors = cases.distances(ours, theirs, first)
    assert max(errors.values()) < 5e-5, errors
    for (_, told), (_, tells) in zip(ours, theirs, strict=True):
        for name, number in tells.items():
            assert told[name] == pytest.approx(number, rel=2e-4, abs=1e-5), name
    return theirs[-1][1]


@pytest.mark.parametrize(
    ("policy", "num_envs"),
    [
        ("gaussian", 1),
        ("discrete", 4),
        pytest.param("gaussian", 4, marks=pytest.mark.nightly),
        pytest.param("discrete", 1, marks=pytest.mark.nightly),
    ],
)
def test_whole_updates(policy, num_envs):
    told = assert_equal(changed(num_envs=num_envs), policy)
    assert 0.1 < told["clip_fraction"] < 0.9  # the clip matters, and is not all
    assert told["actor_gradient_norm"] > 0.3
    assert told["critic_gradient_norm"] > 0.3


@pytest.mark.parametrize(
    "settings",
    [
        {"value_clip": 0.0},
        {"max_gradient_norm": 0.0},
        {"entropy_bonus": 0.0, "clip": 0.05},
        {"gamma": 1.0, "lam": 1.0},
        {"lam": 0.0},
    ],
)
def test_settings(settings):
    assert_equal(changed(**settings), "gaussian")


def test_an_update_ends_where_the_policy_has_moved_far_enough():
    assert 0 < assert_equal(changed(target_kl=0.02), "gaussian")["applied"] < 1


def test_step_sizes_fall_to_nothing():
    """Over three rollouts and a half; the reference sees two of them, and then they are over."""
    assert_equal(changed(anneal_steps=84.0), "gaussian")
    agent = cases.agent(changed(anneal_steps=84.0), "gaussian")
    state = cases.beginning(agent)._replace(step=jnp.int32(84))
    rollout = cases.as_jax(cases.rollout(agent.config, "gaussian"))
    after, _ = cases.LEARN(agent, state, rollout, jax.random.key(0))
    assert after.step == 84 + 24
    for old, new in zip(cases.leaves(state.networks), cases.leaves(after.networks), strict=True):
        np.testing.assert_array_equal(old, new)


# The comparison is worth something only if it can fail.


def _ended(rows):
    return rows.terminated | rows.truncated


def _from_next_episode(rows):
    following = np.concatenate([rows.observation[1:], rows.next_observation[-1:]])
    return rows._replace(next_observation=following)


ROLLOUT_FLAWS = {
    "truncation taken for termination": lambda rows: rows._replace(terminated=_ended(rows)),
    "termination taken for truncation": lambda rows: rows._replace(
        terminated=rows.terminated & False, truncated=_ended(rows)
    ),
    "errors flow across a truncation": lambda rows: rows._replace(truncated=rows.truncated & False),
    "bootstrap from the next episode": _from_next_episode,
}
SETTING_FLAWS = {
    "λ one per cent shorter": {"lam": 0.792},
    "another clip": {"clip": 0.19},
    "values not clipped": {"value_clip": 0.0},
    "no entropy": {"entropy_bonus": 0.0},
    "gradients not shrunk": {"max_gradient_norm": 0.0},
    "steps that fall": {"anneal_steps": 1000.0},
}


@pytest.fixture(scope="module")
def right():
    first = cases.beginning(cases.agent(SMALL, "gaussian"))
    return first, cases.run_reference(SMALL, "gaussian", first)


@pytest.mark.parametrize("flaw", sorted(ROLLOUT_FLAWS))
def test_a_flawed_rollout_is_noticed(flaw, right):
    first, theirs = right
    flawed = cases.run_reference(SMALL, "gaussian", first, ROLLOUT_FLAWS[flaw])
    assert max(cases.distances(flawed, theirs, first).values()) > 1e-3


@pytest.mark.parametrize("flaw", sorted(SETTING_FLAWS))
def test_a_flawed_setting_is_noticed(flaw, right):
    first, theirs = right
    flawed = cases.run_reference(changed(**SETTING_FLAWS[flaw]), "gaussian", first)
    assert max(cases.distances(flawed, theirs, first).values()) > 1e-3


def test_another_epsilon_is_noticed(right, monkeypatch):
    first, theirs = right
    monkeypatch.setattr(numpy_ppo, "EPSILON", 1e-8)
    flawed = cases.run_reference(SMALL, "gaussian", first)
    assert max(cases.distances(flawed, theirs, first).values()) > 1e-4


def differences(function, params):
    """The gradient of a function of a list of arrays, by central differences."""
    gradient, step = [np.zeros_like(p) for p in params], 1e-6
    for leaf, slope in zip(params, gradient, strict=True):
        for place in np.ndindex(leaf.shape):
            kept, ends = leaf[place], []
            for sign in (1, -1):
                leaf[place] = kept + sign * step
                ends.append(function())
            leaf[place] = kept
            slope[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("policy", ["gaussian", "discrete"])
def test_hand_written_gradients_are_gradients(policy):
    state = cases.beginning(cases.agent(SMALL, policy))
    actor, critic = cases.leaves(state.networks.actor), cases.leaves(state.networks.critic)
    x = np.array([0.3, -1.2, 0.8])
    action = 2 if policy == "discrete" else np.array([0.4, -0.7])
    kind = cases.REFERENCES[policy]
    pairs = [
        (numpy_ppo.value_gradient(critic, x), critic, lambda: numpy_ppo.value(critic, x)),
        (
            kind(actor).log_prob_gradient(x, action),
            actor,
            lambda: kind(actor).log_prob(x, action),
        ),
        (kind(actor).entropy_gradient(x), actor, lambda: kind(actor).entropy(x)),
    ]
    for by_hand, params, function in pairs:
        for ours, theirs in zip(by_hand, differences(function, params), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-8)


# Which transitions are learned from.


def minibatches_of(kind: type, config, policy="discrete"):
    """The rewards of all minibatches of one update, in the order in which they come."""
    seen = []

    class Watched(kind):
        """Looks on, and learns nothing."""

        def _loss(self, networks, batch):
            jax.debug.callback(seen.append, batch.rollout.reward, ordered=True)
            return jnp.zeros(()), {"approximate_kl": jnp.zeros(())}

        def _move(self, networks, optimizers, gradient, step):
            return networks, optimizers

    jax.tree_util.register_dataclass(
        Watched, data_fields=["config"], meta_fields=["policy", "critic"]
    )
    agent = Watched(config, cases.POLICIES[policy], cases.CRITIC)
    time = config.rollout // config.num_envs
    numbers = np.arange(config.rollout, dtype=np.float32).reshape(time, config.num_envs)
    rollout = cases.rollout(config, policy)._replace(reward=numbers)
    jax.block_until_ready(
        cases.LEARN(agent, cases.beginning(agent), cases.as_jax(rollout), jax.random.key(3))
    )
    jax.effects_barrier()
    return [np.asarray(rewards).astype(int) for rewards in seen]


def test_every_transition_once_in_each_epoch():
    config = changed(num_envs=2)
    seen = minibatches_of(PPO, config)
    assert [part.shape for part in seen] == 9 * [(8,)]
    epochs = np.reshape(seen, (3, 24))
    for epoch in epochs:
        assert sorted(epoch) == list(range(24))
    assert len({tuple(epoch) for epoch in epochs}) == 3  # another order each time


def test_every_sequence_once_in_each_epoch():
    config = GradientPPOConfig(rollout=24, num_envs=2, epochs=3, minibatch_size=8, sequence=4)
    seen = minibatches_of(GradientPPO, config)
    assert [part.shape for part in seen] == 9 * [(2, 4)]
    for part in seen:
        # Step t of environment e has number 2 t + e: sequences stay in one environment.
        np.testing.assert_array_equal(np.diff(part, axis=1), 2)
    epochs = np.reshape(seen, (3, 24))
    for epoch in epochs:
        assert sorted(epoch) == list(range(24))
    assert len({tuple(epoch) for epoch in epochs}) == 3


# What is seen of the world.


def test_observations_and_rewards_are_normalised_as_they_come():
    """Each observation that is acted on counts once; none of a step before the step itself."""
    envs, gamma = 3, 0.9
    agent = cases.agent(changed(num_envs=envs, gamma=gamma), "discrete")
    rng = np.random.default_rng(0)

    def observe():
        return rng.normal([3.0, -1.0, 0.2], [1.0, 5.0, 0.1], (envs, cases.SIZE))

    first = observe().astype(np.float32)
    state = agent.init(jax.random.key(0), jnp.asarray(first))
    normalizer, counted, traces, trace = state.normalizer, [*first], [], np.zeros(envs)
    normalize = jax.jit(agent.normalize)

    def normal(x):
        sigma = np.std(counted, axis=0, ddof=1)
        return np.clip((x - np.mean(counted, axis=0)) / np.sqrt(sigma**2 + 1e-8), -10, 10)

    np.testing.assert_allclose(state.observation, normal(first), rtol=1e-4, atol=1e-5)
    clipped = 0
    for number in range(40):
        terminated, truncated = rng.random((2, envs)) < 0.1
        observation, final = observe().astype(np.float32), observe().astype(np.float32)
        reward = rng.normal(0.2, 1.0, envs).astype(np.float32)
        if number == 30:  # far beyond all that was before
            final[0], reward[1] = 100.0, 100.0
        normalizer, seen = normalize(
            normalizer,
            Transition(
                *map(jnp.asarray, (reward, terminated, truncated, final, observation)),
            ),
        )
        trace = gamma * trace * ~(terminated | truncated) + reward
        traces += [*trace]
        counted += [*observation]
        scale = np.std(traces, ddof=1)
        np.testing.assert_allclose(seen.reward, np.clip(reward / scale, -10, 10), rtol=1e-4)
        np.testing.assert_allclose(seen.observation, normal(observation), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(seen.next_observation, normal(final), rtol=1e-3, atol=1e-4)
        clipped += np.sum(np.abs(seen.next_observation) == 10)
    assert clipped > 0
    # Evaluation looks with statistics as they are.
    state = state._replace(normalizer=normalizer)
    x = observe()[0]
    probabilities, _ = numpy_ppo.Softmax(cases.leaves(state.networks.actor))._probabilities(
        normal(x)
    )
    action = agent.greedy_action(state, jnp.asarray(x, jnp.float32))
    assert action == np.argmax(probabilities)


def test_other_episodes():
    """What was under way is given up: its reward trace ends, all statistics go on."""
    agent = cases.agent(changed(num_envs=2), "discrete")
    state = agent.init(jax.random.key(0), jnp.ones((2, 3)))
    trace = state.normalizer.rewards._replace(trace=jnp.array([1.0, 2.0]))
    state = state._replace(normalizer=state.normalizer._replace(rewards=trace))
    after = agent.interrupt(state, jnp.array([[2.0, 0.0, 1.0], [4.0, 0.0, 1.0]]))
    assert after.normalizer.observations.samples == 4
    np.testing.assert_allclose(after.normalizer.observations.mean, [2.0, 0.5, 1.0])
    np.testing.assert_array_equal(after.normalizer.rewards.trace, [0.0, 0.0])
    # Of 1, 1, 2, 4 the mean is 2, and the sample variance 2.
    np.testing.assert_allclose(after.observation[:, 0], [0.0, np.sqrt(2)], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 1.1}, r"gamma is 1.1; values in \[0, 1\]"),
        ({"value_clip": -0.1}, "value_clip is -0.1"),
        ({"actor_step_size": float("nan")}, "actor_step_size is nan"),
        ({"rollout": 0}, "rollout is 0; a whole number of at least 1"),
        ({"epochs": 0}, "epochs is 0; a whole number"),
        ({"num_envs": 5}, "num_envs is 5 and rollout 24; num_envs must divide rollout"),
        ({"minibatch_size": 7}, "minibatch_size is 7 and rollout 24; .* must divide"),
        ({"minibatch_size": 48}, "minibatch_size is 48 and rollout 24; .* must divide"),
        ({"minibatch_size": 1}, "minibatch_size is 1"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        changed(**settings).check()
