"""A value function that learns from each transition, with the h of its rule, traces and optimisers.

Streaming agents share this. Their states are NamedTuples with the fields that `Critic.init` names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from eligrad import rules
from eligrad._base import kernels
from eligrad._base.array_checks import Number
from eligrad._base.checks import Leaf
from eligrad.agents import auxiliary
from eligrad.agents.network import Network
from eligrad.agents.protocol import Metrics
from eligrad.rules.multistep import Values

S = TypeVar("S", bound=Any)


class Evaluation(NamedTuple):
    """The values of one observation."""

    values: Float[Array, " values"]
    gradient: Callable[[Float[Array, " values"]], tuple[PyTree]]
    """From weights of the values to the gradient of their weighted sum."""
    features: Array | None
    """What an h that is linear in features is given."""


@dataclasses.dataclass(frozen=True)
class Critic:
    """How a value function and its h move; what moves are fields of the agent's state."""

    network: Network
    rule: rules.Rule
    settings: auxiliary.HSettings
    """What h is, and how it is regularised."""
    lam: Leaf
    optimizer_w: optax.GradientTransformationExtraArgs
    optimizer_theta: optax.GradientTransformationExtraArgs

    def init(self, key: PRNGKeyArray, sparsity: Number, observation: Array) -> dict[str, Any]:
        """The first w, θ, traces and states of their optimisers, by name.

        Args:
            key: for the weights.
            sparsity: share of each unit's incoming weights that start at 0.
            observation: one that the network can be applied to; only its shape matters.
        """
        key_w, key_theta = jax.random.split(key)
        w = self.network.make_params(key_w, sparsity)
        theta: Any = None
        if self.rule.has_auxiliary:
            theta = auxiliary.init(self.settings, self.network, key_theta, sparsity, w, observation)
        return {
            "w": w,
            "theta": theta,
            "traces": self.rule.init(w, theta),
            "optimizer_w": self.optimizer_w.init(w),
            "optimizer_theta": self.optimizer_theta.init(theta),
        }

    def evaluate(self, w: PyTree, observation: Array) -> Evaluation:
        """The values of an observation, ready for their gradient."""
        evaluate = auxiliary.evaluation(self.settings, self.network)
        return Evaluation(*jax.vjp(lambda w: evaluate(w, observation), w, has_aux=True))

    def learn(
        self,
        state: S,
        before: tuple[Evaluation, Float[Array, " values"]],
        after: tuple[Evaluation, Float[Array, " values"]],
        reward: Float[Array, ""],
        discount: Float[Array, ""],
        *,
        values: Values,
        reset: Bool[Array, ""],
        rho: Number = 1.0,
        further_gradient: PyTree | None = None,
    ) -> tuple[S, Metrics]:
        """The state with w, θ, traces and optimisers moved on by one transition.

        Args:
            state: of the agent; its `observation` is the one that was acted on.
            before: the values of that observation, and the weight of each: the action taken, or 1.
            after: those of the observation that followed, to bootstrap from.
            reward: of the transition.
            discount: of the transition, 0 where it terminated.
            values: whether they are of states or of actions.
            reset: whether the traces end with this step.
            rho: importance ratio of this step's action.
            further_gradient: of another loss in w, to be descended as well.
        """
        value, bootstrap = (jnp.sum(weights * each.values) for each, weights in (before, after))
        delta = rules.td_error(value, reward, discount, bootstrap)
        (grad_v,), (grad_next,) = (each.gradient(weights) for each, weights in (before, after))
        of_h: dict[str, Any] = {}
        if self.rule.has_auxiliary:
            # So that the small kernels of h and of q are not merged, and none waits for the other.
            observation, weights = kernels.apart(
                (kernels.after(delta, state.observation), before[1])
            )
            h, pull = jax.vjp(
                lambda theta: auxiliary.apply(self.network, theta, observation, before[0].features),
                state.theta,
            )
            of_h = {
                "h_tm1": jnp.sum(weights * h),
                "grad_h_tm1": pull(weights)[0],
                **auxiliary.rule_options(self.settings, self.network, state.theta),
            }
        step, traces = self.rule.update(
            state.traces,
            delta,
            discount,
            grad_v_tm1=grad_v,
            grad_v_t=grad_next,
            lam=self.lam,
            rho_tm1=rho,
            reset=reset,
            values=values,
            **of_h,
        )
        direction = step.w
        if further_gradient is not None:
            direction = jax.tree.map(jnp.subtract, direction, further_gradient)
        w, optimizer_w = follow(
            self.optimizer_w, direction, state.optimizer_w, state.w,
            td_error=delta, trace=traces.w, grad_output=grad_v,
        )  # fmt: skip
        moved = state._replace(w=w, optimizer_w=optimizer_w, traces=traces)
        metrics = {"td_error": delta, "value": value}
        if self.rule.has_auxiliary:
            theta, optimizer_theta = follow(
                self.optimizer_theta, step.theta, state.optimizer_theta, state.theta,
                td_error=delta, trace=traces.theta, grad_output=of_h["grad_h_tm1"],
            )  # fmt: skip
            moved = moved._replace(theta=theta, optimizer_theta=optimizer_theta)
            metrics["h"] = of_h["h_tm1"]
        if self.rule.has_auxiliary and self.rule.traces_w:
            # Of the last layer, if it is known: that of all weights would cost a third of a step.
            part = self.network.head or (lambda w: w)
            metrics["correction_share"] = auxiliary.correction_share(
                delta, part(traces.w), part(step.w)
            )
        return moved, metrics


def follow(
    optimizer: optax.GradientTransformationExtraArgs,
    direction: PyTree,
    state: Any,
    params: PyTree,
    **extra: Any,
) -> tuple[PyTree, Any]:
    """Parameters moved along a direction, and the optimiser's next state.

    Args:
        optimizer: one that ascends; see `optim.ascend`.
        direction: where the parameters are to go.
        state: of the optimiser.
        params: the parameters.
        extra: TD error, trace and gradient, for optimisers that want them.
    """
    step, state = optimizer.update(direction, state, params, **extra)
    return optax.apply_updates(params, step), state


def columns(metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of a chunk: TD errors, values, and whether h is active."""
    size = np.abs(metrics["td_error"].astype(np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        columns = {
            "mean_abs_td_error": size.mean(axis=1),
            "max_abs_td_error": size.max(axis=1),
            "mean_value": metrics["value"].mean(axis=1),
        }
    if "h" in metrics:
        columns |= auxiliary.health(metrics["h"], metrics["td_error"])
    if "correction_share" in metrics:
        columns["correction_share"] = auxiliary.typical(metrics["correction_share"])
    return columns
