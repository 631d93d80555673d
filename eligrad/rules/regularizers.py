r"""Three ways to regularise h, by name. β = 0 switches each of them off.

- "parameters", the paper's: Δθ loses $\beta \theta$, the loss gains $\beta |\theta|^2 / 2$.
- "head": the same for the weights of h's last layer; β does not act on the others.
- "output": Δθ loses $\beta H_t \nabla H_t$, the loss gains $\beta H_t^2 / 2$.

With h linear in its features, "parameters" and "head" are ridge regression. On all weights of a
deep h, "parameters" is a weight decay that can drive h to 0 for good. "output" shrinks the best h
to $\mathbb{E}[D_t \mid S_t] / (1 + \beta)$, however h is parameterised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from eligrad._base import array_checks as check
from eligrad.rules.registry import Regularize

Head = Callable[[Any], Any]
"""From theta to the parameters of h's last layer, e.g. `lambda theta: theta["out"]`."""


class Regularizer(NamedTuple):
    """β and what it acts on."""

    beta: Array
    on_output: bool
    theta: PyTree | None
    """None where it is not needed."""
    head: Head | None

    def add_loss(self, losses: Array, h: Array) -> Array:
        """The losses of h, regularised."""
        if self.on_output:
            return losses + 0.5 * self.beta * h**2
        if self.theta is None:
            return losses
        return losses + 0.5 * self.beta * _squared_norm(self._penalized(self.theta))

    def pull(self, h: Array) -> Array:
        """The factor of -∇H in Δθ, which draws h to 0."""
        return (1.0 + self.beta) * h if self.on_output else h

    def decay(self, update: PyTree) -> PyTree:
        """Δθ less β θ, for that part of theta which β acts on."""
        if self.on_output or self.theta is None:
            return update
        check.same_structure("theta", self.theta, "its update", update)
        theta = self.theta
        if self.head is not None:
            # θ in the head and 0 elsewhere.
            theta = jax.grad(lambda theta: 0.5 * _squared_norm(self._penalized(theta)))(theta)
        return jax.tree.map(lambda u, parameter: u - self.beta * parameter, update, theta)

    def _penalized(self, theta: PyTree) -> PyTree:
        if self.head is None:
            return theta
        part = self.head(theta)
        if not jax.tree.leaves(part):
            raise ValueError(f"head(theta) has no parameters: {part}; a part of theta is needed")
        return part


def check_head(regularize: Regularize, head: Head | None) -> None:
    """Raises ValueError for "head" without a head, and for a head with another name."""
    if regularize == "head" and head is None:
        raise ValueError(
            "head is None; regularize='head' needs a function from theta to the parameters of "
            "h's last layer, e.g. head=lambda theta: theta['out']"
        )
    if regularize != "head" and head is not None:
        raise ValueError(
            f"head was given and regularize is {regularize!r}; head is accepted with "
            "regularize='head' only"
        )


def _squared_norm(tree: PyTree) -> Array:
    return jax.tree.reduce(jnp.add, jax.tree.map(lambda leaf: jnp.sum(leaf**2), tree))
