"""Convolutional networks of the streaming agents: MinAtar's and one of Atari's size."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from eligrad._base.array_checks import Number
from eligrad.nets.init import sparse_uniform
from eligrad.nets.layers import (
    Affine,
    check_image_shape,
    check_observation,
    layer_norm,
    patches,
)


class Window(NamedTuple):
    """The filters of one convolution: how many, their size, their stride."""

    filters: int
    size: int
    stride: int


class CNN(eqx.Module):
    """Convolutions, one dense hidden layer, one dense output; normalised, with leaky ReLUs.

    Each layer but the last is followed by `layer_norm` and a leaky ReLU of slope 0.01; convolutions
    have no padding. The last feature map is flattened in the order row, column, filter. A filter's
    weights are a column of `convolutions[i].weight`, in the order row, column, channel.

    All leaves are float32 arrays, so the network is its own tree of parameters. Observations of any
    dtype (bool, uint8) are converted to that of the weights, not rescaled.

    Args:
        observation_shape: (height, width, channels).
        outputs: numbers that the network returns.
        windows: the filters of each convolution.
        hidden: units of the dense hidden layer.
        sparsity: share of each unit's incoming weights that start at 0.
        key: for the random weights.
    """

    convolutions: tuple[Affine, ...]
    hidden: Affine
    output: Affine
    windows: tuple[Window, ...] = eqx.field(static=True)
    observation_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        outputs: int,
        *,
        windows: tuple[Window, ...],
        hidden: int,
        sparsity: Number,
        key: PRNGKeyArray,
    ):
        name = type(self).__name__
        check_image_shape(name, observation_shape, smallest=_receptive_field(windows))
        if outputs < 1:
            raise ValueError(f"{name} was given outputs={outputs}; at least 1 is accepted")
        height, width, channels = observation_shape
        *filter_keys, hidden_key, output_key = jax.random.split(key, len(windows) + 2)
        init = functools.partial(sparse_uniform, sparsity=sparsity)
        convolutions: list[Affine] = []
        for window, filter_key in zip(windows, filter_keys, strict=True):
            fan_in = window.size**2 * channels
            convolutions.append(Affine(fan_in, window.filters, init=init, key=filter_key))
            height, width = ((side - window.size) // window.stride + 1 for side in (height, width))
            channels = window.filters
        self.convolutions = tuple(convolutions)
        self.hidden = Affine(height * width * channels, hidden, init=init, key=hidden_key)
        self.output = Affine(hidden, outputs, init=init, key=output_key)
        self.windows = windows
        self.observation_shape = tuple(observation_shape)

    @property
    def head(self) -> Affine:
        """The last layer."""
        return self.output

    def features(self, observation: Shaped[Array, "..."]) -> Float[Array, " features"]:
        """The dense hidden layer of one observation, which the values are linear in."""
        check_observation(type(self).__name__, observation.shape, self.observation_shape)
        features = observation.astype(self.output.weight.dtype)
        for window, convolution in zip(self.windows, self.convolutions, strict=True):
            filtered = convolve(features, convolution, window)
            # Flat and kept in memory: of such an array's reductions, and what comes after them, GPU
            # compilers make one kernel.
            flat = lax.optimization_barrier(jnp.ravel(filtered))
            flat = jax.nn.leaky_relu(layer_norm(flat))
            features = flat.reshape(filtered.shape)
        return jax.nn.leaky_relu(layer_norm(self.hidden(jnp.ravel(features))))

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " outputs"]:
        """The values of one observation [height, width, channels]."""
        return self.head(self.features(observation))


class MinAtarCNN(CNN):
    """The network of every MinAtar agent: 16 filters of 3 × 3, then 128 units.

    Args:
        observation_shape: (height, width, channels).
        outputs: numbers that the network returns.
        sparsity: share of each unit's incoming weights that start at 0.
        key: for the random weights.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        outputs: int,
        *,
        sparsity: Number,
        key: PRNGKeyArray,
    ):
        super().__init__(
            observation_shape,
            outputs,
            windows=(Window(filters=16, size=3, stride=1),),
            hidden=128,
            sparsity=sparsity,
            key=key,
        )


class AtariCNN(CNN):
    """A larger one for Atari: three convolutions, then 512 units.

    The filters are 32 of 8 × 8 with stride 4, 64 of 4 × 4 with stride 2, and 64 of 3 × 3.

    Args:
        observation_shape: (height, width, channels).
        outputs: numbers that the network returns.
        sparsity: share of each unit's incoming weights that start at 0.
        key: for the random weights.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        outputs: int,
        *,
        sparsity: Number,
        key: PRNGKeyArray,
    ):
        super().__init__(
            observation_shape,
            outputs,
            windows=(
                Window(filters=32, size=8, stride=4),
                Window(filters=64, size=4, stride=2),
                Window(filters=64, size=3, stride=1),
            ),
            hidden=512,
            sparsity=sparsity,
            key=key,
        )


def convolve(
    image: Float[Array, "height width channels"], filters: Affine, window: Window
) -> Float[Array, "rows columns filters"]:
    """The convolution of an image with the filters, without padding."""
    return filters(patches(image, size=window.size, stride=window.stride))


def _receptive_field(windows: tuple[Window, ...]) -> int:
    """The side of the smallest image that leaves one pixel after all convolutions."""
    side = 1
    for window in reversed(windows):
        side = (side - 1) * window.stride + window.size
    return side
