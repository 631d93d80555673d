"""Proximal policy optimisation (Schulman et al., 2017), as it is usually implemented.

An actor and a critic, two networks, learn from rollouts: `act` chooses actions, `normalize` takes
the transitions, and `learn` improves both networks over several epochs of minibatches. All are pure
functions of a state, which is one pytree. `gradient_ppo.py` is this agent with another critic.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from eligrad import normalize, rules
from eligrad.agents.network import Network, ppo_network
from eligrad.agents.policies import over_batch
from eligrad.agents.policy_agent import PolicyAgent
from eligrad.agents.protocol import DIVERGED, Metrics, Rollout, RolloutAgent, Transition
from eligrad.agents.settings import ActorCriticConfig, PPOConfig
from eligrad.agents.streaming import NormalizedTransition, Normalizer
from eligrad.rules.multistep import Values

jax.tree_util.register_dataclass(ActorCriticConfig)
jax.tree_util.register_dataclass(PPOConfig)

OBSERVATION_CLIP = 10.0
REWARD_CLIP = 10.0
ADAM_EPSILON = 1e-5


class Networks(NamedTuple):
    """One entry for each network: its parameters, its optimiser's state, its gradient's norm."""

    actor: Any
    critic: Any
    auxiliary: Any
    """h of a gradient rule; None without one."""


class PPOState(NamedTuple):
    """The whole state of the agent between two rollouts."""

    networks: Networks
    optimizers: Networks
    normalizer: Normalizer
    observation: Float[Array, "envs ..."]
    """The current observations, normalised."""
    step: Int[Array, ""]
    """Environment steps learned from."""


class Batch(NamedTuple):
    """Units of a rollout, with values and advantages at its end; leading axes [units, …]."""

    rollout: Rollout
    log_prob: Float[Array, "..."]
    value: Float[Array, "..."]
    advantage: Float[Array, "..."]
    """The TD(λ) error along the whole rollout, also known as GAE."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ActorCritic(PolicyAgent, RolloutAgent):
    """The agent without the critic's loss: pure `init`, `act`, `normalize` and `learn`."""

    progress_metrics = ("approximate_kl", "explained_variance")
    observation_clip, reward_clip = OBSERVATION_CLIP, REWARD_CLIP

    config: ActorCriticConfig

    @staticmethod
    def _default_network(shape: tuple[int, ...], values: int, output_gain: float) -> Network:
        return ppo_network(shape, values, output_gain)

    def init(self, key: PRNGKeyArray, observation: Shaped[Array, "envs ..."]) -> PPOState:
        """The state at the first observations, before the first action."""
        self.config.check()
        networks = self._init_networks(key, observation[0])
        stats = normalize.init_stats(observation.shape[1:])
        stats = normalize.update_batch(stats, observation)
        scale = normalize.init_reward_scale(observation.shape[:1])
        return PPOState(
            networks=networks,
            optimizers=Networks(*(_optimizer.init(network) for network in networks)),
            normalizer=Normalizer(stats, scale),
            observation=normalize.normalize(stats, observation, clip=OBSERVATION_CLIP),
            step=jnp.zeros((), jnp.int32),
        )

    def _init_networks(self, key: PRNGKeyArray, observation: Array) -> Networks:
        """First parameters, of networks that take observations of that shape."""
        del observation
        actor_key, critic_key, _ = jax.random.split(key, 3)
        return Networks(self.policy.init(actor_key), self.critic.make_params(critic_key), None)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """The random numbers for `shape` actions."""
        return self.policy.noise(key, shape)

    def actor(self, state: PPOState) -> PyTree:
        """The policy's parameters."""
        return state.networks.actor

    def _value_params(self, state: PPOState) -> tuple[PyTree, PyTree]:
        return state.networks.critic, state.networks.auxiliary

    def act(
        self, actor: PyTree, observation: Float[Array, "envs ..."], noise: Float[Array, "envs ..."]
    ) -> tuple[Array, Array]:
        """Actions for all environments: as the policy samples them, as environments take them."""
        action = over_batch(self.policy, 1)(actor, observation).sample(noise)
        return action, self.policy.to_environment(action)

    def normalize(
        self, normalizer: Normalizer, transition: Transition
    ) -> tuple[Normalizer, NormalizedTransition]:
        """Updates the statistics with a transition of all environments, and normalises it."""
        ended = transition.terminated | transition.truncated
        rewards = normalize.update_reward_scale(
            normalizer.rewards, transition.reward, ended, self.config.gamma
        )
        stats = normalize.update_batch(normalizer.observations, transition.observation)
        reward = normalize.scale_reward(rewards, transition.reward)
        return Normalizer(stats, rewards), NormalizedTransition(
            jnp.clip(reward, -REWARD_CLIP, REWARD_CLIP),
            normalize.normalize(stats, transition.next_observation, clip=OBSERVATION_CLIP),
            normalize.normalize(stats, transition.observation, clip=OBSERVATION_CLIP),
        )

    def interrupt(self, state: PPOState, observation: Shaped[Array, "envs ..."]) -> PPOState:
        """Continues in other episodes, whose first observations these are."""
        stats = normalize.update_batch(state.normalizer.observations, observation)
        rewards = state.normalizer.rewards
        rewards = rewards._replace(trace=jnp.zeros_like(rewards.trace))
        return state._replace(
            normalizer=Normalizer(stats, rewards),
            observation=normalize.normalize(stats, observation, clip=OBSERVATION_CLIP),
        )

    def diverged(self, metrics: dict[str, np.ndarray]) -> Bool[np.ndarray, "runs rollouts"]:
        """Where runs diverge: TD(λ) errors beyond `DIVERGED`, or a policy that is NaN."""
        wild = ~(metrics["lambda_error"] <= DIVERGED)
        # A policy can be NaN while its critic is finite.
        return wild | np.isnan(metrics["approximate_kl"])

    def learn(
        self, state: PPOState, rollout: Rollout, key: PRNGKeyArray
    ) -> tuple[PPOState, Metrics]:
        """All epochs of one update; the caller updates normalizer and observation."""
        c = self.config
        batch = jax.tree.map(self._cut, self._assess(state.networks, rollout))
        units, together = c.rollout // c.unit, c.minibatch_size // c.unit
        keys = jax.random.split(key, c.epochs)
        orders = jax.vmap(lambda key: jax.random.permutation(key, units))(keys)

        def descend(carry: Any, places: Int[Array, " units"]) -> tuple[Any, Metrics]:
            networks, optimizers, ended = carry
            minibatch = jax.tree.map(lambda array: array[places], batch)
            gradient, metrics = jax.grad(self._loss, has_aux=True)(networks, minibatch)
            ended |= (c.target_kl > 0) & (metrics["approximate_kl"] > c.target_kl)
            moved = self._move(networks, optimizers, gradient, state.step)
            networks, optimizers = jax.tree.map(
                lambda old, new: jnp.where(ended, old, new), (networks, optimizers), moved
            )
            norms = {f"{name}_gradient_norm": norm(g) for name, g in gradient._asdict().items()}
            metrics |= norms | {"applied": (~ended).astype(jnp.float32)}
            return (networks, optimizers, ended), metrics

        initial = (state.networks, state.optimizers, jnp.zeros((), bool))
        places = orders.reshape(-1, together)
        (networks, optimizers, _), metrics = jax.lax.scan(descend, initial, places)
        metrics = {name: jnp.mean(values) for name, values in metrics.items()}
        metrics |= self._health(networks, jax.tree.map(lambda array: array[places[-1]], batch))
        target = batch.value + batch.advantage
        metrics["explained_variance"] = 1.0 - jnp.var(batch.advantage) / jnp.var(target)
        step = state.step + jnp.int32(c.rollout)
        return state._replace(networks=networks, optimizers=optimizers, step=step), metrics

    def _assess(self, networks: Networks, rollout: Rollout) -> Batch:
        """The rollout with the old policy's log-probabilities, values and advantages."""
        policy = over_batch(self.policy, 2)(networks.actor, rollout.observation)
        value = self._values(networks.critic, rollout.observation, axes=2)
        following = self._values(networks.critic, rollout.next_observation, axes=2)
        error = rules.td_error(value, rollout.reward, self._discount(rollout), following)
        advantage = jax.vmap(self._lambda_errors, in_axes=1, out_axes=1)(error, rollout)
        return Batch(rollout, policy.log_prob(rollout.action), value, advantage)

    def _cut(self, array: Shaped[Array, "time envs ..."]) -> Shaped[Array, "units ..."]:
        """Cuts an array of the rollout into the units that minibatches are drawn from."""
        return array.reshape(-1, *array.shape[2:])

    def _loss(self, networks: Networks, batch: Batch) -> tuple[Float[Array, ""], Metrics]:
        """The policy's loss and the critic's; no parameter is in both."""
        c = self.config
        seen = batch.rollout
        policy = over_batch(self.policy, seen.reward.ndim)(networks.actor, seen.observation)
        log_ratio = policy.log_prob(seen.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        critic_loss, advantage, metrics = self._criticise(networks, batch, ratio)
        advantage = jax.lax.stop_gradient(advantage)
        advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage, ddof=1) + 1e-8)
        clipped = jnp.clip(ratio, 1.0 - c.clip, 1.0 + c.clip)
        policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = jnp.mean(policy.entropy())
        return policy_loss - c.entropy_bonus * entropy + critic_loss, metrics | {
            "policy_loss": policy_loss,
            "critic_loss": critic_loss,
            "entropy": entropy,
            "approximate_kl": jnp.mean(ratio - 1.0 - log_ratio),
            "clip_fraction": jnp.mean((jnp.abs(ratio - 1.0) > c.clip).astype(jnp.float32)),
        }

    @abstractmethod
    def _criticise(
        self, networks: Networks, batch: Batch, ratio: Float[Array, "..."]
    ) -> tuple[Float[Array, ""], Float[Array, "..."], Metrics]:
        """The critic's loss, the advantages for the policy, and the metrics."""

    def _health(self, networks: Networks, batch: Batch) -> Metrics:
        """The metrics of h after an update; none for an agent without h."""
        del networks, batch
        return {}

    def _move(
        self, networks: Networks, optimizers: Networks, gradient: Networks, step: Int[Array, ""]
    ) -> tuple[Networks, Networks]:
        """One step of each network's own optimiser."""
        c = self.config
        left = 1.0 - step.astype(jnp.float32) / jnp.maximum(c.anneal_steps, 1.0)
        left = jnp.where(jnp.asarray(c.anneal_steps) > 0, jnp.maximum(left, 0.0), 1.0)
        moved = []
        for params, optimizer, g, size in zip(
            networks, optimizers, gradient, self._step_sizes(), strict=True
        ):
            limit = jnp.where(jnp.asarray(c.max_gradient_norm) > 0, c.max_gradient_norm, jnp.inf)
            shrink = jnp.minimum(1.0, limit / jnp.maximum(norm(g), 1e-12))
            g = jax.tree.map(lambda leaf, by=shrink: leaf * by, g)
            # Adam's bias correction does not trace under strict promotion.
            with jax.numpy_dtype_promotion("standard"):
                direction, optimizer = _optimizer.update(g, optimizer)
            by = -left * size
            params = jax.tree.map(lambda p, d, by=by: p + by * d, params, direction)
            moved.append((params, optimizer))
        return Networks(*(m[0] for m in moved)), Networks(*(m[1] for m in moved))

    def _step_sizes(self) -> Networks:
        return Networks(self.config.actor_step_size, self.config.critic_step_size, 0.0)

    def _values(self, params: PyTree, observation: Array, axes: int) -> Float[Array, "..."]:
        """Values, v or h, of observations with that many leading axes."""
        return over_batch(self.critic.apply, axes)(params, observation)[..., 0]

    def _discount(self, rollout: Rollout) -> Float[Array, "..."]:
        gamma = jnp.asarray(self.config.gamma, jnp.float32)
        return jnp.where(rollout.terminated, 0.0, gamma)

    def _lambda_errors(
        self, error: Array, rollout: Rollout, rho: Any = None, values: Values = "state"
    ) -> Float[Array, " time"]:
        """TD(λ) errors of one sequence of one-step errors."""
        return rules.lambda_errors(
            error,
            self._discount(rollout),
            self.config.lam,
            truncated_t=rollout.truncated,
            rho_tm1=rho,
            values=values,
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PPO(ActorCritic):
    """The critic regresses on returns that were estimated before the update."""

    config: PPOConfig

    def _criticise(
        self, networks: Networks, batch: Batch, ratio: Float[Array, "..."]
    ) -> tuple[Float[Array, ""], Float[Array, "..."], Metrics]:
        """The critic's loss, the advantages for the policy, and the metrics."""
        del ratio
        c = self.config
        target = batch.value + batch.advantage
        value = self._values(networks.critic, batch.rollout.observation, axes=1)
        near = batch.value + jnp.clip(value - batch.value, -c.value_clip, c.value_clip)
        loss = jnp.square(value - target)
        loss = jnp.where(
            jnp.asarray(c.value_clip) > 0, jnp.maximum(loss, jnp.square(near - target)), loss
        )
        metrics = {"lambda_error": jnp.sqrt(jnp.mean(jnp.square(batch.advantage)))}
        return 0.5 * jnp.mean(loss), batch.advantage, metrics


_optimizer = optax.scale_by_adam(eps=ADAM_EPSILON)


def norm(tree: PyTree) -> Float[Array, ""]:
    """The Euclidean norm of all entries together."""
    squares = (jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree))
    return jnp.sqrt(sum(squares, jnp.zeros((), jnp.float32)))
