"""Checks that networks fit the spaces of an environment, before anything is compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from eligrad.agents.network import Network
from eligrad.envs.spaces import Box, Discrete, Space


def number_of_actions(action_space: Space) -> int:
    """Returns the number of actions; raises ValueError for continuous ones, or several at once."""
    if isinstance(action_space, Discrete):
        return action_space.n
    kind = "continuous actions" if isinstance(action_space, Box) else "several choices at once"
    raise ValueError(
        f"it has {kind}, of shape {tuple(action_space.shape)}; this agent chooses among finitely "
        "many (a Discrete action space). stream-ac, gradient-ac, ppo and gradient-ppo take such "
        "actions"
    )


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
    shape = tuple(observation_space.shape)
    key = jax.eval_shape(jax.random.key, 0)
    params = _shapes(f"{name}.init(key)", network.make_params, key)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{name}.init gives {jax.tree_util.keystr(path) or 'an array'} of dtype "
                f"{leaf.dtype}; float arrays are accepted, since each is learned"
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
