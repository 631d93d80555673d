"""The sampler draws what the problem says, and is one function of its key."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import problems
from eligrad.problems import sampler
from tests.problems import cases

# Every problem under its behaviour policy, and under its target policy where that is another one.
streams = pytest.mark.parametrize(
    ("name", "policy"),
    [(name, "behaviour") for name in cases.ALL]
    + [(name, "target") for name in ("baird", "random_mdp", "skewed_walk", "anything_goes")],
)


@streams
def test_frequencies_are_the_probabilities(name, policy):
    mdp, chains = cases.ALL[name].mdp, cases.stationary_chains(name, policy)
    counts = np.zeros(mdp.transitions.shape)
    np.add.at(counts, (chains.state, chains.action, chains.next_state), 1)
    for observed, exact in [
        (counts, mdp.transitions),
        (counts.sum(axis=2), mdp.policy(policy)),
    ]:
        trials = observed.sum(axis=-1, keepdims=True)
        deviation = np.abs(observed - trials * exact)
        assert np.all(deviation <= 4.5 * np.sqrt(trials * exact * (1 - exact)) + 1e-9)
    assert counts.sum() == chains.state.size


@streams
def test_time_is_spent_where_the_long_run_says(name, policy):
    mdp, chains = cases.ALL[name].mdp, cases.stationary_chains(name, policy)
    shares = np.stack([np.mean(chains.state == s, axis=1) for s in range(mdp.num_states)], axis=1)
    error = np.abs(shares.mean(axis=0) - mdp.visits(policy))
    assert np.all(error <= 4.5 * shares.std(axis=0) / np.sqrt(cases.NUM_CHAINS) + 1e-9)
    assert np.all(shares.std(axis=0) / np.sqrt(cases.NUM_CHAINS) < 0.005)


@streams
def test_transitions_carry_the_numbers_of_the_problem(name, policy):
    mdp, chains = cases.ALL[name].mdp, cases.stationary_chains(name, policy)
    where = (chains.state, chains.action, chains.next_state)
    np.testing.assert_allclose(chains.reward, mdp.rewards[where], rtol=1e-6)
    np.testing.assert_allclose(chains.discount, mdp.discounts[where], rtol=1e-6)
    ratios = mdp.ratios if policy == "behaviour" else np.ones_like(mdp.ratios)
    np.testing.assert_allclose(chains.ratio, ratios[where[:2]], rtol=1e-6)
    np.testing.assert_array_equal(chains.terminated, chains.next_state >= mdp.num_states)
    assert np.all(mdp.transitions[where] > 0)
    # The next step begins where this one led, or at a start after an end.
    ended, led_to, begins = (
        chains.terminated[:, :-1],
        chains.next_state[:, :-1],
        chains.state[:, 1:],
    )
    np.testing.assert_array_equal(begins[~ended], led_to[~ended])
    assert np.all(mdp.start[begins[ended]] > 0)
    assert np.any(ended) == (mdp.num_successors > mdp.num_states)


def test_restarts_follow_the_start_distribution():
    mdp, chains = cases.ALL["anything_goes"].mdp, cases.stationary_chains("anything_goes")
    restarts = chains.state[:, 1:][chains.terminated[:, :-1]]
    counts = np.bincount(restarts, minlength=mdp.num_states)
    bound = 4.5 * np.sqrt(len(restarts) * mdp.start * (1 - mdp.start))
    assert np.all(np.abs(counts - len(restarts) * mdp.start) <= bound)
    keys = jax.random.split(jax.random.key(1), 20_000)
    first = np.asarray(jax.jit(jax.vmap(lambda key: problems.initial_state(mdp, key)))(keys))
    share = np.bincount(first, minlength=mdp.num_states) / 20_000
    assert np.all(np.abs(share - mdp.start) <= 4.5 * np.sqrt(mdp.start * (1 - mdp.start) / 20_000))


def test_vmap_over_keys_is_a_loop_over_keys():
    keys = jax.random.split(jax.random.key(0), 3)
    draw = jax.jit(functools.partial(problems.sample, cases.ALL["anything_goes"].mdp, num_steps=50))
    together = jax.vmap(draw)(keys)
    apart = jax.tree.map(lambda *one: np.stack(one), *[draw(key) for key in keys])
    jax.tree.map(np.testing.assert_array_equal, together, apart)
    assert not np.array_equal(apart.next_state[0], apart.next_state[1])


def test_step_by_step_is_the_same_stream():
    mdp, key = problems.random_walk(5).mdp, jax.random.key(3)
    start_key, steps_key = jax.random.split(key)
    state, stream = problems.initial_state(mdp, start_key), []
    advance = jax.jit(functools.partial(problems.step, mdp))
    for step_key in jax.random.split(steps_key, 30):
        state, transition = advance(step_key, state)
        stream.append(transition)
    scanned = jax.jit(problems.sample, static_argnums=(0, 2))(mdp, key, 30)
    assert bool(jnp.any(scanned.terminated))
    jax.tree.map(
        np.testing.assert_array_equal, jax.tree.map(lambda *x: np.stack(x), *stream), scanned
    )


def test_double_precision_gives_double_precision_numbers(x64):
    transition = problems.sample(problems.baird().mdp, jax.random.key(0), 5)
    assert transition.reward.dtype == transition.discount.dtype == jnp.float64
    assert transition.state.dtype == transition.next_state.dtype == jnp.int32
    np.testing.assert_array_equal(transition.discount, 0.99)


def test_rounding_never_picks_the_impossible():
    """In float32 alone these odds add up to less than the largest uniform draw."""
    odds = np.concatenate([[0.0], np.full(30, 1 / 31), [0.0], [1 / 31], [0.0, 0.0]])
    largest = np.float32(1 - 2**-24)
    assert np.cumsum(odds.astype(np.float32))[-1] <= largest
    picks = [int(sampler._pick(odds, (), jnp.asarray(u))) for u in np.float32([0, 0.5, largest])]
    assert picks == [1, 16, 32]


def test_number_of_steps_is_checked():
    with pytest.raises(ValueError, match="num_steps is 0"):
        problems.sample(problems.baird().mdp, jax.random.key(0), 0)
