"""Multi-layer perceptrons, for policies and values of vector observations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from eligrad._base.array_checks import Number
from eligrad.nets.init import Initializer, orthogonal, sparse_uniform
from eligrad.nets.layers import Affine, check_observation, layer_norm


class MLP(eqx.Module):
    """Dense layers with one activation between them, optionally normalised before it.

    `tanh_mlp` and `streaming_mlp` make the two usual ones. All leaves are float32 arrays, so the
    network is its own tree of parameters.

    Args:
        inputs: entries of an observation.
        outputs: numbers that the network returns.
        hidden: units of each hidden layer.
        activation: function between the layers.
        normalize: whether `layer_norm` comes before each activation.
        init: makes the weights of the hidden layers.
        output_init: makes the weights of the last layer.
        key: for the random weights.
    """

    layers: tuple[Affine, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)
    normalize: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: tuple[int, ...] = (64, 64),
        activation: Callable[[Array], Array],
        normalize: bool,
        init: Initializer,
        output_init: Initializer,
        key: PRNGKeyArray,
    ):
        sizes = (inputs, *hidden, outputs)
        if min(sizes) < 1:
            raise ValueError(
                f"MLP was given inputs={inputs}, hidden={hidden}, outputs={outputs}; "
                "sizes of at least 1 are accepted"
            )
        inits = [init] * len(hidden) + [output_init]
        keys = jax.random.split(key, len(inits))
        self.layers = tuple(
            Affine(fan_in, units, init=layer_init, key=layer_key)
            for fan_in, units, layer_init, layer_key in zip(
                sizes[:-1], sizes[1:], inits, keys, strict=True
            )
        )
        self.activation = activation
        self.normalize = normalize

    @property
    def head(self) -> Affine:
        """The last layer."""
        return self.layers[-1]

    def features(self, observation: Shaped[Array, "..."]) -> Float[Array, " features"]:
        """The last hidden layer of one observation [inputs], which the outputs are linear in."""
        check_observation("MLP", observation.shape, self.layers[0].weight.shape[:1])
        features = observation.astype(self.head.weight.dtype)
        for layer in self.layers[:-1]:
            features = layer(features)
            if self.normalize:
                features = layer_norm(features)
            features = self.activation(features)
        return features

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " outputs"]:
        """The outputs for one observation [inputs]."""
        return self.head(self.features(observation))


def tanh_mlp(
    inputs: int,
    outputs: int,
    *,
    hidden: tuple[int, ...] = (64, 64),
    output_gain: Number,
    key: PRNGKeyArray,
) -> MLP:
    """Makes a network of PPO: tanh layers with orthogonal weights of gain sqrt 2.

    Args:
        inputs: entries of an observation.
        outputs: numbers that the network returns.
        hidden: units of each hidden layer.
        output_gain: gain of the last layer's weights.
        key: for the random weights.
    """
    return MLP(
        inputs,
        outputs,
        hidden=hidden,
        activation=jnp.tanh,
        normalize=False,
        init=functools.partial(orthogonal, gain=math.sqrt(2)),
        output_init=functools.partial(orthogonal, gain=output_gain),
        key=key,
    )


def streaming_mlp(
    inputs: int,
    outputs: int,
    *,
    hidden: tuple[int, ...] = (128, 128),
    sparsity: Number,
    key: PRNGKeyArray,
) -> MLP:
    """Makes a network of the streaming agents: sparse weights, `layer_norm`, leaky ReLUs.

    Args:
        inputs: entries of an observation.
        outputs: numbers that the network returns.
        hidden: units of each hidden layer.
        sparsity: share of each unit's incoming weights that start at 0.
        key: for the random weights.
    """
    init = functools.partial(sparse_uniform, sparsity=sparsity)
    return MLP(
        inputs,
        outputs,
        hidden=hidden,
        activation=jax.nn.leaky_relu,
        normalize=True,
        init=init,
        output_init=init,
        key=key,
    )
