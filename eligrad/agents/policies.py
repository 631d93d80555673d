"""Policies over discrete and continuous actions: a distribution, and the network that shapes it.

A sample is a function of the distribution and of noise that was drawn before, so that the noise of
a whole rollout is drawn at once. What the policy samples is what it learns from; the environment
gets `to_environment` of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from eligrad.agents.network import Network


class Categorical(NamedTuple):
    """One of n choices."""

    logits: Float[Array, "... choices"]

    def sample(self, noise: Float[Array, "... choices"]) -> Int[Array, "..."]:
        """A choice, from Gumbel noise."""
        return jnp.argmax(self.logits + noise, axis=-1).astype(jnp.int32)

    def mode(self) -> Int[Array, "..."]:
        """The most likely choice."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: Int[Array, "..."]) -> Float[Array, "..."]:
        """The logarithm of an action's probability."""
        log_probs = jax.nn.log_softmax(self.logits)
        chosen = jax.nn.one_hot(action, self.logits.shape[-1], dtype=bool)
        return jnp.sum(jnp.where(chosen, log_probs, 0.0), axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """The entropy."""
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class DiagonalGaussian(NamedTuple):
    """Independent normal distributions, one for each entry of the action."""

    mean: Float[Array, "... entries"]
    log_std: Float[Array, "... entries"]

    def sample(self, noise: Float[Array, "... entries"]) -> Float[Array, "... entries"]:
        """An action, from standard normal noise."""
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "... entries"]:
        """The most likely action."""
        return self.mean

    def log_prob(self, action: Float[Array, "... entries"]) -> Float[Array, "..."]:
        """The logarithm of an action's density."""
        distance = (action - self.mean) * jnp.exp(-self.log_std)
        terms = -0.5 * jnp.square(distance) - self.log_std - 0.5 * math.log(2 * math.pi)
        return jnp.sum(terms, axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """The entropy."""
        return jnp.sum(self.log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)


@runtime_checkable
class Policy(Protocol):
    """What PPO needs of a policy."""

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Of the noise that one action takes."""
        ...

    def init(self, key: PRNGKeyArray) -> PyTree:
        """Parameters."""
        ...

    def __call__(self, params: Any, observation: Array) -> Categorical | DiagonalGaussian:
        """The distribution in one observation."""
        ...

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Noise for `shape` actions."""
        ...

    def to_environment(self, action: Array) -> Array:
        """The action as the environment takes it."""
        ...


@dataclasses.dataclass(frozen=True)
class DiscretePolicy:
    """Chooses among `choices` actions; the network gives their logits."""

    network: Network
    choices: int

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """One number for each choice."""
        return (self.choices,)

    def init(self, key: PRNGKeyArray) -> PyTree:
        """The network's parameters."""
        return self.network.make_params(key)

    def __call__(self, params: PyTree, observation: Array) -> Categorical:
        """The distribution in one observation."""
        return Categorical(self.network.apply(params, observation))

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Gumbel noise."""
        return jax.random.gumbel(key, (*shape, *self.noise_shape), jnp.float32)

    def to_environment(self, action: Int[Array, "..."]) -> Int[Array, "..."]:
        """The choice itself."""
        return action


class GaussianParams(NamedTuple):
    """A network of means, and deviations that do not depend on the state."""

    network: Any
    log_std: Float[Array, " entries"]


@dataclasses.dataclass(frozen=True)
class GaussianPolicy:
    """Acts in a box: [-1, 1] of the policy is [low, high] of the environment, clipped there.

    Entries without both bounds are passed on as they are.
    """

    network: Network
    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    """Of the environment's actions; the policy's own are flat."""

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """One number for each entry."""
        return (len(self.low),)

    def init(self, key: PRNGKeyArray) -> GaussianParams:
        """The network's parameters, and deviations of 1."""
        zeros = jnp.zeros(self.noise_shape, jnp.float32)
        return GaussianParams(self.network.make_params(key), zeros)

    def __call__(self, params: GaussianParams, observation: Array) -> DiagonalGaussian:
        """The distribution in one observation."""
        return DiagonalGaussian(self.network.apply(params.network, observation), params.log_std)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Standard normal noise."""
        return jax.random.normal(key, (*shape, *self.noise_shape), jnp.float32)

    def to_environment(self, action: Float[Array, "... entries"]) -> Float[Array, "..."]:
        """The action stretched to the environment's range, and clipped to it."""
        low, high = (
            np.broadcast_to(np.asarray(bound, np.float32), action.shape)
            for bound in (self.low, self.high)
        )
        bounded = np.isfinite(low) & np.isfinite(high)
        begin = np.where(bounded, low, np.float32(-1))
        end = np.where(bounded, high, np.float32(1))
        middle, half = 0.5 * begin + 0.5 * end, 0.5 * end - 0.5 * begin
        stretched = action
        if middle.any() or (half != 1).any():
            stretched = middle + half * action
        stretched = jnp.clip(stretched, low, high)
        return stretched.reshape(action.shape[:-1] + self.shape)


def over_batch(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """`function(params, observation)` over that many leading axes of the observation."""
    for _ in range(axes):
        function = jax.vmap(function, (None, 0))
    return function
