"""Policies over discrete and continuous actions: a distribution, and the network that shapes it.

A sample is a function of the distribution and of noise that was drawn before, so that the noise of
a whole rollout is drawn at once. What the policy samples is what it learns from; the environment
gets `to_environment` of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from eligrad._base.array_checks import Number
from eligrad.agents.network import Network, check_network
from eligrad.envs.spaces import Discrete, MultiDiscrete, Space


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MultiCategorical:
    """Several independent choices; choice i has `sizes[i]` of the logits."""

    logits: Float[Array, "... all_choices"]
    sizes: tuple[int, ...] = dataclasses.field(metadata={"static": True})

    def _parts(self, numbers: Float[Array, "... all_choices"]) -> list[Categorical]:
        ends = np.cumsum(self.sizes)[:-1].tolist()
        return [Categorical(part) for part in jnp.split(numbers, ends, axis=-1)]

    def sample(self, noise: Float[Array, "... all_choices"]) -> Int[Array, "... choices"]:
        """All choices, from Gumbel noise."""
        return MultiCategorical(self.logits + noise, self.sizes).mode()

    def mode(self) -> Int[Array, "... choices"]:
        """The most likely choices."""
        return jnp.stack([each.mode() for each in self._parts(self.logits)], axis=-1)

    def log_prob(self, action: Int[Array, "... choices"]) -> Float[Array, "..."]:
        """The logarithm of the probability of all choices together."""
        parts = enumerate(self._parts(self.logits))
        return sum((each.log_prob(action[..., i]) for i, each in parts), jnp.float32(0.0))

    def entropy(self) -> Float[Array, "..."]:
        """The entropy of all choices together."""
        return sum((each.entropy() for each in self._parts(self.logits)), jnp.float32(0.0))


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


Distribution = Categorical | MultiCategorical | DiagonalGaussian


@runtime_checkable
class Policy(Protocol):
    """What an agent needs of a policy."""

    def init(self, key: PRNGKeyArray, sparsity: Number = 0.0) -> PyTree:
        """Parameters; that share of each unit's weights is 0, if the network knows how."""
        ...

    def __call__(self, params: Any, observation: Array) -> Distribution:
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
    """Chooses among `choices` actions; the network gives their logits.

    With `sizes` an action is several choices, of that many actions each: `choices` in all.
    """

    network: Network
    choices: int
    sizes: tuple[int, ...] | None = None

    def init(self, key: PRNGKeyArray, sparsity: Number = 0.0) -> PyTree:
        """The network's parameters."""
        return self.network.make_params(key, sparsity)

    def __call__(self, params: PyTree, observation: Array) -> Categorical | MultiCategorical:
        """The distribution in one observation."""
        logits = self.network.apply(params, observation)
        return Categorical(logits) if self.sizes is None else MultiCategorical(logits, self.sizes)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Gumbel noise, a number for each choice."""
        return jax.random.gumbel(key, (*shape, self.choices), jnp.float32)

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

    Entries without both bounds are passed on as they are. Deviations do not depend on the state.
    """

    network: Network
    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    """Of the environment's actions; the policy's own are flat."""
    per_entry: ClassVar[int] = 1
    """Numbers that the network gives for each entry of the action: a mean."""

    def init(self, key: PRNGKeyArray, sparsity: Number = 0.0) -> PyTree:
        """The network's parameters, and deviations of 1."""
        zeros = jnp.zeros(len(self.low), jnp.float32)
        return GaussianParams(self.network.make_params(key, sparsity), zeros)

    def __call__(self, params: Any, observation: Array) -> DiagonalGaussian:
        """The distribution in one observation."""
        return DiagonalGaussian(self.network.apply(params.network, observation), params.log_std)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Standard normal noise, a number for each entry."""
        return jax.random.normal(key, (*shape, len(self.low)), jnp.float32)

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


@dataclasses.dataclass(frozen=True)
class SoftplusGaussianPolicy(GaussianPolicy):
    """A Gaussian policy whose deviations depend on the state, too.

    The network gives all means, and then the numbers whose softplus the deviations are.
    """

    per_entry: ClassVar[int] = 2

    def init(self, key: PRNGKeyArray, sparsity: Number = 0.0) -> PyTree:
        """The network's parameters."""
        return self.network.make_params(key, sparsity)

    def __call__(self, params: PyTree, observation: Array) -> DiagonalGaussian:
        """The distribution in one observation."""
        mean, deviation = jnp.split(self.network.apply(params, observation), 2)
        return DiagonalGaussian(mean, log_softplus(deviation))


def log_softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log(log(1 + eˣ)), which is x itself, to single precision, from -15 downwards."""
    return jnp.where(x < -15.0, x, jnp.log(jax.nn.softplus(jnp.maximum(x, -15.0))))


def make_policy(
    action_space: Space,
    network: Network | None,
    default: Callable[[int], Network],
    gaussian: type[GaussianPolicy] = GaussianPolicy,
) -> DiscretePolicy | GaussianPolicy:
    """The policy for an action space.

    Args:
        action_space: of the environment.
        network: the policy's, or None for the default.
        default: makes a network with so many outputs.
        gaussian: the policy for continuous actions.
    """
    if isinstance(action_space, Discrete):
        return DiscretePolicy(network or default(action_space.n), action_space.n)
    if isinstance(action_space, MultiDiscrete):
        choices = sum(action_space.nvec)
        return DiscretePolicy(network or default(choices), choices, action_space.nvec)
    low, high = (
        tuple(np.broadcast_to(bound, action_space.shape).astype(float).ravel().tolist())
        for bound in (action_space.low, action_space.high)
    )
    network = network or default(gaussian.per_entry * len(low))
    return gaussian(network, low, high, action_space.shape)


def check_policy(policy: Any, observation_space: Space, action_space: Space) -> None:
    """Refuses a policy of this module that does not fit the spaces."""
    if isinstance(policy, DiscretePolicy):
        ours = policy.choices if policy.sizes is None else policy.sizes
        actions = getattr(action_space, "n", getattr(action_space, "nvec", "continuous"))
        if ours != actions:
            raise ValueError(f"policy chooses among {ours} actions; there are {actions}")
        outputs, of_what = policy.choices, "a logit for each action"
    elif isinstance(policy, GaussianPolicy):
        outputs, of_what = policy.per_entry * len(policy.low), "a mean for each action entry"
        if policy.per_entry == 2:
            of_what += ", and then a number for each deviation"
    else:
        return
    check_network("policy.network", policy.network, observation_space, outputs, of_what)


def over_batch(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """`function(params, observation)` over that many leading axes of the observation."""
    for _ in range(axes):
        function = jax.vmap(function, (None, 0))
    return function
