"""Gradient PPO (Elelimy et al., 2025): PPO whose critic follows a gradient TD(λ) rule.

This file has all that differs from `ppo.py`. Minibatches hold whole sequences; along each, the
TD(λ) error and its gradient are computed again with the current critic; a third network learns h,
the expected TD(λ) error, which makes the critic's update a true gradient.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped

from eligrad import rules
from eligrad.agents import auxiliary
from eligrad.agents.policies import over_batch
from eligrad.agents.ppo import ActorCritic, Batch, Networks, norm
from eligrad.agents.protocol import Metrics, Rollout
from eligrad.agents.settings import GradientPPOConfig

jax.tree_util.register_dataclass(GradientPPOConfig)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GradientPPO(ActorCritic):
    """The critic and h follow a gradient rule along the sequences of each minibatch."""

    config: GradientPPOConfig

    @property
    def _rule(self) -> rules.Rule:
        return rules.get(self.config.rule)

    def _init_networks(self, key: PRNGKeyArray, observation: Array) -> Networks:
        networks = super()._init_networks(key, observation)
        if not self._rule.has_auxiliary:
            return networks
        *_, key = jax.random.split(key, 3)
        theta = auxiliary.init(self.config, self.critic, key, 0.0, networks.critic, observation)
        return networks._replace(auxiliary=theta)

    def _step_sizes(self) -> Networks:
        return super()._step_sizes()._replace(auxiliary=self.config.h_step_size)

    def _cut(self, array: Shaped[Array, "time envs ..."]) -> Shaped[Array, "units ..."]:
        """Cuts an array of the rollout into the sequences that minibatches are drawn from."""
        by_env = jnp.moveaxis(array, 1, 0)
        return by_env.reshape(-1, self.config.sequence, *array.shape[2:])

    def _criticise(
        self, networks: Networks, batch: Batch, ratio: Float[Array, "units time"]
    ) -> tuple[Float[Array, ""], Float[Array, "units time"], Metrics]:
        """The critic's loss and h's, the advantages for the policy, and the metrics."""
        c, rule, seen = self.config, self._rule, batch.rollout
        rho = jax.lax.stop_gradient(ratio) if c.importance_sampling else None
        loss, value, following, h = self._critic_loss(rule, networks, seen, rho)
        error = rules.td_error(value, seen.reward, self._discount(seen), following)
        fresh = functools.partial(self._lambda_errors, values="action")
        # The policy's loss has the ratio of the action itself; its advantage those of later ones.
        advantage = jax.vmap(fresh)(error, seen, rho)
        error = jax.lax.stop_gradient(jax.vmap(self._lambda_errors)(error, seen, rho))
        metrics = {"lambda_error": jnp.sqrt(jnp.mean(jnp.square(error)))}
        if rule.has_auxiliary:
            metrics["abs_h"] = jnp.mean(jnp.abs(h))
            # The projected Bellman error is the maximum of this over all h.
            metrics["pbe"] = jnp.mean(2.0 * error * h - jnp.square(h))
        return loss, advantage if c.advantage == "fresh" else batch.advantage, metrics

    def _critic_loss(
        self, rule: rules.Rule, networks: Networks, seen: Rollout, rho: Any
    ) -> tuple[Float[Array, ""], Array, Array, Any]:
        """The loss of the critic and h by a rule; the values of both ends of transitions, and h."""
        value, following, features = self._values_along(networks.critic, seen)
        h: Any = None
        options: dict[str, Any] = {}
        if rule.has_auxiliary:
            h = self._h(networks.auxiliary, seen.observation, features)
            options = auxiliary.rule_options(self.config, self.critic, networks.auxiliary)

        def loss_along(value: Array, following: Array, h: Any, rho: Any, seen: Rollout) -> Array:
            return rule.loss(
                value,
                seen.reward,
                self._discount(seen),
                following,
                h,
                lam=self.config.lam,
                truncated_t=seen.truncated,
                rho_tm1=rho,
                **options,
            )

        loss = jnp.mean(jax.vmap(loss_along)(value, following, h, rho, seen))
        return loss, value, following, h

    def _health(self, networks: Networks, batch: Batch) -> Metrics:
        """Whether h is active: its size against the TD(λ) errors, and the correction's share."""
        if not self._rule.has_auxiliary:
            return {}
        seen, rho = batch.rollout, None
        if self.config.importance_sampling:
            policy = over_batch(self.policy, 2)(networks.actor, seen.observation)
            rho = jnp.exp(policy.log_prob(seen.action) - batch.log_prob)

        def gradient(rule: rules.Rule) -> PyTree:
            def loss(critic: PyTree) -> Array:
                return self._critic_loss(rule, networks._replace(critic=critic), seen, rho)[0]

            return jax.grad(loss)(networks.critic)

        _, value, following, h = self._critic_loss(self._rule, networks, seen, rho)
        error = rules.td_error(value, seen.reward, self._discount(seen), following)
        error = jax.vmap(self._lambda_errors)(error, seen, rho)
        semi = gradient(rules.get("td"))
        gap = jax.tree.map(jnp.subtract, gradient(self._rule), semi)
        return {
            "h_to_td_error": jnp.mean(jnp.abs(h)) / jnp.mean(jnp.abs(error)),
            "h_td_error_correlation": jnp.corrcoef(h.ravel(), error.ravel())[0, 1],
            "correction_share": norm(gap) / norm(semi),
        }

    def _h(
        self, theta: PyTree, observation: Array, features: Array | None
    ) -> Float[Array, "units time"]:
        """h of the states that were acted in."""

        def one(observation: Array, features: Array | None) -> Array:
            return auxiliary.apply(self.critic, theta, observation, features)[0]

        return jax.vmap(jax.vmap(one))(observation, features)

    def _values_along(self, critic: PyTree, seen: Rollout) -> tuple[Array, Array, Array | None]:
        """Values of both ends of every transition; features of the first end, if h needs them.

        One pass over time + 1 states, unless an episode was cut off within a sequence: what is
        then bootstrapped from is not the state that follows. Accelerators take all runs at once and
        would compute both ways of a choice: there it is always two passes over time states.
        """

        evaluate = over_batch(auxiliary.evaluation(self.config, self.critic), 2)

        def once(critic: PyTree) -> tuple[Array, Array, Array | None]:
            last = seen.next_observation[:, -1:]
            states = jnp.concatenate([seen.observation, last], axis=1)
            values, features = evaluate(critic, states)
            if features is not None:
                features = features[:, :-1]
            return values[:, :-1, 0], values[:, 1:, 0], features

        def twice(critic: PyTree) -> tuple[Array, Array, Array | None]:
            values, features = evaluate(critic, seen.observation)
            following = self._values(critic, seen.next_observation, axes=2)
            return values[..., 0], following, features

        if jax.default_backend() != "cpu":
            return twice(critic)
        return jax.lax.cond(jnp.any(seen.truncated[:, :-1]), twice, once, critic)
