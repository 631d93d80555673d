"""Optimisers by name, all of one shape: what they return is to be added to the parameters."""

from __future__ import annotations

from typing import Literal

import optax

from eligrad._number import Number
from eligrad.optim import adaptive_obgd, ascend, obgd

OptimizerName = Literal["sgd", "adam", "rmsprop", "obgd", "adaptive-obgd"]
NAMES: tuple[OptimizerName, ...] = ("sgd", "adam", "rmsprop", "obgd", "adaptive-obgd")


def follows_traces(name: OptimizerName) -> bool:
    """Whether the optimiser is fed with the trace and the TD error apart, as ObGD must be."""
    return name in ("obgd", "adaptive-obgd")


def make_optimizer(
    name: OptimizerName, step_size: Number, kappa: Number
) -> optax.GradientTransformationExtraArgs:
    """An optimiser that moves along its input; numbers may be traced."""
    if name == "obgd":
        return obgd(step_size, kappa)
    if name == "adaptive-obgd":
        return adaptive_obgd(step_size, kappa)
    return ascend(getattr(optax, name)(step_size))
