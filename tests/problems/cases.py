"""The problems under test: those of the registry, and two that combine what they leave apart."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from eligrad import problems
from eligrad.problems import FiniteMDP, LinearProblem, Problem, Transition

NUM_CHAINS, NUM_STEPS = 4000, 220


def skewed_walk() -> LinearProblem:
    """Episodic, undiscounted and off-policy: the walk's behaviour leans to the right."""
    walk = problems.random_walk(5)
    behaviour = np.tile([0.4, 0.6], (5, 1))
    features = np.array([[1.0, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]])
    return LinearProblem(
        "skewed_walk",
        dataclasses.replace(walk.mdp, behaviour=behaviour),
        features,
        np.zeros(3),
    )


def anything_goes(seed: int = 3) -> LinearProblem:
    """Off-policy, two terminal successors, and another discount for every transition."""
    rng = np.random.default_rng(seed)
    shape = (6, 2, 8)
    discounts = rng.uniform(0.5, 1.0, shape)
    discounts[..., 6:] = 0.0
    mdp = FiniteMDP(
        transitions=rng.dirichlet(np.ones(8), shape[:2]),
        rewards=rng.normal(size=shape),
        discounts=discounts,
        behaviour=rng.dirichlet(4 * np.ones(2), 6),
        target=rng.dirichlet(4 * np.ones(2), 6),
        start=rng.dirichlet(np.ones(6)),
    )
    return LinearProblem("anything_goes", mdp, rng.normal(size=(6, 3)), rng.normal(size=3))


ALL: dict[str, Problem] = {name: problems.get(name) for name in problems.names()} | {
    "skewed_walk": skewed_walk(),
    "anything_goes": anything_goes(),
}
LINEAR = {name: p for name, p in ALL.items() if isinstance(p, LinearProblem)}


def random_parameters(problem: Problem, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A w and a theta that are nothing special."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=problem.initial.shape), rng.normal(size=problem.observations.shape[1])


@functools.cache
def stationary_chains(name: str, policy: str = "behaviour") -> Transition:
    """Independent streams that begin in the long-run distribution, in NumPy: [chain, time]."""
    mdp = ALL[name].mdp
    first = np.random.default_rng(5).choice(mdp.num_states, NUM_CHAINS, p=mdp.visits(policy))

    @jax.jit
    def draw(keys, states):
        # A map and not a vmap, because it compiles in half the time.
        return jax.lax.map(
            lambda each: problems.sample(mdp, each[0], NUM_STEPS, policy=policy, state=each[1]),
            (keys, states),
        )

    keys = jax.random.split(jax.random.key(7), NUM_CHAINS)
    return jax.tree.map(np.asarray, draw(keys, jnp.asarray(first, jnp.int32)))
