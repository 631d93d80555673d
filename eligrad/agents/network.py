"""A network as an agent sees it: a function that makes parameters and one that applies them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from eligrad._number import Number
from eligrad.nets import AtariCNN, MinAtarCNN, streaming_mlp, tanh_mlp


@dataclasses.dataclass(frozen=True)
class Network:
    """Any network: `init(key, sparsity) -> params`, `apply(params, observation) -> values`.

    Networks of flax, haiku or your own hand fit as they are; `from_equinox` wraps a module. A
    network without sparse initialisation ignores the second argument of `init`.
    """

    init: Callable[[PRNGKeyArray, Number], PyTree]
    apply: Callable[[PyTree, Any], Float[Array, " values"]]


def from_equinox(make: Callable[[PRNGKeyArray, Number], eqx.Module]) -> Network:
    """The network that `make(key, sparsity)` builds; all of its arrays are parameters."""
    arrays, fixed = eqx.partition(
        eqx.filter_eval_shape(make, jax.random.key(0), 0.0),
        lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct),
    )
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"the network's {jax.tree_util.keystr(path)} has dtype {leaf.dtype}; float arrays "
                "are accepted, since each is learned (make a constant a static field)"
            )

    def init(key: PRNGKeyArray, sparsity: Number) -> PyTree:
        return eqx.filter(make(key, sparsity), eqx.is_inexact_array)

    def apply(params: PyTree, observation: Any) -> Array:
        module: Any = eqx.combine(params, fixed)
        return module(observation)

    return Network(init, apply)


def default_network(observation_shape: tuple[int, ...], values: int) -> Network:
    """The streaming agents' network for observations of that shape, with `values` outputs.

    Vectors get two dense layers of 128, small images MinAtar's convolution, images of 36 × 36 and
    more three convolutions as for Atari.
    """
    if len(observation_shape) == 1:
        size = observation_shape[0]
        return from_equinox(lambda key, s: streaming_mlp(size, values, sparsity=s, key=key))
    if len(observation_shape) == 3:
        cnn = AtariCNN if min(observation_shape[:2]) >= 36 else MinAtarCNN
        return from_equinox(lambda key, s: cnn(observation_shape, values, sparsity=s, key=key))
    raise ValueError(
        f"observations have shape {observation_shape}; (size,) and (height, width, channels) have "
        "a default network: pass network= for others"
    )


def ppo_network(observation_shape: tuple[int, ...], values: int, output_gain: float) -> Network:
    """PPO's network for observations of that shape: tanh 64-64 for vectors, convolutions else."""
    if len(observation_shape) != 1:
        return default_network(observation_shape, values)
    size = observation_shape[0]
    return from_equinox(lambda key, _: tanh_mlp(size, values, output_gain=output_gain, key=key))
