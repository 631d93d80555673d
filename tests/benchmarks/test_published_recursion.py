"""The published code's recursion for ∇D as written down, in Gradient PPO, and its exact mean."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import published_recursion as published
from eligrad import problems, rules
from eligrad.agents.policies import over_batch
from tests.agents.test_gradient_ppo import GRADIENT, changed, one_minibatch
from tests.engines.tiny import nightly

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def by_products(before, after, discount, lam, truncated):
    """Σ_k Π_{j<k} (γ λ g)_{t+j} g_{t+k}, up to the end of the episode, for every t; in NumPy."""
    g = discount[:, None] * after - before
    decay = np.where(truncated, 0.0, discount * lam)
    sums = np.zeros_like(g)
    for t in range(len(g)):
        weight = np.ones_like(g[t])
        for k in range(t, len(g)):
            sums[t] += weight * g[k]
            weight = weight * decay[k] * g[k]
    return sums


def test_the_recursion_is_a_sum_of_products():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 12, 3)).astype(np.float32)
    discount = np.where(np.arange(12) == 3, 0.0, 0.9).astype(np.float32)
    truncated = np.arange(12) == 7
    given = published.published_gradients(
        *map(jnp.asarray, (before, after, discount)), 0.8, truncated_t=jnp.asarray(truncated)
    )
    np.testing.assert_allclose(
        given, by_products(before, after, discount, 0.8, truncated), rtol=2e-5, atol=1e-5
    )


@pytest.mark.parametrize("rule", ["tdrc", nightly("tdc"), nightly("gtd2")])
def test_nothing_but_the_recursion_differs_from_gradient_ppo(rule, monkeypatch):
    right, networks, batch, _ = one_minibatch(changed(rule=rule))
    wrong = published.PublishedGradientPPO(right.config, right.policy, right.critic)
    expected, found = (GRADIENT(agent, networks, batch) for agent in (right, wrong))
    seen = batch.rollout
    gradient = over_batch(jax.grad(lambda w, x: right.critic.apply(w, x)[0]), 2)
    before, after = (
        gradient(networks.critic, x) for x in (seen.observation, seen.next_observation)
    )
    h = np.asarray(right._h(networks.auxiliary, seen.observation, None))
    discount = np.where(np.asarray(seen.terminated), 0.0, 0.9)
    for name in ("actor", "auxiliary"):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
            getattr(found, name),
            getattr(expected, name),
        )

    def by_hand(ours, theirs, first, second):
        """The critic's gradient has H G in place of H ∇D, which is the sum without products."""
        first, second = (np.asarray(x, np.float64).reshape(*h.shape, -1) for x in (first, second))
        gap = 0.0
        for i in range(len(h)):
            truncated = np.asarray(seen.truncated[i])
            wrong = by_products(first[i], second[i], discount[i], 0.8, truncated)
            after, right = 0.0, np.zeros_like(wrong)
            for t in reversed(range(h.shape[1])):
                decay = 0.0 if truncated[t] else 0.8 * discount[i, t]
                after = discount[i, t] * second[i, t] - first[i, t] + decay * after
                right[t] = after
            gap = gap + h[i] @ (wrong - right) / h.size
        assert np.abs(gap).max() > 1e-3
        np.testing.assert_allclose(np.ravel(ours - theirs), gap, atol=2e-5)

    jax.tree.map(by_hand, found.critic, expected.critic, before, after)
    # With the right recursion in its place it is Gradient PPO.
    monkeypatch.setattr(published, "published_gradients", rules.lambda_error_gradients)
    again = jax.jit(jax.grad(wrong._loss, has_aux=True))(networks, batch)[0]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), again, expected
    )


@pytest.mark.parametrize("name", ["random_walk_5", "baird"])
def test_the_mean_is_that_of_samples(name):
    """Sampled sequences, ratios included, against the linear recursion of the means."""
    problem, lam, length = problems.get(name), 0.3, 4
    x = np.asarray(problem.observe(jnp.arange(problem.mdp.num_successors)))
    # Windows of one long stream: each state's sequences begin wherever it was visited.
    stream = problems.sample(problem.mdp, jax.random.key(0), 120_000)
    state, successor, discount, ratio = (
        np.asarray(each).reshape(-1, length)
        for each in (stream.state, stream.next_state, stream.discount, stream.ratio)
    )
    carried, total = 0.0, np.zeros((2, problem.mdp.num_states, x.shape[1]))
    count = np.zeros(problem.mdp.num_states)
    for t in reversed(range(length)):
        g = discount[:, t, None] * x[successor[:, t]] - x[state[:, t]]
        carried = ratio[:, t, None] * (g + discount[:, t, None] * lam * g * carried)
        for s in range(problem.mdp.num_states):
            rows = carried[state[:, t] == s]
            total[:, s] += rows.sum(axis=0), (rows**2).sum(axis=0)
            count[s] += len(rows)
    mean = total[0] / count[:, None]
    error = np.sqrt((total[1] / count[:, None] - mean**2) / count[:, None])
    exact = published.mean_gradients(problem, lam, published=True, length=length)
    right = published.mean_gradients(problem, lam, published=False, length=length)
    # 5 standard errors; of steps that depend on each other a little.
    assert np.all(np.abs(mean - exact) <= 5 * error + 1e-6)
    assert np.any(np.abs(mean - right) > 10 * error + 1e-6)


@pytest.mark.parametrize("name", ["random_walk_5", "boyan_chain", "baird", "random_mdp"])
@pytest.mark.parametrize("rule", published.RULES)
def test_the_right_recursion_has_the_certificate_of_the_library(name, rule):
    problem = problems.get(name)
    ours = published.slowest_mode(problem, rule, 0.9, published=False, length=4_000)
    known = problems.stability(problem, rule, 0.9).slowest
    # The ends of the sequences vanish in the mean as 1 / length.
    assert ours == pytest.approx(known, rel=0.01)
    # One step has nothing to carry: the two recursions are one.
    one = {
        which: published.slowest_mode(problem, rule, 0.9, published=which, length=1)
        for which in (False, True)
    }
    assert one[False] == pytest.approx(one[True], rel=1e-9)
    both = [published.slowest_mode(problem, rule, 0.9, published=p) for p in (False, True)]
    assert both[0] != pytest.approx(both[1], rel=1e-3)
