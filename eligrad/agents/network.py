"""A network as an agent sees it: a function that makes parameters and one that applies them."""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from eligrad._base.array_checks import Number
from eligrad.envs.spaces import Space
from eligrad.nets import AtariCNN, MinAtarCNN, streaming_mlp, tanh_mlp


@dataclasses.dataclass(frozen=True)
class Network:
    """Any network: `init(key) -> params`, `apply(params, observation) -> values`.

    Networks of flax, haiku or your own work as they are; `from_equinox` wraps a module. An
    `init` that requires a second argument gets the agent's `sparsity` there. `head` and
    `with_features` say where the last layer is, for settings that need it.
    """

    init: Callable[..., PyTree]
    apply: Callable[[PyTree, Any], Float[Array, " values"]]
    head: Callable[[PyTree], PyTree] | None = None
    """From the parameters to those of the last layer; for `regularize="head"`."""
    with_features: Callable[[PyTree, Any], tuple[Array, Array]] | None = None
    """What `apply` gives, and the vector it is linear in, in one pass; for `h="features"`."""

    def make_params(self, key: PRNGKeyArray, sparsity: Number = 0.0) -> PyTree:
        """Parameters by `init`, with that share of each unit's weights at 0 if it knows how."""
        return self.init(key, sparsity) if _takes_sparsity(self.init) else self.init(key)


def from_equinox(make: Callable[..., eqx.Module]) -> Network:
    """The network that `make(key)` or `make(key, sparsity)` builds; its arrays are parameters.

    Of a module with a method `features(observation)` and a layer `head`, whose outputs are
    `head(features(observation))`, the last layer is known.
    """
    takes_sparsity = _takes_sparsity(make)
    built = eqx.filter_eval_shape(make, jax.random.key(0), *([0.0] if takes_sparsity else []))
    arrays, fixed = eqx.partition(built, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"the network's {jax.tree_util.keystr(path)} has dtype {leaf.dtype}; float arrays "
                "are accepted, since each is learned (make a constant a static field)"
            )

    def init(key: PRNGKeyArray) -> PyTree:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def sparse_init(key: PRNGKeyArray, sparsity: Number) -> PyTree:
        return eqx.filter(make(key, sparsity), eqx.is_inexact_array)

    def apply(params: PyTree, observation: Any) -> Array:
        module: Any = eqx.combine(params, fixed)
        return module(observation)

    def with_features(params: PyTree, observation: Any) -> tuple[Array, Array]:
        module: Any = eqx.combine(params, fixed)
        features = module.features(observation)
        return module.head(features), features

    network = Network(sparse_init if takes_sparsity else init, apply)
    if callable(getattr(built, "features", None)) and callable(getattr(built, "head", None)):
        return dataclasses.replace(
            network, head=operator.attrgetter("head"), with_features=with_features
        )
    return network


def _takes_sparsity(init: Callable[..., Any]) -> bool:
    """Whether a function of a key requires a second argument."""
    required = [
        parameter
        for parameter in inspect.signature(init).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    return len(required) > 1


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
    return from_equinox(lambda key: tanh_mlp(size, values, output_gain=output_gain, key=key))


def check_network(
    name: str, network: Any, observation_space: Space, values: int, of_what: str
) -> None:
    """Raises ValueError for a network that does not return `values` numbers.

    Args:
        name: what messages call the network.
        network: the one to check.
        observation_space: of the environment.
        values: how many numbers it must return for an observation.
        of_what: what they are, for the message.
    """
    if not isinstance(network, Network):
        raise TypeError(
            f"{name} is a {type(network).__name__}; an eligrad.agents.Network is accepted: "
            "Network(init, apply), or from_equinox(make) for a module"
        )
    shape = observation_space.shape
    key = jax.eval_shape(jax.random.key, 0)
    params = _shapes(f"{name}.init(key)", network.make_params, key)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating) or leaf.dtype.itemsize < 4:
            raise ValueError(
                f"{name}.init gives {jax.tree_util.keystr(path) or 'an array'} of dtype "
                f"{leaf.dtype}; arrays of float32 or float64 are accepted, since each is learned"
            )
    observation = jax.ShapeDtypeStruct(shape, jnp.float32)
    called = f"{name}.apply(params, observation) with an observation of shape {shape}"
    output = _shapes(called, network.apply, params, observation)
    given = getattr(output, "shape", None)
    if given != (values,):
        raise ValueError(
            f"{called} gives {'a ' + type(output).__name__ if given is None else f'shape {given}'};"
            f" ({values},) is accepted: {of_what}"
        )


def _shapes(called: str, function: Any, *arguments: Any) -> Any:
    """Returns the shapes of a function's result; its error names the call that caused it."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        raise ValueError(f"{called} fails: {type(error).__name__}: {error}") from error
