"""Policies against scipy's distributions, and actions as environments take them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from eligrad.agents import DiscretePolicy, GaussianPolicy, Network
from eligrad.agents.policies import (
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    log_softplus,
    over_batch,
)

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 2, (4, 2, 5)).astype(np.float32)
MEAN = RNG.normal(0, 2, (4, 2, 3)).astype(np.float32)
LOG_STD = RNG.normal(-0.5, 1, (4, 2, 3)).astype(np.float32)


def constant(output):
    """A network without parameters, whose output is always the same."""
    return Network(lambda key, sparsity: (), lambda params, x: jnp.asarray(output, jnp.float32))


def probabilities(logits):
    weights = np.exp(logits.astype(np.float64))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_categorical():
    ours = Categorical(jnp.asarray(LOGITS))
    p = probabilities(LOGITS)
    for action in range(5):
        chosen = ours.log_prob(jnp.full((4, 2), action, jnp.int32))
        np.testing.assert_allclose(chosen, np.log(p[..., action]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.entropy(), stats.entropy(p, axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(ours.mode(), LOGITS.argmax(axis=-1))


def test_several_choices_are_independent():
    """Every combination, enumerated."""
    logits = LOGITS[..., :5]
    ours = MultiCategorical(jnp.asarray(logits), (2, 3))
    one, other = probabilities(logits[..., :2]), probabilities(logits[..., 2:])
    joint = one[..., :, None] * other[..., None, :]
    for first in range(2):
        for second in range(3):
            action = jnp.broadcast_to(jnp.array([first, second], jnp.int32), (4, 2, 2))
            wanted = np.log(joint[..., first, second])
            np.testing.assert_allclose(ours.log_prob(action), wanted, rtol=1e-5, atol=1e-6)
    entropy = stats.entropy(joint.reshape(4, 2, 6), axis=-1)
    np.testing.assert_allclose(ours.entropy(), entropy, rtol=1e-5)
    np.testing.assert_array_equal(
        ours.mode(), np.stack([one.argmax(axis=-1), other.argmax(axis=-1)], axis=-1)
    )
    policy = DiscretePolicy(constant(logits[0, 0]), 5, (2, 3))
    noise = policy.noise(jax.random.key(0), (20_000,))
    samples = jax.vmap(policy((), jnp.zeros(1)).sample)(noise)
    counts = np.zeros((2, 3))
    np.add.at(counts, tuple(np.asarray(samples).T), 1)
    np.testing.assert_allclose(counts / 20_000, joint[0, 0], atol=0.015)


def test_unlikely_choices_have_finite_logarithms_and_gradients():
    logits = jnp.array([0.0, -200.0, 300.0])

    def both(logits):
        policy = Categorical(logits)
        return policy.log_prob(jnp.int32(1)) + policy.entropy()

    value, gradient = jax.value_and_grad(both)(logits)
    assert value == pytest.approx(-500.0)
    np.testing.assert_allclose(gradient, [0.0, 1.0, -1.0], atol=1e-6)


def test_gaussian():
    ours = DiagonalGaussian(jnp.asarray(MEAN), jnp.asarray(LOG_STD))
    theirs = stats.norm(MEAN.astype(np.float64), np.exp(LOG_STD.astype(np.float64)))
    action = RNG.normal(0, 2, MEAN.shape).astype(np.float32)
    np.testing.assert_allclose(
        ours.log_prob(jnp.asarray(action)), theirs.logpdf(action).sum(axis=-1), rtol=1e-5
    )
    np.testing.assert_allclose(ours.entropy(), theirs.entropy().sum(axis=-1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ours.mode(), MEAN)


# Samples: fixed keys, and bounds that a right sampler would pass in all but one of 10,000 draws.

SAMPLES = 20_000
UNLIKELY = 1e-4


def test_logarithms_of_softplus_deviations():
    """Also where single precision has no such deviation, and where it is as good as linear."""
    x = np.array([-300.0, -90.0, -15.1, -14.9, -3.0, 0.0, 2.0, 50.0])
    value, slope = jax.vmap(jax.value_and_grad(log_softplus))(jnp.asarray(x, jnp.float32))
    softplus = np.logaddexp(0, x)
    np.testing.assert_allclose(value, np.log(softplus), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(slope, 1 / (1 + np.exp(-x)) / softplus, rtol=1e-6)


def test_choices_are_drawn_as_often_as_they_are_likely():
    logits = jnp.array([0.5, -1.0, 0.0, 1.5])
    policy = DiscretePolicy(constant(logits), 4)
    noise = policy.noise(jax.random.key(0), (SAMPLES,))
    assert noise.shape == (SAMPLES, 4)
    drawn = jax.vmap(Categorical(logits).sample)(noise)
    expected = SAMPLES * probabilities(np.asarray(logits))
    assert stats.chisquare(np.bincount(drawn, minlength=4), expected).pvalue > UNLIKELY


def test_gaussian_actions_have_their_moments():
    policy = GaussianPolicy(constant([0.5, -2.0]), (-1.0, -1.0), (1.0, 1.0), (2,))
    distribution = policy(policy.init(jax.random.key(0)), jnp.zeros(3))
    np.testing.assert_array_equal(distribution.log_std, [0.0, 0.0])
    distribution = distribution._replace(log_std=jnp.log(jnp.array([0.3, 2.0])))
    noise = policy.noise(jax.random.key(1), (SAMPLES,))
    assert noise.shape == (SAMPLES, 2)
    drawn = np.asarray(jax.vmap(distribution.sample)(noise), np.float64)
    for entry, mean, std in zip(drawn.T, (0.5, -2.0), (0.3, 2.0), strict=True):
        assert stats.kstest(entry, stats.norm(mean, std).cdf).pvalue > UNLIKELY
    assert stats.pearsonr(*drawn.T).pvalue > UNLIKELY


def test_noise_is_made_for_all_steps_at_once():
    for policy in (
        DiscretePolicy(constant([0.0, 0.0]), 2),
        GaussianPolicy(constant([0.0, 0.0]), (-1.0, -1.0), (1.0, 1.0), (2,)),
    ):
        noise = policy.noise(jax.random.key(0), (7, 3))
        assert noise.shape == (7, 3, 2)
        assert noise.dtype == jnp.float32
        assert len(np.unique(noise)) == noise.size


# To the environment.


def sent(low, high, shape, action):
    policy = GaussianPolicy(constant(np.zeros(len(low))), low, high, shape)
    return policy.to_environment(jnp.asarray(action, jnp.float32))


INFINITE = float("inf")


def test_bounded_actions_are_stretched_and_clipped():
    actions = [[-1.0, -1.0], [0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [-7.0, 7.0]]
    expected = [[-2.0, 0.0], [0.0, 5.0], [1.0, 7.5], [2.0, 10.0], [-2.0, 10.0]]
    np.testing.assert_allclose(sent((-2.0, 0.0), (2.0, 10.0), (2,), actions), expected)
    # One action alone, and a whole rollout of them.
    np.testing.assert_allclose(sent((-2.0, 0.0), (2.0, 10.0), (2,), actions[2]), expected[2])
    rollout = np.tile(actions, (3, 1, 1))
    np.testing.assert_allclose(
        sent((-2.0, 0.0), (2.0, 10.0), (2,), rollout), np.tile(expected, (3, 1, 1))
    )


def test_the_largest_bounds_that_there_are():
    """Their difference is no float32."""
    most = float(np.finfo(np.float32).max)
    ours = sent((-most,), (most,), (1,), [[-1.0], [0.0], [0.5], [3.0]])
    np.testing.assert_allclose(ours, [[-most], [0.0], [most / 2], [most]], rtol=1e-6)


def test_unbounded_actions_are_passed_on():
    actions = [[-100.0, 0.3]]
    ours = sent((-INFINITE, -INFINITE), (INFINITE, INFINITE), (2,), actions)
    np.testing.assert_array_equal(ours, np.float32(actions))


def test_half_bounded_actions_are_clipped_alone():
    actions = [[-3.0, -3.0], [0.5, 0.5], [3.0, 3.0]]
    ours = sent((0.0, -INFINITE), (INFINITE, 1.0), (2,), actions)
    np.testing.assert_array_equal(ours, [[0.0, -3.0], [0.5, 0.5], [3.0, 1.0]])


def test_actions_have_the_shape_of_the_environment():
    low, high = (0.0,) * 6, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    ours = sent(low, high, (2, 3), np.ones((4, 6)))
    assert ours.shape == (4, 2, 3)
    np.testing.assert_allclose(ours[1], np.reshape(high, (2, 3)))
    assert sent((0.0,), (2.0,), (), [[1.0], [-1.0]]).tolist() == [2.0, 0.0]


def test_choices_are_sent_as_they_are():
    policy = DiscretePolicy(constant([0.0, 0.0]), 2)
    action = jnp.array([1, 0], jnp.int32)
    assert policy.to_environment(action) is action


def test_over_batch():
    ours = over_batch(lambda params, x: params * x, 2)(jnp.float32(3.0), jnp.ones((2, 4)))
    np.testing.assert_array_equal(ours, 3 * np.ones((2, 4)))
