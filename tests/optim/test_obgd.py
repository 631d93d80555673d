import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from eligrad.optim import adaptive_obgd, ascend, obgd


def first_step(optimizer, trace, td_error):
    """The first step of Q(λ), whose direction is δ z."""
    direction = jax.tree.map(lambda z: jnp.float32(td_error) * z, trace)
    return ascend(optimizer).update(
        direction, optimizer.init(trace), trace, td_error=td_error, trace=trace
    )[0]


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
        _, state = optimizer.update(-jnp.float32(error) * z, state, td_error=error, trace=z)
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


@pytest.mark.parametrize("missing", ["td_error", "trace"])
def test_error_and_trace_are_required_by_name(missing):
    trace = jnp.ones(2)
    given = {"td_error": 1.0, "trace": trace}
    del given[missing]
    with pytest.raises(TypeError, match=missing):
        obgd(1.0, 2.0).update(trace, optax.EmptyState(), trace, **given)


def test_all_hyper_parameters_can_be_traced():
    trace = jnp.array([1.0, -3.0])

    @jax.vmap
    def step(rate, kappa, beta2):
        return first_step(adaptive_obgd(rate, kappa, beta2), trace, 2.0)

    rates, kappas, betas = jnp.array([[0.1, 1.0], [2.0, 3.0], [0.9, 0.999]])
    for i, found in enumerate(step(rates, kappas, betas)):
        optimizer = adaptive_obgd(float(rates[i]), float(kappas[i]), float(betas[i]))
        np.testing.assert_allclose(found, first_step(optimizer, trace, 2.0), rtol=1e-6)


def test_the_bound_is_the_trace_s_and_shortens_all_of_a_direction():
    # |z|₁ = 4 and δ = 3, as by hand above: the direction is multiplied by 0.5 / 12.
    trace, direction = jnp.array([1.0, -3.0]), jnp.array([24.0, 0.0])
    optimizer = ascend(obgd(0.5, 2.0))
    step, _ = optimizer.update(direction, optax.EmptyState(), None, td_error=3.0, trace=trace)
    np.testing.assert_allclose(step, [1.0, 0.0], rtol=1e-6)


def test_chains_with_optax():
    chained = optax.chain(obgd(1.0, 2.0), optax.scale(0.5))
    np.testing.assert_allclose(first_step(chained, jnp.array([4.0]), 0.5), [0.125], rtol=1e-6)
