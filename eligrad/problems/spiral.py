"""The spiral of Tsitsiklis and Van Roy (1997): nonlinear TD diverges, even on-policy."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from eligrad.problems.mdp import FiniteMDP
from eligrad.problems.problem import Problem, as_vector
from eligrad.rules import Regularize, Rule

_RATE = math.sqrt(3) / 2
_GROWTH = 0.05
_COSINE = np.array([100.0, -70.0, -30.0])
# The spiral solves dV/dw = (Q + growth I) V with Q = [[1, 1/2, 3/2], [3/2, 1, 1/2], [1/2, 3/2, 1]],
# which leaves no choice for the other axis: b = -Q a / rate. The (23.094, -98.15, 75.056) that is
# often printed beside this a belongs to (100, -30, -70) and is not orthogonal to ours: on that
# curve expected TD comes to rest, and the example is lost.
_SINE = np.array([-20.0, -65.0, 85.0]) / _RATE


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SpiralProblem(Problem):
    """v(w) = (a cos(r w) - b sin(r w)) exp(e w): one parameter, values on an outward spiral."""

    def value_fn(self, params: Float[Array, " 1"], observation: Float[Array, " 3"]) -> Array:
        """The observed (one-hot) state's coordinate on the spiral."""
        w = params[0]
        cosine = jnp.asarray(_COSINE, w.dtype) * jnp.cos(_RATE * w)
        sine = jnp.asarray(_SINE, w.dtype) * jnp.sin(_RATE * w)
        return observation @ ((cosine - sine) * jnp.exp(_GROWTH * w))

    def values(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S"]:
        """All three coordinates."""
        (angle,) = as_vector("w", w, 1) * _RATE
        return (_COSINE * np.cos(angle) - _SINE * np.sin(angle)) * self._radius(w)

    def gradients(self, w: Float[ArrayLike, " p"]) -> Float[np.ndarray, "S p"]:
        """How the coordinates move along the spiral."""
        (angle,) = as_vector("w", w, 1) * _RATE
        turn = -_RATE * (_COSINE * np.sin(angle) + _SINE * np.cos(angle)) * self._radius(w)
        return (_GROWTH * self.values(w) + turn)[:, None]

    def joint_system(
        self, rule: Rule, lam: float, beta: float, regularize: Regularize, h_step_ratio: float
    ) -> Float[np.ndarray, "n n"]:
        """The rate at which |v| grows at w = 0 with h settled, as a matrix of one number.

        The solution v = 0 is at w = -∞, where nothing can be linearised in w. But there h settles
        before w moves, whatever the ratio of their step sizes: Δw shrinks with |v|², and the rate
        of theta does not. The growth of |v| then has the same sign at all w, since the states are
        alike. Far from the solution, where w is quick, an h with too small a step size may come
        too late even so.

        Args:
            rule: the rule that learns.
            lam: the trace parameter.
            beta: regularisation of h.
            regularize: what beta acts on.
            h_step_ratio: has no influence.
        """
        del h_step_ratio
        w = np.zeros(1)
        # Where the mean update of theta is 0: the best theta, shrunk. C = E_d[x x^T] is I / 3.
        shrinkage = beta if regularize == "output" else 3 * beta
        theta = self.best_theta(w, lam) / (1 + shrinkage)
        drift = self.expected_update(rule, w, theta, lam, beta, regularize=regularize).w
        return _GROWTH * drift[:, None]  # |v| is proportional to exp(_GROWTH w)

    def _radius(self, w: Float[ArrayLike, " p"]) -> float:
        return float(np.exp(_GROWTH * as_vector("w", w, 1)[0]))


def spiral() -> SpiralProblem:
    """Three states in a ring, each staying or moving one back with equal probability.

    Rewards are 0 and the discount is 0.9, so v_pi = 0, which the spiral nears as w goes to minus
    infinity. Expected TD(0) drives w to plus infinity; descent on BE or PBE goes the other way.
    """
    transitions = ((np.eye(3) + np.roll(np.eye(3), -1, axis=1)) / 2)[:, None, :]
    policy = np.ones((3, 1))
    mdp = FiniteMDP(
        transitions,
        rewards=np.zeros_like(transitions),
        discounts=np.full_like(transitions, 0.9),
        behaviour=policy,
        target=policy,
        start=np.full(3, 1 / 3),
    )
    return SpiralProblem("spiral", mdp, observations=np.eye(3), initial=np.zeros(1))
