import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eligrad.optim import adaptive_obgd, ascend, obgd


def first_step(optimizer, trace, td_error):
    return optimizer.update(trace, optimizer.init(trace), trace, td_error=td_error)[0]


def test_by_hand():
    # |z|₁ = 4 over both leaves, δ = 3: M = 0.5 · 2 · 3 · 4 = 12, step 0.5 / 12 · 3 z = z / 8.
    trace = {"a": jnp.array([1.0, -2.0]), "b": jnp.array(1.0)}
    step = first_step(obgd(0.5, 2.0), trace, 3.0)
    np.testing.assert_allclose(step["a"], [0.125, -0.25], rtol=1e-6)
    np.testing.assert_allclose(step["b"], 0.125, rtol=1e-6)


def test_small_errors_do_not_loosen_the_bound():
    # δ = 0.5 counts as 1 in the bound: M = 1 · 2 · 1 · 4 = 8, step 0.5 z / 8.
    step = first_step(obgd(1.0, 2.0), jnp.array([4.0]), 0.5)
    np.testing.assert_allclose(step, [0.25], rtol=1e-6)


def test_short_steps_are_plain_steps():
    step = first_step(obgd(0.01, 2.0), jnp.array([1.0, 2.0]), -2.0)
    np.testing.assert_allclose(step, [-0.02, -0.04], rtol=1e-6)


@pytest.mark.parametrize("td_error", [-50.0, -0.3, 0.7, 4.0])
def test_never_overshoots_a_linear_target(td_error):
    """Of features within ±1, with kappa 2, the error keeps its sign and shrinks."""
    features = jax.random.uniform(jax.random.key(0), (200,), minval=-1.0)
    step = first_step(obgd(1.0, 2.0), features, td_error)
    moved = float(features @ step)
    assert 0 < moved / td_error <= 0.5


def test_a_zero_trace_gives_a_zero_step():
    for optimizer in (obgd(1.0, 2.0), adaptive_obgd(1.0, 2.0)):
        np.testing.assert_array_equal(first_step(optimizer, jnp.zeros(3), 5.0), np.zeros(3))


def test_adaptive_first_step_is_a_bounded_sign():
    # v / (1 - β₂) = (δ z)², so u = sign(z) / |δ|; |u|₁ = 2 / 4, M = 1 · 1 · 4 · 0.5 = 2.
    step = first_step(adaptive_obgd(1.0, 1.0, eps=0.0), jnp.array([1e-3, -70.0]), 4.0)
    np.testing.assert_allclose(step, [0.5, -0.5], rtol=1e-6)


def test_adaptive_forgets_at_the_rate_of_beta2():
    optimizer, z = adaptive_obgd(1.0, 1.0, beta2=0.5), jnp.array([2.0])
    state = optimizer.init(z)
    for error, expected in ((1.0, 2.0), (3.0, 19.0), (0.0, 9.5)):
        _, state = optimizer.update(z, state, td_error=error)
        np.testing.assert_allclose(state.second_moment, [expected], rtol=1e-6)
    assert int(state.updates_made) == 3


@pytest.mark.parametrize("kappa", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("make", [obgd, adaptive_obgd])
def test_kappa_must_be_positive(make, kappa):
    with pytest.raises(ValueError, match=r"kappa is .*; a number above 0"):
        make(1.0, kappa)


def test_beta2_must_be_below_one():
    with pytest.raises(ValueError, match=r"beta2 is 1.0; a number in \[0, 1\)"):
        adaptive_obgd(1.0, 2.0, beta2=1.0)


def test_the_td_error_is_required_by_name():
    trace = jnp.ones(2)
    with pytest.raises(TypeError, match="td_error"):
        obgd(1.0, 2.0).update(trace, optax.EmptyState(), trace)


def test_all_hyper_parameters_can_be_traced():
    trace = jnp.array([1.0, -3.0])

    @jax.vmap
    def step(rate, kappa, beta2):
        return first_step(adaptive_obgd(rate, kappa, beta2), trace, 2.0)

    rates, kappas, betas = jnp.array([[0.1, 1.0], [2.0, 3.0], [0.9, 0.999]])
    for i, found in enumerate(step(rates, kappas, betas)):
        optimizer = adaptive_obgd(float(rates[i]), float(kappas[i]), float(betas[i]))
        np.testing.assert_allclose(found, first_step(optimizer, trace, 2.0), rtol=1e-6)


def test_ascend_adds_what_optax_would_subtract():
    delta_w = {"w": jnp.array([1.0, -2.0])}
    step = first_step(ascend(optax.sgd(0.1)), delta_w, 9.0)
    np.testing.assert_allclose(step["w"], [0.1, -0.2], rtol=1e-6)


def test_ascend_passes_extra_arguments_on():
    trace = jnp.array([4.0])
    step = first_step(ascend(obgd(1.0, 2.0)), trace, 0.5)
    np.testing.assert_array_equal(step, -first_step(obgd(1.0, 2.0), trace, 0.5))


def test_chains_with_optax():
    chained = optax.chain(obgd(1.0, 2.0), optax.scale(0.5))
    np.testing.assert_allclose(first_step(chained, jnp.array([4.0]), 0.5), [0.125], rtol=1e-6)
