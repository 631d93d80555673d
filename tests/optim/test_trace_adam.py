import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.optim import ascend, trace_adam


def follow(steps, trace_decay, rate=1.0):
    """The step after each (δ, ∇V, correction), with the trace that those gradients make."""
    optimizer = ascend(trace_adam(rate, trace_decay, eps=0.0))
    z = jnp.zeros_like(jnp.asarray(steps[0][1], jnp.float32))
    state, taken = optimizer.init(z), []
    for delta, gradient, correction in steps:
        gradient = jnp.asarray(gradient, jnp.float32)
        z = trace_decay * z + gradient
        direction = delta * z + jnp.asarray(correction, jnp.float32)
        step, state = optimizer.update(
            direction, state, td_error=delta, trace=z, grad_output=gradient
        )
        taken.append(np.asarray(step))
    return taken


def test_by_hand():
    """Two steps of Q(λ) with γ λ = 1/2 and gradients 3, 4.

    z = 3, then 5.5; the mean squares are 9, then (9/2 + 16) / (1/2 + 1) = 41/3. δ = 5 counts as 1.
    """
    first, second = follow([(5.0, [3.0], [0.0]), (-0.5, [4.0], [0.0])], 0.5)
    np.testing.assert_allclose(first, [1.0], rtol=1e-6)
    np.testing.assert_allclose(second, [-0.5 * 5.5 / np.sqrt(41 / 3)], rtol=1e-6)


def test_the_first_step_does_not_depend_on_the_gradient_s_size():
    (step,) = follow([(0.3, [1e-4, -70.0], [0.0, 0.0])], 0.8)
    np.testing.assert_allclose(step, [0.3, -0.3], rtol=1e-6)


@pytest.mark.parametrize("trace_decay", [0.0, 0.5, 1.0])
def test_with_constant_gradients_the_root_is_their_size(trace_decay):
    """At γ λ = 1, too, where Adam's average would forget nothing and never begin."""
    taken = follow([(1.0, [2.0], [0.0])] * 4, trace_decay)
    faded = np.cumsum(trace_decay ** np.arange(4.0))
    np.testing.assert_allclose(np.concatenate(taken), faded, rtol=1e-6)


def test_a_correction_where_no_gradient_was_moves_by_a_step_and_not_by_a_leap():
    """As weight decay does, on weights of inputs that are always 0."""
    (step,) = follow([(0.1, [0.0, 1.0], [1e-3, 0.0])], 0.8)
    np.testing.assert_allclose(step, [1.0, 0.1], rtol=1e-5)
    (step,) = follow([(10.0, [0.0, 1.0], [1e-3, 0.0])], 0.8)
    np.testing.assert_allclose(step, [1.0, 1.0], rtol=1e-5)


def test_all_numbers_can_be_traced():
    run = jax.vmap(lambda rate, decay: follow_traced(rate, decay))
    rates, decays = jnp.array([0.1, 1.0]), jnp.array([0.0, 0.9])
    for i, found in enumerate(run(rates, decays)):
        expected = follow_traced(float(rates[i]), float(decays[i]))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def follow_traced(rate, decay):
    optimizer, z = ascend(trace_adam(rate, decay)), jnp.array([1.0, -3.0])
    state = optimizer.init(z)
    for delta in (1.0, 3.0):
        step, state = optimizer.update(delta * z, state, td_error=delta, trace=z, grad_output=z / 2)
    return step


def test_the_decay_is_a_share():
    with pytest.raises(ValueError, match=r"trace_decay is 1.5; a number in \[0, 1\]"):
        trace_adam(1.0, 1.5)
