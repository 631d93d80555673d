"""Networks as plain functions, and random sequences of several episodes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eligrad import rules

NETWORKS = ("linear", "mlp", "cnn")
ACTIONS = 3
STEPS = 12
RATIOS = ("on-policy", "random", "zero-one")
ENDINGS = ("terminated", "truncated", "several")


def init_params(network: str, outputs: int, seed: int, dtype: Any) -> Any:
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return rng.normal(scale=0.5, size=shape).astype(dtype)

    if network == "linear":
        return {"w": weights(16, outputs)}
    if network == "mlp":
        return {
            "hidden": (weights(16, 5), weights(5)),
            "out": (weights(5, outputs), weights(outputs)),
        }
    return {
        "kernel": weights(3, 3, 1, 2),
        "out": (weights(8, outputs), weights(outputs)),
    }


def apply(network: str, params: Any, obs: Any) -> Any:
    """All outputs of a network for one observation of 16 numbers."""
    if network == "linear":
        return obs @ params["w"]
    if network == "mlp":
        (w1, b1), (w2, b2) = params["hidden"], params["out"]
        return jnp.tanh(obs @ w1 + b1) @ w2 + b2
    image = obs.reshape(1, 4, 4, 1)
    features = jax.lax.conv_general_dilated(
        image, params["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    w, b = params["out"]
    return jnp.tanh(features.reshape(-1)) @ w + b


def head(network: str, params: Any) -> Any:
    """The last layer of a network; a linear one has no other."""
    return params["w"] if network == "linear" else params["out"]


def in_head(network: str, params: Any) -> np.ndarray:
    """Which of the numbers of `flat(params)` belong to the last layer."""
    layers = sorted(params)  # the order of a pytree's leaves
    last = "w" if network == "linear" else "out"
    return np.concatenate([np.full(flat(params[name]).size, name == last) for name in layers])


class Variant(NamedTuple):
    """A rule, and what its β acts on."""

    rule: rules.Rule
    regularize: rules.Regularize = "parameters"

    @property
    def label(self) -> str:
        kind = f"-{self.regularize}" if self.rule.regularized else ""
        return f"{self.rule.name}{kind}"

    def options(self, network: str, beta: Any = None) -> dict[str, Any]:
        """What the rule is called with."""
        if not self.rule.regularized:
            return {}
        options = {"beta": beta, "regularize": self.regularize}
        if self.regularize == "head":
            options["head"] = functools.partial(head, network)
        return options


REGULARIZERS = get_args(rules.Regularize)
VARIANTS = tuple(
    Variant(rule, kind)
    for rule in map(rules.get, rules.names())
    for kind in (REGULARIZERS if rule.regularized else REGULARIZERS[:1])
)
"""Every rule, with each of its regularisers."""
all_variants = pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.label)


class Functions(NamedTuple):
    value_fn: Any
    auxiliary_fn: Any
    bootstrap_fn: Any


def functions(network: str, values: str) -> Functions:
    """State values take an observation; action values a pair, and bootstrap from the maximum."""
    if values == "state":

        def state_value(params, obs):
            return apply(network, params, obs)[0]

        return Functions(state_value, state_value, None)

    def action_value(params, pair):
        return apply(network, params, pair[0])[pair[1]]

    return Functions(action_value, action_value, lambda w, obs: jnp.max(apply(network, w, obs)))


class Sequence(NamedTuple):
    obs_tm1: Any
    r_t: Any
    discount_t: Any
    obs_t: Any
    truncated_t: Any
    rho_tm1: Any


def sequence(seed: int, ratios: str, endings: str, values: str, dtype: Any) -> Sequence:
    rng = np.random.default_rng(seed)
    terminated, truncated = np.zeros(STEPS, bool), np.zeros(STEPS, bool)
    if endings == "several":
        kinds = rng.choice(3, size=STEPS, p=[0.6, 0.2, 0.2])
        terminated, truncated = kinds == 1, kinds == 2
        truncated |= rng.random(STEPS) < 0.05  # both at once: the termination rules
    (truncated if endings == "truncated" else terminated)[-1] = True
    discount = np.where(terminated, 0.0, rng.uniform(0.5, 1.0, STEPS))

    first, after = rng.normal(size=(STEPS, 16)), rng.normal(size=(STEPS, 16))
    ended = terminated | truncated
    # Within an episode the next observation is the next row; at an end it is one of its own.
    after[:-1] = np.where(ended[:-1, None], after[:-1], first[1:])
    rho = {
        "on-policy": np.ones(STEPS),
        "random": rng.uniform(0.3, 1.7, STEPS),
        "zero-one": rng.integers(0, 2, STEPS).astype(float),
    }[ratios]
    obs_tm1: Any = first.astype(dtype)
    if values == "action":
        obs_tm1 = (obs_tm1, rng.integers(0, ACTIONS, STEPS, dtype=np.int32))
    return Sequence(
        obs_tm1,
        rng.normal(size=STEPS).astype(dtype),
        discount.astype(dtype),
        after.astype(dtype),
        truncated,
        rho.astype(dtype),
    )


def flat(tree: Any) -> np.ndarray:
    """All leaves of a pytree in one vector."""
    leaves = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def flat_rows(tree: Any) -> np.ndarray:
    """All leaves of a pytree with a leading time axis, a row for each step."""
    return np.concatenate(
        [np.asarray(leaf).reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)], axis=1
    )


def relative_error(a: Any, b: Any) -> float:
    a, b = flat(a), flat(b)
    scale = max(np.linalg.norm(a), np.linalg.norm(b))
    return 0.0 if scale == 0 else float(np.linalg.norm(a - b) / scale)
