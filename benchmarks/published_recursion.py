r"""Does the wrong recursion for ∇D in the paper's published code matter?

    python -m benchmarks.published_recursion --steps 300000 --seeds 10 --tasks HalfCheetah-v4 Hopper-v4 \
      --variants tdrc-fresh tdrc-fresh-published --runs runs/recursion --out results/recursion
    python -m benchmarks.results

The gradient of the TD(λ) error is $\nabla D_t = \nabla\delta_t + \gamma\lambda \nabla D_{t+1}$. The
published code multiplies $\nabla\delta_t$ into what is carried, entry by entry:
$G_t = \nabla\delta_t + \gamma\lambda \nabla\delta_t \odot G_{t+1}$, with 0 in place of γ where the
episode ended. Here that alone is made again; everything else is the library's Gradient PPO.
`slowest_mode` says exactly what it does on finite problems with linear values.
"""  # noqa: E501

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, PyTree

from benchmarks import mujoco_learning
from eligrad import agents, rules
from eligrad.agents.gradient_ppo import GradientPPO
from eligrad.agents.policies import over_batch
from eligrad.agents.ppo import Networks
from eligrad.agents.protocol import Rollout
from eligrad.problems import LinearProblem
from eligrad.problems.problem import terms
from eligrad.rules.multistep import Recursion, recursion

RULES = ("tdrc", "tdc", "gtd2")
AGENT = "gradient-ppo-published"
LENGTH = 32
"""Steps of a sequence."""
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{rule}-fresh-published": (AGENT, {"rule": rule, "advantage": "fresh"}) for rule in RULES
}


def published_gradients(
    grad_v_tm1: PyTree,
    grad_v_t: PyTree,
    discount_t: Float[Array, " time"],
    lam: Any,
    *,
    truncated_t: Any = None,
    rho_tm1: Any = None,
) -> PyTree:
    """What the published code takes for ∇D; arguments as of `rules.lambda_error_gradients`."""
    coefficients = recursion(discount_t, lam, truncated_t, rho_tm1, "state")

    def per_leaf(before: Array, after: Array) -> Array:
        grad_delta = discount_t.reshape((-1,) + (1,) * (before.ndim - 1)) * after - before

        def step(carried: Array, now: tuple[Array, Recursion]) -> tuple[Array, Array]:
            g, (weight, decay) = now
            here = weight * g + decay * g * carried  # right would be without the second g
            return here, here

        nothing = jnp.zeros_like(before[0])
        return jax.lax.scan(step, nothing, (grad_delta, coefficients), reverse=True)[1]

    return jax.tree.map(per_leaf, grad_v_tm1, grad_v_t)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PublishedGradientPPO(GradientPPO):
    """Gradient PPO whose critic takes another ∇D; h, policy and advantages are as they were."""

    def _critic_loss(
        self, rule: rules.Rule, networks: Networks, seen: Rollout, rho: Any
    ) -> tuple[Float[Array, ""], Array, Array, Any]:
        if not rule.has_auxiliary:
            return super()._critic_loss(rule, networks, seen, rho)
        critic = jax.lax.stop_gradient(networks.critic)
        fixed = networks._replace(critic=critic)
        # The value of the right loss, and its gradient in θ.
        loss, value, following, h = super()._critic_loss(rule, fixed, seen, rho)
        error = rules.td_error(value, seen.reward, self._discount(seen), following)
        gradient = over_batch(jax.grad(lambda w, x: self.critic.apply(w, x)[0]), 2)
        before, after = (gradient(critic, x) for x in (seen.observation, seen.next_observation))

        def updates(
            error: Array, h: Array, before: PyTree, after: PyTree, rho: Any, seen: Rollout
        ) -> PyTree:
            grad_d = published_gradients(
                before,
                after,
                self._discount(seen),
                self.config.lam,
                truncated_t=seen.truncated,
                rho_tm1=rho,
            )
            d = self._lambda_errors(error, seen, rho)
            return jax.vmap(rule.forward)(d, h, before, grad_d)

        update = jax.vmap(updates)(error, h, before, after, rho, seen)
        update = jax.lax.stop_gradient(jax.tree.map(lambda leaf: leaf.mean((0, 1)), update))
        # 0, whose gradient is -Δw.
        pull = jax.tree.map(
            lambda w, at, by: jnp.sum((at - w) * by), networks.critic, critic, update
        )
        return loss + jax.tree.reduce(jnp.add, pull), value, following, h


def mean_gradients(
    problem: LinearProblem, lam: float, *, published: bool, length: int = LENGTH
) -> Float[np.ndarray, "S p"]:
    """The mean of ∇D_t, or of what the published code takes for it, by the state S_t; exact.

    Over all places in sequences of `length` steps, as Gradient PPO has them. The entries of G do
    not mix, and G_{t+1} depends on S_{t+1} alone: entry i is m(s) = E[g + γ λ g m'(S')] under the
    target policy, with g = γ x_i(S') - x_i(s) and m' of the rest of the sequence.
    """
    mdp, states = problem.mdp, problem.mdp.num_states
    likely = mdp.target[:, :, None] * mdp.transitions
    columns = []
    for x in problem.features.T:
        g = mdp.discounts * np.pad(x, (0, mdp.num_successors - states)) - x[:, None, None]
        carried = likely * mdp.discounts * lam * (g if published else 1.0)
        source, kernel = np.sum(likely * g, axis=(1, 2)), carried.sum(axis=1)[:, :states]
        means = [np.zeros(states)]
        for _ in range(length):
            means.append(source + kernel @ means[-1])
        columns.append(np.mean(means[1:], axis=0))
    return np.stack(columns, axis=1)


def slowest_mode(
    problem: LinearProblem, rule: str, lam: float, *, published: bool, length: int = LENGTH
) -> float:
    """The largest real part of the mean motion of (w, θ): below 0, it comes to rest.

    As `problems.stability` with "parameters", but for the sequences and for ∇D. It rests where
    E[D x] = 0 and θ = 0, the fixed point of TD(λ), whatever stands for ∇D: that is multiplied by h.
    """
    law, weighting = rules.get(rule), problem.mdp.weighting[:, None]
    error, correction, gradient = terms(law)
    # Directions that change no value are left out.
    basis = scipy.linalg.orth(problem.features.T)
    x = problem.features @ basis
    right, taken = (
        mean_gradients(problem, lam, published=which, length=length) @ basis
        for which in (False, published)
    )
    by_w, covariance = x.T @ (weighting * right), x.T @ (weighting * x)
    w_by_theta = (correction * x + gradient * taken).T @ (weighting * x)
    shrunk = -covariance - law.default_beta * np.eye(len(covariance))
    system = np.block([[error * by_w, w_by_theta], [by_w, shrunk]])
    return float(np.linalg.eigvals(system).real.max())


def main() -> None:
    mujoco_learning.VARIANTS |= VARIANTS
    mujoco_learning.main()


# Also in the processes that share the runs.
if __name__ in ("__main__", "__mp_main__"):
    agents.register(
        AGENT,
        title="Gradient PPO, published ∇D",
        config=agents.PRESETS["gradient-ppo"],
        build=PublishedGradientPPO.make,
    )
if __name__ == "__main__":
    main()
