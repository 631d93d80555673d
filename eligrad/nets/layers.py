"""Layers that the networks share."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from eligrad._base.kernels import in_use, one_kernel
from eligrad.nets.init import Initializer


class Affine(eqx.Module):
    """`x @ weight + bias` over the last axis; the bias starts at 0.

    The weight is [fan_in, units]: at batch size 1 this is the layout in which the reverse pass is
    fastest, because the weight's gradient, an outer product, fuses with what is done to it next.
    Products are of full float32 precision, so that a GPU gives one agent what it gives a hundred.

    Args:
        fan_in: inputs of each unit.
        units: outputs.
        init: makes the weight.
        key: for the random weight.
    """

    weight: Float[Array, "fan_in units"]
    bias: Float[Array, " units"]

    def __init__(self, fan_in: int, units: int, *, init: Initializer, key: PRNGKeyArray):
        self.weight = init(key, (fan_in, units))
        self.bias = jnp.zeros(units, self.weight.dtype)

    def __call__(self, x: Float[Array, "*rows fan_in"]) -> Float[Array, "*rows units"]:
        """Maps each row of inputs to one row of units."""
        # The outer product's factor is kept in memory. GPU compilers would compute it, and all that
        # leads to it, again in every tile of the weight's gradient; see also `layer_norm`.
        x = lax.optimization_barrier(x)
        y = _product(x, self.weight) if x.ndim > 1 and in_use() else _matmul(x, self.weight)
        return y + jnp.broadcast_to(self.bias, y.shape)


def _matmul(x: Array, weight: Array) -> Array:
    return jnp.matmul(x, weight, precision=lax.Precision.HIGHEST)


@jax.custom_jvp
def _product(x: Float[Array, "*rows fan_in"], weight: Float[Array, "fan_in units"]) -> Array:
    """`x @ weight`, whose gradient in the weight is fast on CPUs.

    A product of matrices is fast there if it sums over the columns of the first, so the gradient is
    made of the transposed rows.
    """
    return _matmul(x, weight)


def _along_weight(tangent: Array, y: Array, x: Array, weight: Array) -> Array:
    del weight
    columns = lax.optimization_barrier(x.reshape(-1, x.shape[-1]).T)
    over_fan_in = (((0,), (0,)), ((), ()))
    product = lax.dot_general(columns, tangent, over_fan_in, precision=lax.Precision.HIGHEST)
    return product.reshape(y.shape)


_product.defjvps(lambda tangent, _, x, weight: _matmul(tangent, weight), _along_weight)


def layer_norm(x: Float[Array, "*features"]) -> Float[Array, "*features"]:
    """Normalises one sample over all of its features, without learned scale or offset.

    The variance is the population's, computed in two passes: E[x²] - E[x]² would cancel
    where the mean is large.
    """
    if in_use():
        return _standardized(x)
    return _standardize(_with_kept_gradient(x))[0]


@jax.custom_jvp
def _with_kept_gradient(x: Float[Array, "*features"]) -> Float[Array, "*features"]:
    """`x`; its gradient, the outer product's other factor, is kept in memory like the first."""
    return x


_with_kept_gradient.defjvps(lambda tangent, _, x: lax.optimization_barrier(tangent))


@jax.custom_jvp
def _standardized(x: Float[Array, "*features"]) -> Float[Array, "*features"]:
    """The same with a derivative by hand, which reuses the scale; on GPUs it would be slower."""
    return _standardize(x)[0]


@_standardized.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y, scale = _standardize(*primals)
    return y, _along_standardized(*tangents, y, scale)


@one_kernel
def _standardize(
    x: Float[Array, "*features"],
) -> tuple[Float[Array, "*features"], Float[Array, ""]]:
    """Features of mean 0 and variance 1, and the scale by which they were multiplied."""
    centred = x - jnp.mean(x)
    scale = lax.rsqrt(jnp.mean(jnp.square(centred)) + 1e-5)
    return centred * scale, scale


@one_kernel
def _along_standardized(
    tangent: Float[Array, "*features"], y: Float[Array, "*features"], scale: Float[Array, ""]
) -> Float[Array, "*features"]:
    return scale * (tangent - jnp.mean(tangent) - y * jnp.mean(y * tangent))


@one_kernel
def patches(
    image: Float[Array, "height width channels"], *, size: int, stride: int
) -> Float[Array, "rows columns fan_in"]:
    """All `size` × `size` windows of an image, each flattened in the order row, column, channel.

    `patches(x) @ filters` is a convolution without padding. Written so, it stays a (batched) matrix
    product when every agent of a `vmap` has its own filters, where a convolution becomes a
    grouped one; and its reverse pass for a single sample is faster too.
    """
    height, width, channels = image.shape
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    shifted = [
        image[i : i + stride * rows : stride, j : j + stride * columns : stride]
        for i in range(size)
        for j in range(size)
    ]
    return jnp.stack(shifted, axis=2).reshape(rows, columns, size * size * channels)


def check_observation(network: str, given: tuple[int, ...], accepted: tuple[int, ...]) -> None:
    """Raises ValueError unless `network` was given one sample of the shape it was made for."""
    if given != accepted:
        raise ValueError(
            f"{network} was given an observation of shape {given}; {accepted} is accepted "
            "(one sample: use jax.vmap for a batch)"
        )


def check_image_shape(network: str, shape: tuple[int, ...], smallest: int) -> None:
    """Raises ValueError unless `shape` is (height, width, channels) and large enough."""
    if len(shape) != 3:
        raise ValueError(
            f"{network} was given observation_shape={shape}, of rank {len(shape)}; "
            "(height, width, channels) is accepted"
        )
    if min(shape[:2]) < smallest or shape[2] < 1:
        raise ValueError(
            f"{network} was given observation_shape={shape}; height and width of at least "
            f"{smallest} and at least 1 channel are accepted"
        )
