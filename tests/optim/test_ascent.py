import jax.numpy as jnp
import numpy as np
import optax

from eligrad.optim import ascend, obgd


def test_ascend_adds_what_optax_would_subtract():
    delta_w = {"w": jnp.array([1.0, -2.0])}
    optimizer = ascend(optax.sgd(0.1))
    step, _ = optimizer.update(delta_w, optimizer.init(delta_w), delta_w, td_error=9.0)
    np.testing.assert_allclose(step["w"], [0.1, -0.2], rtol=1e-6)


def test_ascend_passes_extra_arguments_on():
    direction, optimizer = jnp.array([4.0]), obgd(1.0, 2.0)
    given = {"td_error": 0.5, "trace": direction}
    step, _ = ascend(optimizer).update(direction, optax.EmptyState(), None, **given)
    descended, _ = optimizer.update(direction, optax.EmptyState(), None, **given)
    np.testing.assert_array_equal(step, -descended)
    assert step[0] > 0
