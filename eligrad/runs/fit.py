"""Whether an agent and an environment fit each other, found out before anything is compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from eligrad.agents import ActorCritic, DiscretePolicy, GaussianPolicy, Network, QLambda
from eligrad.envs import Discrete, Environment, HostEnvironment

World = Environment | HostEnvironment
Agent = QLambda | ActorCritic


def number_of_actions(env: World) -> int:
    """How many actions there are to choose from; continuous ones are refused."""
    if isinstance(env.action_space, Discrete):
        return env.action_space.n
    raise ValueError(
        f"{env.name!r} has continuous actions, of shape {env.action_space.shape}; these agents "
        "choose among finitely many (a Discrete action space)"
    )


def check_observations(env: Environment, params: Any) -> None:
    """Refuses an environment whose observations do not have the shape that it promises."""
    key = jax.eval_shape(jax.random.key, 0)
    state, first = jax.eval_shape(env.reset, key, params)
    action = jax.ShapeDtypeStruct(env.action_space.shape, env.action_space.dtype)
    following = jax.eval_shape(env.step, key, state, action, params).observation
    promised = tuple(env.observation_space.shape)
    for method, observation in (("reset", first), ("step", following)):
        if observation.shape != promised:
            raise ValueError(
                f"{env.name!r}: {method} gives an observation of shape {observation.shape}; "
                f"observation_space promises {promised}"
            )


def check_networks(agent: Agent, env: World) -> None:
    """Refuses networks that do not take the environment's observations or give what is needed."""
    if isinstance(agent, QLambda):
        check_network("network", agent.network, env, number_of_actions(env), "one for each action")
        return
    policy = agent.policy
    if isinstance(policy, DiscretePolicy):
        wanted = number_of_actions(env)
        if policy.choices != wanted:
            raise ValueError(
                f"policy chooses among {policy.choices} actions; {env.name!r} has {wanted}"
            )
        check_network("policy.network", policy.network, env, wanted, "a logit for each action")
    elif isinstance(policy, GaussianPolicy):
        count = len(policy.low)
        check_network("policy.network", policy.network, env, count, "a mean for each action entry")
    check_network("critic", agent.critic, env, 1, "the value of a state")


def check_network(name: str, network: Any, env: World, values: int, of_what: str) -> None:
    """Refuses a network that does not give so many numbers for an observation."""
    if not isinstance(network, Network):
        raise TypeError(
            f"{name} is a {type(network).__name__}; an eligrad.agents.Network is accepted: "
            "Network(init, apply), or from_equinox(make) for a module"
        )
    shape = tuple(env.observation_space.shape)
    key = jax.eval_shape(jax.random.key, 0)
    params = _shaped(f"{name}.init(key, sparsity)", network.init, key, 0.9)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"{name}.init gives {jax.tree_util.keystr(path) or 'an array'} of dtype "
                f"{leaf.dtype}; float arrays are accepted, since each is learned"
            )
    observation = jax.ShapeDtypeStruct(shape, jnp.float32)
    called = f"{name}.apply(params, observation) with an observation of shape {shape}"
    output = _shaped(called, network.apply, params, observation)
    given = getattr(output, "shape", None)
    if given != (values,):
        raise ValueError(
            f"{called} gives {'a ' + type(output).__name__ if given is None else f'shape {given}'};"
            f" ({values},) is accepted for {env.name!r}: {of_what}"
        )


def _shaped(called: str, function: Any, *arguments: Any) -> Any:
    """What a function would return, in shapes; its error with the call that brought it about."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        raise ValueError(f"{called} fails: {type(error).__name__}: {error}") from error
