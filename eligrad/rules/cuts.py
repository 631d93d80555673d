"""Where a control agent's traces end: two conventions for non-greedy actions, by name."""

from __future__ import annotations

from typing import NamedTuple, get_args

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from eligrad._base import array_checks as check
from eligrad.rules.registry import TraceCut


class Cut(NamedTuple):
    """What a convention means for `Rule.update` with `values="action"`."""

    rho_tm1: Float[Array, ""]
    reset: Bool[Array, ""]


def trace_cut(convention: TraceCut, greedy: Array, ended: Array) -> Cut:
    """The ratio and the reset of a step.

    - "after" (the paper's algorithm, and the one in use): the update is made with the whole
      trace, non-greedy action or not; then the traces are emptied if the action was not greedy.
    - "watkins" (exact Watkins): a non-greedy action drops the *old* traces before the update, so
      that its error is not credited to earlier pairs, and starts a new trace. For this one the
      forward view is the backward view, with ratios in {0, 1}.

    Args:
        convention: "after" or "watkins".
        greedy: whether the action taken was the greedy one.
        ended: whether the episode ended with this step, by termination or truncation.
    """
    check.one_of("trace_cut", convention, get_args(TraceCut))
    greedy, ended = check.boolean("greedy", greedy), check.boolean("ended", ended)
    if convention == "after":
        return Cut(jnp.ones((), jnp.float32), ended | ~greedy)
    return Cut(greedy.astype(jnp.float32), ended)
