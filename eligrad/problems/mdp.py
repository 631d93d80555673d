"""A finite Markov decision process with a behaviour and a target policy, in float64."""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import connected_components

Policy = Literal["behaviour", "target"]

_SUM_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FiniteMDP:
    """A prediction problem without its value function.

    Successors 0 … S - 1 are states. Successors S … N - 1, if there are any, are terminal: they have
    no value, a transition into one has discount 0, and the process continues from `start`. Two
    instances are equal when they are the same object, so an instance may be a static argument of
    `jax.jit`. Vary one with `dataclasses.replace`.
    """

    transitions: Float[np.ndarray, "S A N"]
    """p(s' | s, a)."""
    rewards: Float[np.ndarray, "S A N"]
    """R_{t+1} of the transition s, a, s'."""
    discounts: Float[np.ndarray, "S A N"]
    """gamma_{t+1} of the transition s, a, s': 0 where s' is terminal."""
    behaviour: Float[np.ndarray, "S A"]
    """b(a | s), the policy that acts."""
    target: Float[np.ndarray, "S A"]
    """pi(a | s), the policy whose values are estimated."""
    start: Float[np.ndarray, "S"]
    """Where the process begins, and begins again after a terminal successor."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            array = np.array(getattr(self, field.name), np.float64)
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{field.name} has entries that are not finite")
            array.flags.writeable = False
            object.__setattr__(self, field.name, array)
        self._check_shapes()
        for name in ("transitions", "behaviour", "target", "start"):
            _check_distribution(name, getattr(self, name))
        self._check_discounts()
        self._check_policies()

    def _check_shapes(self) -> None:
        shape = self.transitions.shape
        if len(shape) != 3 or 0 in shape or shape[2] < shape[0]:
            raise ValueError(
                f"transitions has shape {shape}; (S, A, N) is accepted: states, actions, and "
                "successors, of which the first S are the states and the rest are terminal"
            )
        accepted = {
            "rewards": shape,
            "discounts": shape,
            "behaviour": shape[:2],
            "target": shape[:2],
            "start": shape[:1],
        }
        for name, wanted in accepted.items():
            found = getattr(self, name).shape
            if found != wanted:
                raise ValueError(
                    f"{name} has shape {found}; {wanted} is accepted beside transitions of {shape}"
                )

    def _check_discounts(self) -> None:
        outside = (self.discounts < 0) | (self.discounts > 1)
        if np.any(outside):
            where = _first(outside)
            raise ValueError(f"discounts{where} is {self.discounts[where]}; [0, 1] is accepted")
        ending = np.zeros_like(outside)
        ending[..., self.num_states :] = self.discounts[..., self.num_states :] != 0
        if np.any(ending):
            where = _first(ending)
            raise ValueError(
                f"discounts{where} is {self.discounts[where]}; successor {where[2]} is terminal, "
                "and a transition that terminates has discount 0"
            )
        if np.max(np.abs(np.linalg.eigvals(self.discounted_transitions))) > 1 - _SUM_TOLERANCE:
            raise ValueError(
                "discounts are 1 along a path on which the target policy never terminates: its "
                "values would be infinite; discount below 1 somewhere, or let every path end"
            )

    def _check_policies(self) -> None:
        uncovered = (self.target > 0) & (self.behaviour == 0)
        if np.any(uncovered):
            where = _first(uncovered)
            raise ValueError(
                f"behaviour{where} is 0 where target{where} is {self.target[where]}; the behaviour "
                "policy must take every action that the target policy takes"
            )

    def __repr__(self) -> str:
        terminals = self.num_successors - self.num_states
        return (
            f"{type(self).__name__}({self.num_states} states, {self.num_actions} actions, "
            f"{terminals} terminal)"
        )

    @property
    def num_states(self) -> int:
        """S: how many states have values."""
        return self.transitions.shape[0]

    @property
    def num_actions(self) -> int:
        """A: how many actions there are in each state."""
        return self.transitions.shape[1]

    @property
    def num_successors(self) -> int:
        """N: states and terminal successors together."""
        return self.transitions.shape[2]

    @functools.cached_property
    def ratios(self) -> Float[np.ndarray, "S A"]:
        """rho = pi(a | s) / b(a | s); 0 where neither policy acts."""
        return np.divide(
            self.target, self.behaviour, out=np.zeros_like(self.target), where=self.behaviour > 0
        )

    @functools.cached_property
    def discounted_transitions(self) -> Float[np.ndarray, "S S"]:
        """P_gamma: E_pi[gamma_{t+1} 1(S_{t+1} = s') | S_t = s]."""
        kernel = np.einsum("sa,san,san->sn", self.target, self.transitions, self.discounts)
        return kernel[:, : self.num_states]

    @functools.cached_property
    def expected_rewards(self) -> Float[np.ndarray, "S"]:
        """r_pi: E_pi[R_{t+1} | S_t = s]."""
        return np.einsum("sa,san,san->s", self.target, self.transitions, self.rewards)

    @functools.cached_property
    def weighting(self) -> Float[np.ndarray, "S"]:
        """d: how often the behaviour policy visits each state, in the long run."""
        return self.visits("behaviour")

    def visits(self, policy: Policy) -> Float[np.ndarray, "S"]:
        """The long-run share of time in each state, restarts after terminal successors included."""
        kernel = np.einsum("sa,san->sn", self.policy(policy), self.transitions)
        ending = kernel[:, self.num_states :].sum(axis=1)
        chain = kernel[:, : self.num_states] + np.outer(ending, self.start)
        if len(_closed_classes(chain)) > 1:
            raise ValueError(
                f"the {policy} policy can settle in more than one part of the problem, so there is "
                "no single long-run distribution; connect the states, or use fewer of them"
            )
        # Stationarity and normalisation together have full column rank: one solution, no residual.
        equations = np.vstack([chain.T - np.eye(self.num_states), np.ones(self.num_states)])
        answer = np.append(np.zeros(self.num_states), 1.0)
        share = np.linalg.lstsq(equations, answer, rcond=None)[0]
        share[np.abs(share) < 1e-14] = 0.0
        return share / share.sum()

    def policy(self, policy: Policy) -> Float[np.ndarray, "S A"]:
        """The action probabilities of the policy with this name."""
        if policy not in ("behaviour", "target"):
            raise ValueError(f"policy is {policy!r}; 'behaviour' or 'target' is accepted")
        return self.behaviour if policy == "behaviour" else self.target


def _first(mask: Bool[np.ndarray, "..."] | np.bool) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _check_distribution(name: str, array: Float[np.ndarray, "..."]) -> None:
    if np.any(array < 0):
        where = _first(array < 0)
        raise ValueError(f"{name}{where} is {array[where]}; a probability is at least 0")
    wrong = np.abs(array.sum(axis=-1) - 1) > _SUM_TOLERANCE
    if np.any(wrong):
        where = _first(wrong)
        row = f"{name}{where}" if where else name
        raise ValueError(f"{row} sums to {array[where].sum()}; probabilities sum to 1")


def _closed_classes(chain: Float[np.ndarray, "S S"]) -> list[int]:
    """The sets of states, by label, that the chain never leaves once it is there."""
    count, labels = connected_components(chain > 0, directed=True, connection="strong")
    return [
        label for label in range(count) if not np.any(chain[labels == label][:, labels != label])
    ]
