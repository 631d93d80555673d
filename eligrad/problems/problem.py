"""A finite problem with a value function: observations, and exact errors of estimates."""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from eligrad import rules
from eligrad.problems import exact
from eligrad.problems.mdp import FiniteMDP
from eligrad.rules import Regularize, Rule


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A finite MDP, an observation for each state, and a family of value functions v(s; w).

    The parameters w are one vector. `value_fn` is for learning (JAX, one observation); all other
    methods are exact answers about a given w (NumPy, float64). The auxiliary function h is linear
    in `h_features`, by default the observations; `np.eye(S)` gives the tabular limit.

    A family of your own is a subclass with `value_fn`, `values` and `gradients`.
    """

    name: str
    mdp: FiniteMDP
    observations: Float[np.ndarray, "S k"]
    """What the agent sees in each state."""
    initial: Float[np.ndarray, " p"]
    """The customary first w."""

    def __post_init__(self) -> None:
        for field in ("observations", "initial"):
            array = np.array(getattr(self, field), np.float64)
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        _check_rows("observations", self.observations, self.mdp)
        if self.initial.ndim != 1:
            raise ValueError(f"initial has shape {self.initial.shape}; one vector is accepted")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.mdp!r})"

    def value_fn(self, params: Float[Array, " p"], observation: Float[Array, " k"]) -> Array:
        """v(s; w) of one observation, differentiable by JAX."""
        raise NotImplementedError(
            f"{type(self).__name__} must define value_fn(params, observation)"
        )

    def values(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S"]:
        """v(s; w) of all states."""
        raise NotImplementedError(f"{type(self).__name__} must define values(w)")

    def gradients(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S p"]:
        """The gradient of v(s; w) by w, of all states."""
        raise NotImplementedError(f"{type(self).__name__} must define gradients(w)")

    def initial_params(self) -> Float[Array, " p"]:
        """The customary first w, as a JAX array."""
        return jnp.asarray(self.initial)

    def observe(self, state: Int[Array, "..."]) -> Float[Array, "... k"]:
        """The observations of states as the sampler names them; a terminal successor's is zero."""
        terminals = self.mdp.num_successors - self.mdp.num_states
        return jnp.asarray(np.pad(self.observations, ((0, terminals), (0, 0))))[state]

    @functools.cached_property
    def true_values(self) -> Float[np.ndarray, "S"]:
        """v_pi of all states."""
        return exact.true_values(self.mdp)

    def td_errors(self, w: Float[ArrayLike, " p"], lam: float) -> Float[np.ndarray, "S"]:
        """The mean TD(λ) error of each state."""
        return exact.td_errors(self.mdp, self.values(w), lam)

    def bellman_error(self, w: Float[ArrayLike, " p"], lam: float) -> float:
        """BE(w, lam), weighted by where the behaviour policy is."""
        return exact.bellman_error(self.mdp, self.values(w), lam)

    def projected_bellman_error(
        self,
        w: Float[ArrayLike, " p"],
        lam: float,
        h_features: Float[np.ndarray, "S k_h"] | None = None,
    ) -> float:
        """PBE(w, lam), for h linear in `h_features` (default: in the observations)."""
        return exact.projected_bellman_error(
            self.mdp, self.values(w), lam, self._h_features(h_features)
        )

    def best_theta(
        self,
        w: Float[ArrayLike, " p"],
        lam: float,
        h_features: Float[np.ndarray, "S k_h"] | None = None,
    ) -> Float[np.ndarray, " k_h"]:
        """The theta that attains `projected_bellman_error`: where theta settles at this w."""
        return exact.best_theta(self.mdp, self.values(w), lam, self._h_features(h_features))

    def value_error(self, w: Float[ArrayLike, " p"]) -> float:
        """VE(w), the weighted mean square of v(s; w) - v_pi(s)."""
        return exact.value_error(self.mdp, self.values(w))

    def expected_update(
        self,
        rule: str | Rule,
        w: Float[ArrayLike, " p"],
        theta: Float[ArrayLike, " k_h"],
        lam: float,
        beta: float | None = None,
        h_features: Float[np.ndarray, "S k_h"] | None = None,
        *,
        regularize: Regularize = "parameters",
    ) -> exact.ExpectedUpdate:
        """Returns the mean update of a rule at fixed w and theta.

        Args:
            rule: a rule or its name, as in `eligrad.rules`.
            w: the parameters of v.
            theta: those of h = h_features @ theta; a rule without h leaves them as they are.
            lam: the trace parameter.
            beta: regularisation of h; the rule's own default where None.
            h_features: what h is linear in; by default the observations.
            regularize: what beta acts on. A linear h is all head: "head" is "parameters".
        """
        features = self._h_features(h_features)
        return exact.expected_update(
            self.mdp,
            rules.get(rule) if isinstance(rule, str) else rule,
            values=self.values(w),
            gradients=self.gradients(w),
            theta=as_vector("theta", theta, features.shape[1]),
            h_features=features,
            lam=lam,
            beta=beta,
            regularize=regularize,
        )

    def joint_system(
        self, rule: Rule, lam: float, beta: float, regularize: Regularize, h_step_ratio: float
    ) -> Float[np.ndarray, "n n"]:
        """The matrix M of the mean motion of small deviations of (w, theta) from the solution.

        Args:
            rule: the rule that learns.
            lam: the trace parameter.
            beta: regularisation of h.
            regularize: what beta acts on.
            h_step_ratio: the step size of h over that of v.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define joint_system(rule, lam, beta, regularize, "
            "h_step_ratio) to have its stability judged"
        )

    def _h_features(
        self, h_features: Float[np.ndarray, "S k_h"] | None
    ) -> Float[np.ndarray, "S k_h"]:
        if h_features is None:
            return self.observations
        _check_rows("h_features", h_features, self.mdp)
        return h_features


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LinearProblem(Problem):
    """Values linear in the observations: v(s; w) = w · x(s), with the features x(s) observed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        as_vector("initial", self.initial, self.observations.shape[1])

    @property
    def features(self) -> Float[np.ndarray, "S p"]:
        """x(s) of all states: the observations, by their usual name."""
        return self.observations

    def value_fn(self, params: Float[Array, " p"], observation: Float[Array, " p"]) -> Array:
        """w · x."""
        return observation @ params

    def values(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S"]:
        """X w."""
        return self.features @ as_vector("w", w, self.features.shape[1])

    def gradients(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S p"]:
        """X, whatever w is."""
        as_vector("w", w, self.features.shape[1])
        return self.features

    def td_system(self, lam: float) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, " p"]]:
        """A_lam and b_lam of the expected TD(lam) update b_lam - A_lam w."""
        return exact.td_system(self.mdp, self.features, lam)

    def joint_system(
        self, rule: Rule, lam: float, beta: float, regularize: Regularize, h_step_ratio: float
    ) -> Float[np.ndarray, "n n"]:
        """The matrix M of the mean motion of (w, theta), in the directions that change v or h.

        Args:
            rule: the rule that learns.
            lam: the trace parameter.
            beta: regularisation of h.
            regularize: what beta acts on.
            h_step_ratio: the step size of h over that of v.
        """
        return exact.joint_system(
            self.mdp,
            rule,
            gradients=self.features,
            h_features=self.features,
            lam=lam,
            beta=beta,
            regularize=regularize,
            h_step_ratio=h_step_ratio,
        )

    def td_fixed_point(self, lam: float) -> Float[np.ndarray, " p"]:
        """A_lam^-1 b_lam, where TD(lam) stands still; the smallest one where there are many."""
        return exact.td_fixed_point(self.mdp, self.features, lam)


def as_vector(name: str, value: Float[ArrayLike, "..."], size: int) -> Float[np.ndarray, " size"]:
    """`value` in float64, if it is a vector of this size."""
    vector = np.asarray(value, np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{name} has shape {vector.shape}; ({size},) is accepted")
    return vector


def _check_rows(name: str, array: Float[np.ndarray, "..."], mdp: FiniteMDP) -> None:
    if array.ndim != 2 or array.shape[0] != mdp.num_states:
        raise ValueError(
            f"{name} has shape {array.shape}; ({mdp.num_states}, k) is accepted, a row per state"
        )
