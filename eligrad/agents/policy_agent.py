"""What agents with a policy share, whether they learn from steps or from rollouts."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped

from eligrad import normalize
from eligrad.agents import auxiliary
from eligrad.agents.network import Network, check_network
from eligrad.agents.policies import GaussianPolicy, Policy, check_policy, make_policy, over_batch
from eligrad.agents.protocol import Agent, Inspection
from eligrad.agents.settings import STATIC, HSettings

A = TypeVar("A", bound="PolicyAgent")


@dataclasses.dataclass(frozen=True)
class PolicyAgent(Agent):
    """An agent with a policy and a critic; its state has the field `normalizer`."""

    observation_clip: ClassVar[float | None] = None
    """Normalised observations are kept within ± this."""
    reward_clip: ClassVar[float] = np.inf
    """Scaled rewards are kept within ± this."""
    gaussian: ClassVar[type[GaussianPolicy]] = GaussianPolicy
    """The policy for continuous actions."""

    config: Any
    policy: Policy = dataclasses.field(metadata=STATIC)
    critic: Network = dataclasses.field(metadata=STATIC)
    """State values, as a vector of one entry; h has its shape or is linear in its features."""

    @classmethod
    def make(
        cls: type[A], config: Any, observation_space: Any, action_space: Any, network: Any = None
    ) -> A:
        """The agent for an environment's spaces, with the default networks unless some are given.

        Args:
            config: the settings.
            observation_space: of the environment.
            action_space: of the environment.
            network: a pair of your own, (policy, critic), or None.
        """
        shape = observation_space.shape
        if network is None:
            network = (None, cls._default_network(shape, 1, 1.0))
        elif not isinstance(network, tuple) or len(network) != 2:
            raise ValueError(f"network is {network!r}; a pair (policy, critic) is accepted")
        own, critic = network
        policy = make_policy(
            action_space,
            own,
            lambda values: cls._default_network(shape, values, 0.01),
            cls.gaussian,
        )
        return cls(config, policy, critic)

    @staticmethod
    @abstractmethod
    def _default_network(shape: tuple[int, ...], values: int, output_gain: float) -> Network:
        """The network of policy or critic for observations of that shape."""

    @abstractmethod
    def actor(self, state: Any) -> PyTree:
        """The policy's parameters."""

    @abstractmethod
    def _value_params(self, state: Any) -> tuple[PyTree, PyTree]:
        """The parameters of the critic, and those of h or None."""

    def _normalized(self, state: Any, observation: Shaped[Array, "..."]) -> Float[Array, "..."]:
        """Raw observations as the networks take them; the statistics are not changed."""
        stats = state.normalizer.observations
        return normalize.normalize(stats, observation, clip=self.observation_clip)

    def greedy_action(self, state: Any, observation: Shaped[Array, "..."]) -> Array:
        """The most likely action in one raw observation, without changing the statistics."""
        policy = self.policy(self.actor(state), self._normalized(state, observation))
        return self.policy.to_environment(policy.mode())

    def sampled_action(
        self, state: Any, observation: Shaped[Array, "..."], key: PRNGKeyArray
    ) -> Array:
        """An action as in training, in one raw observation, without changing the statistics."""
        policy = self.policy(self.actor(state), self._normalized(state, observation))
        return self.policy.to_environment(policy.sample(self.policy.noise(key, ())))

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Raises ValueError for networks that do not fit."""
        check_policy(self.policy, observation_space, action_space)
        check_network("critic", self.critic, observation_space, 1, "the value of a state")
        if isinstance(self.config, HSettings):
            auxiliary.check_network(self.config, self.critic)

    def remarks(self, columns: dict[str, np.ndarray]) -> list[str]:
        """A remark if the gradient correction is inactive at the end of a run."""
        if not isinstance(self.config, HSettings):
            return []
        return auxiliary.remarks(self.config, columns)

    def inspect(self, state: Any, observations: Any, actions: Any, rewards: Any) -> Inspection:
        """State values and h along an episode."""
        del actions
        seen = self._normalized(state, jnp.asarray(observations))

        def along(function: Callable[..., Array], params: PyTree) -> np.ndarray:
            values = jax.jit(over_batch(function, 1))(params, seen)
            return np.asarray(values[:, 0], np.float64)

        w, theta = self._value_params(state)
        values, h = along(self.critic.apply, w), None
        if theta is not None:
            h = along(auxiliary.whole(self.config, self.critic), (w, theta))[:-1]
        scaled = normalize.scale_reward(state.normalizer.rewards, jnp.asarray(rewards, jnp.float32))
        return Inspection(
            values=values[:-1],
            next_values=values[1:],
            h=h,
            rewards=np.clip(np.asarray(scaled, np.float64), -self.reward_clip, self.reward_clip),
            discount=float(np.asarray(self.config.gamma)),
            of_actions=False,
        )
