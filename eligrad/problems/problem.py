"""A finite problem with a value function: observations, and exact errors of estimates.

The exact answers are linear algebra in float64. With D = diag(d), d the behaviour policy's long-run
distribution, and with P_gamma and r_pi under the *target* policy (so that importance ratios are
already averaged out):

    delta^lam_pi = (I - lam P_gamma)^-1 (r_pi + P_gamma v - v)    = E_b[D_t | S_t = s]
    D_t          = rho_t (delta_t + gamma_{t+1} lam D_{t+1})        the sampled error

Everything below follows from these errors and their gradient.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, ArrayLike, Float, Int

from eligrad import rules
from eligrad.problems.mdp import FiniteMDP
from eligrad.rules import Regularize, Rule


class Terms(NamedTuple):
    """A rule's Δw = error · D ∇V + correction · H ∇V + gradient · H ∇D."""

    error: float
    correction: float
    gradient: float


class ExpectedUpdate(NamedTuple):
    """The means of Δw and Δθ over the behaviour policy's long run, at fixed w and θ."""

    w: Float[np.ndarray, " p"]
    theta: Float[np.ndarray, " k"]


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
        """v_pi of all states, the solution of v = r_pi + P_gamma v."""
        return _discounted_sum(self.mdp, self.mdp.expected_rewards, 1.0)

    def td_errors(self, w: Float[ArrayLike, " p"], lam: float) -> Float[np.ndarray, "S"]:
        """The mean TD(λ) error of each state."""
        mdp, values = self.mdp, self.values(w)
        one_step = mdp.expected_rewards + mdp.discounted_transitions @ values - values
        return _discounted_sum(mdp, one_step, lam)

    def bellman_error(self, w: Float[ArrayLike, " p"], lam: float) -> float:
        r"""The Bellman error $\sum_s d(s) \delta^\lambda_\pi(s)^2$."""
        return float(self.mdp.weighting @ self.td_errors(w, lam) ** 2)

    def projected_bellman_error(
        self,
        w: Float[ArrayLike, " p"],
        lam: float,
        h_features: Float[np.ndarray, "S k_h"] | None = None,
    ) -> float:
        r"""The projected Bellman error, $\max_h \sum_s d(s) (2 \delta^\lambda_\pi(s) - h(s)) h(s)$.

        h is linear in `h_features`, by default the observations. With tabular features it is the
        Bellman error.
        """
        # The best h is the projection of the errors, which makes the maximum its squared norm.
        h_values = self._h_features(h_features) @ self.best_theta(w, lam, h_features)
        return float(self.mdp.weighting @ h_values**2)

    def best_theta(
        self,
        w: Float[ArrayLike, " p"],
        lam: float,
        h_features: Float[np.ndarray, "S k_h"] | None = None,
    ) -> Float[np.ndarray, " k_h"]:
        """The theta that attains `projected_bellman_error`: where theta settles at this w.

        The smallest where there are many.
        """
        root = np.sqrt(self.mdp.weighting)
        features = root[:, None] * self._h_features(h_features)
        return np.linalg.lstsq(features, root * self.td_errors(w, lam), rcond=None)[0]

    def value_error(self, w: Float[ArrayLike, " p"]) -> float:
        r"""The value error $\sum_s d(s) (v(s; w) - v_\pi(s))^2$."""
        return float(self.mdp.weighting @ (self.values(w) - self.true_values) ** 2)

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
    ) -> ExpectedUpdate:
        """Returns the mean update of a rule at fixed w and theta, in either view.

        With H = h_features @ theta, and V and delta as above, all by state:

            w:      the rule's own combination of E_d[delta grad V], E_d[H grad V],
                    E_d[H grad delta]
            theta:  E_d[(delta - H) grad H], less beta theta for "parameters" and "head" (all of a
                    linear h is its head), or beta E_d[H grad H] for "output"; 0 without h

        Args:
            rule: a rule or its name, as in `eligrad.rules`.
            w: the parameters of v.
            theta: those of h = h_features @ theta; a rule without h leaves them as they are.
            lam: the trace parameter.
            beta: regularisation of h; the rule's own default where None.
            h_features: what h is linear in; by default the observations.
            regularize: what beta acts on. A linear h is all head: "head" is "parameters".
        """
        rule = rules.get(rule) if isinstance(rule, str) else rule
        features = self._h_features(h_features)
        theta = as_vector("theta", theta, features.shape[1])
        shrinkage = np.asarray(rule.resolve_beta(beta, regularize), np.float64)
        error, correction, gradient = terms(rule)
        weighting, errors, gradients = self.mdp.weighting, self.td_errors(w, lam), self.gradients(w)
        h_values = features @ theta
        delta_w = gradients.T @ (weighting * (error * errors + correction * h_values))
        grad_delta = _td_error_gradients(self.mdp, gradients, lam)
        delta_w += gradient * grad_delta.T @ (weighting * h_values)
        if not rule.has_auxiliary:
            return ExpectedUpdate(delta_w, np.zeros_like(theta))
        shrunk = features.T @ (weighting * h_values) if regularize == "output" else theta
        delta_theta = features.T @ (weighting * (errors - h_values)) - shrinkage * shrunk
        return ExpectedUpdate(delta_w, delta_theta)

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
        weighted = self.features.T * self.mdp.weighting
        matrix = -weighted @ _td_error_gradients(self.mdp, self.features, lam)
        return matrix, weighted @ _discounted_sum(self.mdp, self.mdp.expected_rewards, lam)

    def joint_system(
        self, rule: Rule, lam: float, beta: float, regularize: Regularize, h_step_ratio: float
    ) -> Float[np.ndarray, "n n"]:
        """The matrix M of the mean motion of (w, theta), in the directions that change v or h.

        In orthonormal coordinates; of w alone for a rule without h.

        Args:
            rule: the rule that learns.
            lam: the trace parameter.
            beta: regularisation of h.
            regularize: what beta acts on.
            h_step_ratio: the step size of h over that of v.
        """
        error, correction, gradient = terms(rule)
        x = self.features @ scipy.linalg.orth(self.features.T)
        grad_delta = _td_error_gradients(self.mdp, x, lam)
        weighting = self.mdp.weighting[:, None]
        theta_by_w = x.T @ (weighting * grad_delta)
        if not rule.has_auxiliary:
            return error * theta_by_w
        covariance = x.T @ (weighting * x)
        shrunk = covariance if regularize == "output" else np.eye(len(covariance))
        w_by_theta = (correction * x + gradient * grad_delta).T @ (weighting * x)
        theta_by_theta = -covariance - beta * shrunk
        return np.block(
            [
                [error * theta_by_w, w_by_theta],
                [h_step_ratio * theta_by_w, h_step_ratio * theta_by_theta],
            ]
        )

    def td_fixed_point(self, lam: float) -> Float[np.ndarray, " p"]:
        """A_lam^-1 b_lam, where TD(lam) stands still; the smallest one where there are many."""
        matrix, vector = self.td_system(lam)
        # Zero is judged by the size of the features: A_lam may be singular through and through.
        scale = float(self.mdp.weighting @ np.sum(self.features**2, axis=1))
        w = scipy.linalg.pinv(matrix, atol=1e-12 * scale, rtol=0.0) @ vector
        residual = float(np.max(np.abs(matrix @ w - vector)))
        if residual > 1e-8 * max(1.0, float(np.max(np.abs(vector)))):
            raise ValueError(
                f"TD({lam}) has no fixed point with these features: A_lam is singular and b_lam "
                f"lies outside its range (residual {residual:.2g}); try another lam or other "
                "features"
            )
        return w


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


@functools.cache
def terms(rule: Rule) -> Terms:
    """What a rule's Δw is made of, read off its own forward formula.

    TD(λ) is (1, 0, 0), GTD2(λ) is (0, 0, -1), TDC(λ) and TDRC(λ) are (1, -1, -1). An update of this
    form is linear in D and ∇D, which alone are sampled: its mean is the update of their means.
    """
    units = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    others = np.random.default_rng(0).normal(size=(8, 4))
    d, h, grad_v, grad_d = np.concatenate([units, others]).T
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        h_tm1 = jnp.asarray(h) if rule.has_auxiliary else None
        updates = jax.vmap(rule.forward)(
            jnp.asarray(d), h_tm1, jnp.asarray(grad_v), jnp.asarray(grad_d)
        )
    found = Terms(*(float(update) for update in updates[:3]))
    if not np.allclose(np.asarray(updates), np.dot(found, [d * grad_v, h * grad_v, h * grad_d])):
        raise ValueError(
            f"the forward update of rule {rule.name!r} is no sum of D ∇V, H ∇V and H ∇D; only such "
            "a rule has a mean update in closed form"
        )
    return found


def _td_error_gradients(
    mdp: FiniteMDP, gradients: Float[np.ndarray, "S p"], lam: float
) -> Float[np.ndarray, "S p"]:
    """The gradient by w of the TD(lam) errors; the reward has none."""
    return _discounted_sum(mdp, mdp.discounted_transitions @ gradients - gradients, lam)


def _discounted_sum(
    mdp: FiniteMDP, rows: Float[np.ndarray, "S *rest"], lam: float
) -> Float[np.ndarray, "S *rest"]:
    """(I - lam P_gamma)^-1 rows: what `rows` adds up to along the target policy's way."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam is {lam}; a number in [0, 1] is accepted")
    return np.linalg.solve(np.eye(mdp.num_states) - lam * mdp.discounted_transitions, rows)
