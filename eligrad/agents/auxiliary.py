"""The auxiliary function h of agents that follow a gradient rule: what it is, what β acts on.

h is a separate network with the shape of the value network (as in the paper), or a linear function
of that network's features, its last hidden layer. No gradient of h flows into the features, and the
linear function starts at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from eligrad import rules
from eligrad._base.array_checks import Number
from eligrad._base.kernels import one_kernel
from eligrad.agents.network import Network
from eligrad.agents.settings import HSettings
from eligrad.nets import Affine


def check_network(settings: HSettings, network: Network) -> None:
    """Raises ValueError if the value network lacks what the settings of h need."""
    if not rules.get(settings.rule).has_auxiliary:
        return
    if settings.regularize == "head" and settings.h == "network" and network.head is None:
        raise ValueError(
            "regularize is 'head' and the network does not say where its last layer is; "
            'Network(init, apply, head=lambda params: params["last"]) does, or an equinox module '
            "with a method features(observation) and a layer head"
        )
    evaluation(settings, network)


def init(
    settings: HSettings,
    network: Network,
    key: PRNGKeyArray,
    sparsity: Number,
    params: PyTree,
    observation: Any,
) -> PyTree:
    """Returns the initial parameters θ of h.

    Args:
        settings: what h is.
        network: the value network.
        key: for the weights, if h is a separate network.
        sparsity: share of these that start at 0.
        params: parameters of the value network.
        observation: one that the network can be applied to; only its shape matters.
    """
    check_network(settings, network)
    if settings.h == "network":
        return network.make_params(key, sparsity)
    values, features = jax.eval_shape(evaluation(settings, network), params, observation)
    if features.ndim != 1:
        raise ValueError(
            f"with_features gives features of shape {features.shape}; a vector is accepted"
        )
    return Affine(
        features.size,
        values.size,
        init=lambda _, shape: jnp.zeros(shape, features.dtype),
        key=key,
    )


def evaluation(
    settings: HSettings, network: Network
) -> Callable[[PyTree, Any], tuple[Array, Array | None]]:
    """From parameters and an observation to values, and to the features of an h linear in them."""
    if settings.h == "network":
        return lambda params, observation: (network.apply(params, observation), None)
    if network.with_features is None:
        raise ValueError(
            "h is 'features' and the network does not say what its features are; "
            "Network(init, apply, with_features=...) does, or an equinox module with a method "
            "features(observation) and a layer head"
        )
    return network.with_features


def apply(
    network: Network, theta: PyTree, observation: Any, features: Float[Array, " features"] | None
) -> Float[Array, " values"]:
    """h of one observation, or of its features where h is linear in them."""
    if features is None:
        return network.apply(theta, observation)
    return theta(jax.lax.stop_gradient(features))


def whole(settings: HSettings, network: Network) -> Callable[[tuple[PyTree, PyTree], Any], Array]:
    """From parameters of the value network and θ, and an observation, to h of it."""
    evaluate = evaluation(settings, network)

    def h(params: tuple[PyTree, PyTree], observation: Any) -> Array:
        _, features = evaluate(params[0], observation)
        return apply(network, params[1], observation, features)

    return h


def rule_options(settings: HSettings, network: Network, theta: PyTree) -> dict[str, Any]:
    """Returns the arguments of a rule that concern θ and its regularisation."""
    if not rules.get(settings.rule).regularized:
        return {"theta": theta, "beta": 0.0}
    options = {"theta": theta, "beta": settings.beta, "regularize": settings.regularize}
    if settings.regularize == "head":
        options["head"] = network.head if settings.h == "network" else lambda theta: theta
    return options


@one_kernel
def correction_share(delta: Float[Array, ""], z_w: PyTree, update_w: PyTree) -> Float[Array, ""]:
    """How large the gradient correction is beside the semi-gradient step: |δ z_w - Δw| / |δ z_w|.

    It is 0 where the update is that of TD(λ), and NaN where there is no step at all.
    """

    def norm(tree: PyTree) -> Float[Array, ""]:
        # A product, since a compiler sums in another order with more runs.
        return jnp.sqrt(sum(jnp.dot(leaf.ravel(), leaf.ravel()) for leaf in jax.tree.leaves(tree)))

    step = jax.tree.map(lambda z: delta * z, z_w)
    return norm(jax.tree.map(jnp.subtract, step, update_w)) / norm(step)


def health(
    h: Float[np.ndarray, "runs steps"], error: Float[np.ndarray, "runs steps"]
) -> dict[str, Float[np.ndarray, "runs"]]:
    """Whether h is active: its size, alone and against the errors, and its correlation with them.

    h estimates the expected error, so that a correlation near 0 or a vanishing size mean that the
    correction does nothing. The correlation is NaN where either does not vary.
    """
    h, error = h.astype(np.float64), error.astype(np.float64)
    with np.errstate(all="ignore"):
        size, of_error = np.abs(h).mean(axis=1), np.abs(error).mean(axis=1)
        centred = [each - each.mean(axis=1, keepdims=True) for each in (h, error)]
        product, of_h, of_errors = (
            np.mean(centred[a] * centred[b], axis=1) for a, b in ((0, 1), (0, 0), (1, 1))
        )
        correlation = product / np.sqrt(of_h * of_errors)
        return {
            "mean_abs_h": size,
            "h_to_td_error": size / of_error,
            "h_td_error_correlation": correlation,
        }


def typical(shares: Float[np.ndarray, "runs steps"]) -> Float[np.ndarray, "runs"]:
    """The median of the steps that have a share; NaN where none has."""
    known = (row[np.isfinite(row)] for row in shares)
    return np.array([np.median(row) if row.size else np.nan for row in known])


INACTIVE = 0.01
"""A correction whose share of the update is below this does nothing."""


def remarks(settings: HSettings, columns: dict[str, np.ndarray]) -> list[str]:
    """Returns a remark if the correction is inactive at the end of a run."""
    if "correction_share" not in columns:
        return []
    inactive = columns["correction_share"] < INACTIVE
    if not inactive.any():
        return []
    ratio = float(np.nanmedian(columns["h_to_td_error"][inactive]))
    return [
        f"the gradient correction is inactive in {inactive.sum()} of {inactive.size} "
        f"runs: |h| is {ratio:.1g} of |TD error|, and the update is that of TD(λ) "
        f'(regularize is {settings.regularize!r}; "output" keeps h active)'
    ]
