r"""Finite problems with exact answers, to test rules and to see how they differ.

Why TD diverges off-policy and gradient TD does not, in a few lines:

    import jax
    import numpy as np
    from eligrad import problems

    problem = problems.get("baird")  # problems.names() lists them all
    for rule in ("td", "tdrc"):
        w, theta = problem.initial, np.zeros(8)
        for _ in range(2000):
            mean = problem.expected_update(rule, w, theta, lam=0.5)
            w, theta = w + 0.5 * mean.w, theta + 0.5 * mean.theta
        print(rule, problem.value_error(w))

    # The same from samples: one stream of experience, episode after episode.
    batch = problems.sample(problem.mdp, jax.random.key(0), num_steps=1000)
    values = jax.vmap(problem.value_fn, (None, 0))(
        problem.initial_params(), problem.observe(batch.state)
    )

The conventions, which are those of the rules:

- Discounts belong to transitions: $\gamma_{t+1}$ is 0 where a transition terminated. The process
  then starts again, and the sampler keeps the terminal successor as `next_state`.
- The ratio $\rho_t = \pi(A_t \mid S_t) / b(A_t \mid S_t)$ multiplies the whole error of its step,
  for state values: $D_t = \rho_t (\delta_t + \gamma_{t+1} \lambda D_{t+1})$.
- Errors are those of the *target* policy: $\mathbb{E}_b[D_t \mid S_t = s] = \delta^\lambda_\pi(s)$.
  Squares and updates are averaged with d, the long-run distribution of the *behaviour* policy,
  restarts included.

A problem of your own is a `FiniteMDP` and features: `LinearProblem(name, mdp, features, w_0)`.
"""

from __future__ import annotations

from collections.abc import Callable

from eligrad._base import array_checks as check
from eligrad.problems.certificates import Stability, stability
from eligrad.problems.classic import baird, boyan_chain, random_mdp, random_walk
from eligrad.problems.mdp import FiniteMDP
from eligrad.problems.problem import ExpectedUpdate, LinearProblem, Problem
from eligrad.problems.sampler import Transition, initial_state, sample, step
from eligrad.problems.spiral import SpiralProblem, spiral

__all__ = [
    "ExpectedUpdate",
    "FiniteMDP",
    "LinearProblem",
    "Problem",
    "SpiralProblem",
    "Stability",
    "Transition",
    "baird",
    "boyan_chain",
    "get",
    "initial_state",
    "names",
    "random_mdp",
    "random_walk",
    "sample",
    "spiral",
    "stability",
    "step",
]

_PROBLEMS: dict[str, Callable[[], Problem]] = {
    "random_walk_5": lambda: random_walk(5),
    "random_walk_19": lambda: random_walk(19),
    "boyan_chain": boyan_chain,
    "baird": baird,
    "spiral": spiral,
    "random_mdp": random_mdp,
}


def names() -> tuple[str, ...]:
    """The problems that `get` knows."""
    return tuple(_PROBLEMS)


def get(name: str) -> Problem:
    """The problem with this name."""
    check.one_of("problem", name, names())
    return _PROBLEMS[name]()
