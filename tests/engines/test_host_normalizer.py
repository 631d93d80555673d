"""Statistics kept in NumPy for a rollout are those that the agent keeps by itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.agents import PPO, DiscretePolicy, PPOConfig, from_equinox
from eligrad.agents.streaming import Transition
from eligrad.engines.host_normalizer import HostNormalizer
from eligrad.envs.host import HostTransition
from eligrad.nets import tanh_mlp

RUNS, STEPS = 2, 60


def agent(envs, shape):
    size = int(np.prod(shape))
    network = from_equinox(lambda key, _: tanh_mlp(size, 2, hidden=(4,), output_gain=1.0, key=key))
    config = PPOConfig(num_envs=envs, rollout=8 * envs, minibatch_size=4)
    return PPO(config, DiscretePolicy(network, 2), network)


def world(rng, envs, shape):
    copies = RUNS * envs
    terminated, truncated = rng.random((2, copies)) < 0.1
    observation = 1000.0 + rng.normal(size=(copies, *shape)) * np.arange(
        1, 1 + np.prod(shape)
    ).reshape(shape)
    ended = (terminated | truncated).reshape(copies, *[1] * len(shape))
    following = np.where(ended, observation + rng.normal(size=observation.shape), observation)
    return HostTransition(
        observation, 5 + rng.normal(size=copies), terminated, truncated, following
    )


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
@pytest.mark.parametrize("envs", [1, 3])
def test_rows_and_statistics_are_the_agents_own(envs, shape):
    rng, one = np.random.default_rng(0), agent(envs, shape)
    gammas = jnp.array([0.9, 0.99])
    agents = jax.vmap(
        lambda g: PPO(PPOConfig(gamma=g, num_envs=envs, rollout=64 * envs), one.policy, one.critic)
    )(gammas)
    first = jnp.asarray(rng.normal(size=(RUNS, envs, *shape)).astype(np.float32))
    keys = jax.random.split(jax.random.key(0), RUNS)
    init = jax.jit(jax.vmap(lambda agent, key, obs: agent.init(key, obs).normalizer))
    theirs = init(agents, keys, first)
    normalize = jax.jit(jax.vmap(lambda agent, *seen: agent.normalize(*seen)))
    ours = HostNormalizer(theirs, np.asarray(gammas))
    size = int(np.prod(shape))
    ends = 0
    for step in range(STEPS):
        if step % 20 == 10:  # as at the end of a rollout
            ours = HostNormalizer(ours.state(), np.asarray(gammas))
        answer = world(rng, envs, shape)
        by_run = [jnp.asarray(np.float32(x)).reshape(RUNS, envs, *x.shape[1:]) for x in answer]
        observation, reward, terminated, truncated, following = by_run
        theirs, seen = normalize(
            agents,
            theirs,
            Transition(reward, terminated > 0, truncated > 0, following, observation),
        )
        row = np.empty((RUNS, envs, size + 1), np.float32)
        with np.errstate(all="ignore"):  # as in the engine
            led_to = ours.normalize(answer, row)
        ends += led_to is not None
        assert (led_to is None) == (not (answer.terminated | answer.truncated).any())
        for mine, wanted in (
            (ours.observations(row), seen.observation),
            (row[..., -1], seen.reward),
            (ours.observations(row if led_to is None else led_to), seen.next_observation),
        ):
            # Float32 keeps six digits of an observation of 1000 ± 1.
            np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-3)
    assert ends > 5
    for mine, wanted in zip(jax.tree.leaves(ours.state()), jax.tree.leaves(theirs), strict=True):
        assert mine.shape == wanted.shape
        assert mine.dtype == wanted.dtype
    found, wanted = ours.state(), theirs
    for mine, other in ((found.observations, wanted.observations),
                        (found.rewards.stats, wanted.rewards.stats)):  # fmt: skip
        np.testing.assert_array_equal(mine.samples, other.samples)
        np.testing.assert_allclose(mine.mean, other.mean, rtol=1e-6)
        np.testing.assert_allclose(mine.population_variance, other.population_variance, rtol=1e-4)
    np.testing.assert_allclose(found.rewards.trace, wanted.rewards.trace, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["observation", "next_observation", "reward"])
def test_what_is_no_number_shows_in_its_run_alone(bad, field):
    rng, one = np.random.default_rng(1), agent(1, (3,))
    state = jax.vmap(lambda obs: one.init(jax.random.key(0), obs).normalizer)(jnp.ones((2, 1, 3)))
    normalizer = HostNormalizer(state, np.array([0.9, 0.9]))
    answer = world(rng, 1, (3,))
    answer.terminated[:] = True  # so that both observations count
    getattr(answer, field)[1] = bad
    row = np.empty((2, 1, 4), np.float32)
    with np.errstate(all="ignore"):
        following = normalizer.normalize(answer, row)
    assert following is not None
    sound = np.isfinite([row, following]).all(axis=(0, 2, 3))
    np.testing.assert_array_equal(sound, [True, False])
