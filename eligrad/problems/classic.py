"""The classical linear problems, on- and off-policy."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from eligrad.problems.mdp import FiniteMDP
from eligrad.problems.problem import LinearProblem


def random_walk(num_states: int) -> LinearProblem:
    """The symmetric walk with tabular features (Sutton & Barto, examples 6.2 and 7.1).

    Left or right with equal probability, from the middle state; leaving on the left pays -1 and
    on the right +1, undiscounted. v_pi of the i-th state from the left is 2 i / (S + 1) - 1.
    """
    if num_states < 1 or num_states % 2 == 0:
        raise ValueError(f"num_states is {num_states}; an odd number is accepted: it has a middle")
    left_end, right_end = num_states, num_states + 1
    transitions = np.zeros((num_states, 2, num_states + 2))
    rewards = np.zeros_like(transitions)
    for state in range(num_states):
        transitions[state, 0, state - 1 if state > 0 else left_end] = 1.0
        transitions[state, 1, state + 1 if state < num_states - 1 else right_end] = 1.0
    rewards[..., left_end], rewards[..., right_end] = -1.0, 1.0
    policy = np.full((num_states, 2), 0.5)
    start = np.zeros(num_states)
    start[num_states // 2] = 1.0
    mdp = FiniteMDP(transitions, rewards, _discounts(transitions, 1.0), policy, policy, start)
    return LinearProblem(f"random_walk_{num_states}", mdp, np.eye(num_states), np.zeros(num_states))


def boyan_chain() -> LinearProblem:
    """Boyan's chain (2002): 13 states, 4 features, v_pi linear in them.

    The i-th state (from 0, in the order of travel) is Boyan's state 12 - i. It moves one or two
    states on with equal probability at a reward of -3; the last but one moves one on at -2; the
    last ends the episode at 0. Undiscounted, v_pi = -2 (12 - i), so that w = (-24, -16, -8, 0).
    The features interpolate between four states, 4 apart.
    """
    num_states, end = 13, 13
    transitions = np.zeros((num_states, 1, num_states + 1))
    rewards = np.full_like(transitions, -3.0)
    for state in range(num_states - 2):
        transitions[state, 0, [state + 1, state + 2]] = 0.5
    transitions[num_states - 2, 0, num_states - 1] = 1.0
    transitions[num_states - 1, 0, end] = 1.0
    rewards[num_states - 2], rewards[num_states - 1] = -2.0, 0.0
    distance = np.abs(np.arange(num_states)[:, None] - 4 * np.arange(4)[None, :])
    policy = np.ones((num_states, 1))
    start = np.eye(num_states)[0]
    mdp = FiniteMDP(transitions, rewards, _discounts(transitions, 1.0), policy, policy, start)
    return LinearProblem("boyan_chain", mdp, np.maximum(0.0, 1.0 - distance / 4), np.zeros(4))


def baird() -> LinearProblem:
    """Baird's star (Sutton & Barto, figure 11.1): off-policy TD(0) diverges from its usual start.

    Action 0 ("dashed") leads to one of states 0 … 5, action 1 ("solid") to state 6. Behaviour
    dashes 6 times in 7, the target is always solid; rewards are 0 and the discount is 0.99, so
    v_pi = 0. Seven states share eight weights: v = 2 w_i + w_7 in state i < 6, w_6 + 2 w_7 in 6.
    """
    num_states = 7
    transitions = np.zeros((num_states, 2, num_states))
    transitions[:, 0, :6] = 1 / 6
    transitions[:, 1, 6] = 1.0
    features = np.zeros((num_states, 8))
    features[range(6), range(6)], features[:6, 7] = 2.0, 1.0
    features[6, 6], features[6, 7] = 1.0, 2.0
    mdp = FiniteMDP(
        transitions,
        rewards=np.zeros_like(transitions),
        discounts=_discounts(transitions, 0.99),
        behaviour=np.tile([6 / 7, 1 / 7], (num_states, 1)),
        target=np.tile([0.0, 1.0], (num_states, 1)),
        start=np.full(num_states, 1 / num_states),
    )
    return LinearProblem("baird", mdp, features, np.array([1.0, 1, 1, 1, 1, 1, 10, 1]))


def random_mdp(
    seed: int = 0,
    *,
    num_states: int = 10,
    num_actions: int = 3,
    branching: int = 3,
    num_features: int = 5,
    discount: float = 0.9,
) -> LinearProblem:
    """A random continuing off-policy problem, in the manner of Garnet.

    Each action leads to `branching` successors with random probabilities; one of them is the next
    state in a ring, so that every policy reaches every state. Rewards are standard normal,
    features are normal with unit length. The behaviour policy is half uniform, which keeps the
    importance ratios below 2 A.

    Args:
        seed: decides everything that is random.
        num_states: S.
        num_actions: A.
        branching: how many successors an action has.
        num_features: how many numbers are observed in each state.
        discount: that of every transition.
    """
    if not 1 <= branching <= num_states:
        raise ValueError(f"branching is {branching}; 1 to {num_states}, the number of states")
    rng = np.random.default_rng(seed)
    transitions = np.zeros((num_states, num_actions, num_states))
    for state in range(num_states):
        ring = (state + 1) % num_states
        others = np.delete(np.arange(num_states), ring)
        for action in range(num_actions):
            successors = np.append(ring, rng.choice(others, branching - 1, replace=False))
            transitions[state, action, successors] = rng.dirichlet(np.ones(branching))
    policies = rng.dirichlet(np.ones(num_actions), size=(2, num_states))
    features = rng.normal(size=(num_states, num_features))
    mdp = FiniteMDP(
        transitions,
        rewards=rng.normal(size=transitions.shape),
        discounts=_discounts(transitions, discount),
        behaviour=(policies[0] + 1 / num_actions) / 2,
        target=policies[1],
        start=np.full(num_states, 1 / num_states),
    )
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return LinearProblem("random_mdp", mdp, features, np.zeros(num_features))


def _discounts(transitions: Float[np.ndarray, "S A N"], gamma: float) -> Float[np.ndarray, "S A N"]:
    """gamma everywhere, and 0 into terminal successors."""
    discounts = np.full_like(transitions, gamma)
    discounts[..., transitions.shape[0] :] = 0.0
    return discounts
