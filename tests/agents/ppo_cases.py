"""Small agents and random rollouts, in JAX and for the program in NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from eligrad.agents import (
    PPO,
    ActorCritic,
    ActorCriticConfig,
    DiscretePolicy,
    GaussianPolicy,
    GradientPPO,
    GradientPPOConfig,
    Rollout,
    from_equinox,
)
from eligrad.nets import tanh_mlp
from tests.agents import numpy_ppo

SIZE, ENTRIES, CHOICES = 3, 2, 3
"""Of observations and actions."""


def network(outputs):
    """A small tanh network; biases are drawn as well, so that none of its gradients is 0."""
    built = from_equinox(
        lambda key: tanh_mlp(SIZE, outputs, hidden=(5, 4), output_gain=1.0, key=key)
    )

    def init(key):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return jax.tree.map(
            lambda p: p + jnp.asarray(rng.normal(0, 0.3, p.shape), p.dtype), built.init(key)
        )

    return dataclasses.replace(built, init=init)


POLICIES = {
    "gaussian": GaussianPolicy(network(ENTRIES), (-1.0, -2.0), (1.0, 2.0), (ENTRIES,)),
    "discrete": DiscretePolicy(network(CHOICES), CHOICES),
}
REFERENCES = {"gaussian": numpy_ppo.Gaussian, "discrete": numpy_ppo.Softmax}
CRITIC = network(1)


def agent(config: ActorCriticConfig, policy: str) -> ActorCritic:
    kind = GradientPPO if isinstance(config, GradientPPOConfig) else PPO
    return kind(config, POLICIES[policy], CRITIC)


def beginning(made: ActorCritic, seed=0):
    """The state before the first update."""
    return made.init(jax.random.key(seed), jnp.zeros((made.config.num_envs, SIZE)))


def rollout(config: ActorCriticConfig, policy, seed=0, ends=0.15) -> Rollout:
    """Random steps in NumPy, of which many end an episode, in each possible way."""
    rng = np.random.default_rng(seed)
    time, envs = config.rollout // config.num_envs, config.num_envs
    how = rng.random((time, envs))
    terminated, truncated = how < ends, (how > 0.7 * ends) & (how < 2 * ends)
    states = rng.standard_normal((time + 1, envs, SIZE)).astype(np.float32)
    final = rng.standard_normal((time, envs, SIZE)).astype(np.float32)
    action = rng.normal(0, 1.2, (time, envs, ENTRIES)).astype(np.float32)
    if policy == "discrete":
        action = rng.integers(0, CHOICES, (time, envs)).astype(np.int32)
    return Rollout(
        observation=states[:-1],
        action=action,
        reward=rng.normal(0.3, 1.0, (time, envs)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        next_observation=np.where((terminated | truncated)[..., None], final, states[1:]),
    )


def as_jax(made_up: Rollout) -> Rollout:
    return jax.tree.map(jnp.asarray, made_up)


LEARN = jax.jit(lambda agent, state, rollout, key: agent.learn(state, rollout, key))
"""One program for all settings of a shape, since they are its arguments."""


def learner(config, policy, networks) -> numpy_ppo.Learner:
    """The program in NumPy, with these parameters."""
    return numpy_ppo.Learner(config, REFERENCES[policy], *(leaves(tree) for tree in networks))


def leaves(tree):
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


def minibatches(config: ActorCriticConfig, key):
    """The order that a key gives, as lists of sequences of places (time, environment)."""
    time, envs = config.rollout // config.num_envs, config.num_envs
    if isinstance(config, GradientPPOConfig):
        length = config.sequence
        sequences = [
            [(t, e) for t in range(begin, begin + length)]
            for e in range(envs)
            for begin in range(0, time, length)
        ]
    else:
        length = 1
        sequences = [[(t, e)] for t in range(time) for e in range(envs)]
    together = config.minibatch_size // length
    orders = [
        np.asarray(jax.random.permutation(epoch_key, len(sequences)))
        for epoch_key in jax.random.split(key, config.epochs)
    ]
    return [
        [sequences[i] for i in order[begin : begin + together]]
        for order in orders
        for begin in range(0, len(order), together)
    ]


def distance(ours, theirs, first):
    """How far two lists of parameters are apart, over how far the second has moved."""
    apart = numpy_ppo.norm([a - b for a, b in zip(ours, theirs, strict=True)])
    return apart / numpy_ppo.norm([b - c for b, c in zip(theirs, first, strict=True)])


UPDATES = 2


def run_library(config, policy):
    """The first state, and after each update the networks and the metrics."""
    made = agent(config, policy)
    first = state = beginning(made)
    after = []
    for number in range(UPDATES):
        rows = as_jax(rollout(config, policy, seed=number))
        state, told = LEARN(made, state, rows, jax.random.key(number))
        networks = {name: leaves(tree) for name, tree in state.networks._asdict().items()}
        after.append((networks, {name: float(value) for name, value in told.items()}))
    return first, after


def run_reference(config, policy, first, change=lambda rows: rows):
    """The same in NumPy; `change` makes the rollouts other ones."""
    made = learner(config, policy, first.networks)
    after = []
    for number in range(UPDATES):
        rows = change(rollout(config, policy, seed=number))
        told = made.learn(rows, minibatches(config, jax.random.key(number)))
        after.append((dict(made.networks), told))
    return after


def distances(ours, theirs, first):
    """Of all networks after the last update."""
    begun = {name: leaves(tree) for name, tree in first.networks._asdict().items()}
    return {
        name: distance(ours[-1][0][name], params, begun[name])
        for name, params in theirs[-1][0].items()
        if params
    }
