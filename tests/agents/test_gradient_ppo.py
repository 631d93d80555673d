"""Gradient PPO against the rules' explicit updates, and against a program in double precision."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import rules
from eligrad.agents import GradientPPO, GradientPPOConfig
from tests.agents import ppo_cases as cases
from tests.agents.test_ppo import assert_equal
from tests.engines.tiny import nightly

pytestmark = pytest.mark.usefixtures("quickest_compilation")

SMALL = GradientPPOConfig(
    gamma=0.9,
    lam=0.8,
    actor_step_size=0.03,
    critic_step_size=0.02,
    h_step_size=0.05,
    beta=0.7,
    entropy_bonus=0.05,
    max_gradient_norm=0.3,
    rollout=32,
    num_envs=2,
    epochs=2,
    minibatch_size=16,
    sequence=8,
)


def changed(**settings) -> GradientPPOConfig:
    return dataclasses.replace(SMALL, **settings)


@pytest.mark.parametrize(
    ("rule", "advantage", "importance_sampling"),
    [
        ("tdrc", "fresh", False),
        nightly("tdrc", "stale", True),
        nightly("tdrc", "stale", False),
        nightly("tdrc", "fresh", True),
        nightly("td", "fresh", False),
        nightly("td", "stale", True),
        nightly("gtd2", "fresh", False),
        nightly("gtd2", "stale", True),
        nightly("tdc", "fresh", False),
        nightly("tdc", "stale", True),
    ],
)
def test_whole_updates(rule, advantage, importance_sampling):
    """All parameters and all that is told, over all epochs of two updates."""
    config = changed(rule=rule, advantage=advantage, importance_sampling=importance_sampling)
    told = assert_equal(config, "gaussian")
    assert told["clip_fraction"] > 0.1  # the policy has moved: ratios matter


@pytest.mark.parametrize(
    ("h", "regularize"),
    [
        ("features", "output"),
        nightly("features", "parameters"),
        nightly("network", "head"),
        nightly("network", "output"),
        nightly("features", "head"),
    ],
)
def test_whole_updates_by_what_h_is_and_what_is_regularised(h, regularize):
    assert_equal(changed(h=h, regularize=regularize), "gaussian")


@pytest.mark.nightly
def test_whole_updates_of_discrete_actions():
    assert_equal(changed(num_envs=1), "discrete")


SEED = 25
"""Of a rollout whose sequences have ends of both kinds inside of them, and as their last step."""


def one_minibatch(config, **rows):
    """An agent, its networks, and all sequences of a rollout as the minibatch they are."""
    agent = cases.agent(config, "gaussian")
    assert isinstance(agent, GradientPPO)
    networks = cases.beginning(agent).networks
    rollout = cases.as_jax(cases.rollout(config, "gaussian", SEED)._replace(**rows))
    batch = jax.tree.map(agent._cut, agent._assess(networks, rollout))
    # Another policy has acted.
    rng = np.random.default_rng(0)
    shift = jnp.asarray(rng.normal(0, 0.5, batch.log_prob.shape), jnp.float32)
    return agent, networks, batch._replace(log_prob=batch.log_prob + shift), jnp.exp(-shift)


def test_the_policys_advantage_has_the_ratios_of_later_actions():
    """The ratio of the action itself is in the policy's loss already."""
    agent, networks, batch, ratio = one_minibatch(changed(importance_sampling=True))
    _, advantage, _ = agent._criticise(networks, batch, ratio)
    seen, c = batch.rollout, agent.config
    value, following, _ = agent._values_along(networks.critic, seen)
    discount = np.where(np.asarray(seen.terminated), 0.0, c.gamma)
    delta = np.asarray(seen.reward) + discount * np.asarray(following) - np.asarray(value)
    expected, after = np.zeros_like(delta), np.zeros(len(delta))
    for t in reversed(range(delta.shape[1])):
        decay = np.where(np.asarray(seen.truncated)[:, t], 0.0, c.lam * discount[:, t])
        later = np.asarray(ratio)[:, t + 1] if t + 1 < delta.shape[1] else 1.0
        expected[:, t] = delta[:, t] + decay * later * after
        after = expected[:, t]
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)


GRADIENT = jax.jit(lambda agent, *rest: jax.grad(agent._loss, has_aux=True)(*rest)[0])


@pytest.mark.parametrize(
    ("rule", "importance_sampling"),
    [("td", True), ("gtd2", True), ("tdc", True), ("tdrc", True)]
    + [nightly(rule, False) for rule in ("td", "gtd2", "tdc", "tdrc")],
)
def test_the_critic_moves_as_its_rule_says(rule, importance_sampling):
    """The gradient in one minibatch is minus the mean of the explicit updates of all steps."""
    config = changed(rule=rule, importance_sampling=importance_sampling)
    agent, networks, batch, ratio = one_minibatch(config)
    gradient = GRADIENT(agent, networks, batch)
    law = rules.get(rule)
    seen = batch.rollout
    for ends in (seen.terminated, seen.truncated & ~seen.terminated):
        assert ends[:, :-1].any()
        assert ends[:, -1].any()

    def updates(seen, ratio):
        options = {"lam": 0.8, "truncated_t": seen.truncated}
        if importance_sampling:
            options["rho_tm1"] = ratio
        if rule == "tdrc":
            options["beta"] = 0.7
        return rules.sequence_updates(
            law,
            networks.critic,
            networks.auxiliary,
            seen.observation,
            seen.reward,
            jnp.where(seen.terminated, 0.0, jnp.float32(0.9)),
            seen.next_observation,
            value_fn=lambda w, x: cases.CRITIC.apply(w, x)[0],
            auxiliary_fn=lambda theta, x: cases.CRITIC.apply(theta, x)[0],
            **options,
        )

    explicit = jax.jit(jax.vmap(updates))(seen, ratio)
    for tree, given in ((explicit.w, gradient.critic), (explicit.theta, gradient.auxiliary)):
        mean = jax.tree.map(lambda rows: -np.mean(rows, axis=(0, 1)), tree)
        size = np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(mean)))
        for ours, theirs in zip(jax.tree.leaves(given), jax.tree.leaves(mean), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6 * size, rtol=1e-5)


def test_h_learns_the_td_error_and_is_kept_small():
    """-(D - h) ∇h + β θ; and only TDRC keeps it small, whatever β is given."""
    gradients = {}
    for rule in ("gtd2", "tdc", "tdrc"):
        agent, networks, batch, _ = one_minibatch(changed(rule=rule, importance_sampling=True))
        gradients[rule] = GRADIENT(agent, networks, batch)
    theta = cases.leaves(networks.auxiliary)
    plain, regularised = (cases.leaves(gradients[rule].auxiliary) for rule in ("tdc", "tdrc"))
    for ours, bare, parameter in zip(regularised, plain, theta, strict=True):
        np.testing.assert_allclose(ours, bare + 0.7 * parameter, atol=1e-6)
    for ours, bare in zip(cases.leaves(gradients["gtd2"].auxiliary), plain, strict=True):
        np.testing.assert_allclose(ours, bare, atol=1e-6)
    # Values are the same for TDC and TDRC.
    for ours, theirs in zip(
        cases.leaves(gradients["tdrc"].critic), cases.leaves(gradients["tdc"].critic), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def advantages(config, **rows):
    """What the policy is told, and the TD(λ) errors by the program in NumPy, [units, time]."""
    agent, networks, batch, ratio = one_minibatch(config, **rows)
    # Other values now than when the rollout was assessed.
    moved = networks._replace(critic=jax.tree.map(lambda p: 1.1 * p + 0.1, networks.critic))
    _, told, _ = jax.jit(agent._criticise)(moved, batch, ratio)
    rollout = cases.rollout(config, "gaussian", SEED)._replace(**rows)
    time, length = config.rollout // config.num_envs, config.sequence
    results = []
    for networks_then, lengths in ((moved, length), (networks, time)):
        learner = cases.learner(config, "gaussian", networks_then)
        errors = [
            learner.lambda_error(rollout, [(t, e) for t in range(begin, begin + lengths)])
            for e in range(config.num_envs)
            for begin in range(0, time, lengths)
        ]
        results.append(np.reshape(errors, (-1, length)))
    return np.asarray(told), *results


def test_fresh_and_stale_advantages():
    told, fresh, stale = advantages(changed(advantage="fresh"))
    assert np.abs(fresh - stale).max() > 0.1
    np.testing.assert_allclose(told, fresh, atol=1e-5)
    told, _, stale = advantages(changed(advantage="stale"))
    np.testing.assert_allclose(told, stale, atol=1e-5)


def test_fresh_advantages_end_with_their_sequence():
    """Without ends of episodes, too: the stale ones look further."""
    none = np.zeros((16, 2), bool)
    following = cases.rollout(SMALL, "gaussian", SEED, ends=0.0).next_observation
    rows = {"terminated": none, "truncated": none, "next_observation": following}
    told, fresh, _ = advantages(SMALL, **rows)
    np.testing.assert_allclose(told, fresh, atol=1e-5)


@pytest.mark.parametrize("inner", [False, True])
def test_values_in_one_pass_or_two(inner, monkeypatch):
    """A truncation within a sequence needs a second pass; at its end, or none at all, does not."""
    agent, networks, batch, _ = one_minibatch(SMALL)
    seen = batch.rollout
    truncated = np.zeros(seen.truncated.shape, bool)
    truncated[:2, -1] = True
    if inner:
        truncated[1, 3] = True
    # Where no episode ends, what follows is the next row.
    ended = truncated | np.asarray(seen.terminated)
    following = np.concatenate([seen.observation[:, 1:], seen.next_observation[:, -1:]], axis=1)
    final = np.where(ended[..., None], seen.next_observation, following)
    seen = seen._replace(truncated=jnp.asarray(truncated), next_observation=jnp.asarray(final))
    taken = []
    choose = jax.lax.cond

    def cond(which, *rest):
        taken.append(bool(which))
        return choose(which, *rest)

    monkeypatch.setattr(jax.lax, "cond", cond)
    value, bootstrap, features = agent._values_along(networks.critic, seen)
    assert taken == [inner]
    assert features is None
    critic = cases.leaves(networks.critic)
    for place in np.ndindex(ended.shape):
        here, there = (
            cases.numpy_ppo.value(critic, rows[place]) for rows in (seen.observation, final)
        )
        assert value[place] == pytest.approx(here, abs=1e-5)
        if not seen.terminated[place]:  # else it is not bootstrapped from
            assert bootstrap[place] == pytest.approx(there, abs=1e-5)


def test_values_are_never_clipped():
    """Old values matter to no gradient; nor is there such a setting."""
    agent, networks, batch, _ = one_minibatch(changed(importance_sampling=True))
    assert not hasattr(SMALL, "value_clip")
    gradient = GRADIENT(agent, networks, batch)
    other = GRADIENT(agent, networks, batch._replace(value=batch.value + 10.0))
    for ours, theirs in zip(cases.leaves(gradient), cases.leaves(other), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "tdcr"}, "rule is 'tdcr'; .* did you mean 'td"),
        ({"rule": "td", "h": "features"}, "h is 'features' and rule 'td', which has no h"),
        ({"beta": -1.0}, r"beta is -1.0; values in \[0, ∞\)"),
        ({"sequence": 0}, "sequence is 0; a whole number of at least 1"),
        ({"sequence": 5}, "sequence is 5 and rollout / num_envs 16; sequence must divide"),
        ({"sequence": 16, "minibatch_size": 8}, "sequence is 16 and minibatch_size 8"),
        ({"sequence": 32}, "sequence is 32 and rollout / num_envs 16"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        changed(**settings).check()
