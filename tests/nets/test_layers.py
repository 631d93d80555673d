import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad.nets import layer_norm, patches


def test_layer_norm_matches_float64():
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(4, 5, 6)).astype(np.float32)
    y = x.astype(np.float64)
    expected = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    np.testing.assert_allclose(layer_norm(jnp.asarray(x)), expected, rtol=1e-5, atol=1e-6)


def test_layer_norm_epsilon_is_inside_the_root():
    x = jnp.array([1e-3, -1e-3])  # variance 1e-6, ten times below epsilon
    np.testing.assert_allclose(layer_norm(x), np.array([1, -1]) * 1e-3 / np.sqrt(1.1e-5), rtol=1e-5)


def test_layer_norm_survives_a_large_mean():
    """E[x²] - E[x]² would be rounding noise here: the squares are 1e8, their spacing 8."""
    x = jnp.array([10000.0, 10001.0, 10002.0, 10003.0])
    np.testing.assert_allclose(
        layer_norm(x), np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25 + 1e-5), rtol=1e-5
    )


def test_layer_norm_of_a_constant_is_zero_with_finite_gradient():
    x = jnp.full((5,), 2.0)
    np.testing.assert_array_equal(layer_norm(x), np.zeros(5))
    assert np.isfinite(jax.grad(lambda x: layer_norm(x)[0])(x)).all()


@pytest.mark.parametrize(
    ("shape", "size", "stride"),
    [((10, 10, 4), 3, 1), ((7, 9, 2), 3, 2), ((5, 5, 1), 5, 1)],
)
def test_patches_times_filters_is_a_convolution(shape, size, stride):
    image_key, filter_key = jax.random.split(jax.random.key(1))
    image = jax.random.normal(image_key, shape)
    filters = jax.random.normal(filter_key, (size, size, shape[2], 6))

    def as_convolution(filters):
        return jax.lax.conv_general_dilated(
            image[None],
            filters,
            (stride, stride),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]

    def as_product(filters):
        return patches(image, size=size, stride=stride) @ filters.reshape(-1, 6)

    cotangent = jax.random.normal(image_key, jax.eval_shape(as_product, filters).shape)

    @jax.jit
    def both(filters):
        return [
            (value, vjp(cotangent)[0])
            for value, vjp in (jax.vjp(f, filters) for f in (as_convolution, as_product))
        ]

    expected, found = both(filters)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-3)
