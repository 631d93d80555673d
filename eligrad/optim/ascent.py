"""The change of sign between rules, whose updates are added, and optax, which descends."""

from __future__ import annotations

from typing import Any

import jax
import optax
from jaxtyping import PyTree


def ascend(optimizer: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Turns an optimiser, which descends a gradient, into one that follows a direction.

    The rules return Δw, to be added to the parameters, and an optimiser returns a step along
    the *negative* of what it is given. So with `optimizer = ascend(optax.sgd(0.1))`:

        updates, state = optimizer.update(delta_w, state, params)  # 0.1 * delta_w
        params = optax.apply_updates(params, updates)              # params + 0.1 * delta_w

    `td_error`, `trace` and `grad_output` may be passed to `update`: an optimiser that does
    not take them does not get them.
    """
    descend = optax.with_extra_args_support(optimizer)

    def update(
        updates: PyTree, state: Any, params: Any = None, **extra_args: Any
    ) -> tuple[PyTree, Any]:
        gradient = jax.tree.map(lambda direction: -direction, updates)
        # Adam's bias correction does not trace under strict promotion, which callers may have on.
        with jax.numpy_dtype_promotion("standard"):
            return descend.update(gradient, state, params, **extra_args)

    return optax.GradientTransformationExtraArgs(descend.init, update)
