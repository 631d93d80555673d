"""Errors of environments and of memory, with messages for users."""

from __future__ import annotations

import numpy as np

from eligrad.envs.host import HostEnvironment


class EnvironmentFault(RuntimeError):
    """An environment raised, or gave a reward or an observation that is not finite."""


class OutOfMemory(RuntimeError):
    """There was not enough memory for what a run needs."""


class Diverged(RuntimeError):
    """A policy returns actions that are not finite."""


def step_failed(
    error: BaseException, env: HostEnvironment, action: np.ndarray, step: int
) -> RuntimeError:
    """The error to raise where a step of the environments raised `error`."""
    if np.issubdtype(action.dtype, np.floating) and not np.isfinite(action).all():
        return Diverged(
            f"the policy returns the action {action[~np.isfinite(action).all(axis=-1)][0]} in "
            f"{env.name!r} at step {step:,}: it has diverged (a smaller actor_step_size "
            "may prevent that)"
        )
    if isinstance(error, MemoryError):
        return _out_of_memory(error, f"at step {step:,} of {env.name!r}")
    return EnvironmentFault(f"{env.name!r} raised at step {step:,}: {error!r}")


def chunk_failed(error: Exception, env_name: str, steps: tuple[int, int]) -> RuntimeError:
    """The error to raise where the program for these steps, first and last, ended with `error`."""
    where = f"in steps {steps[0]:,} to {steps[1]:,} of {env_name!r}"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return _out_of_memory(error, where)
    # Most likely a callback of the environment: its error is the last line of XLA's message.
    *_, last = str(error).strip().splitlines() or [repr(error)]
    return EnvironmentFault(f"the program failed {where}: {last}")


def _out_of_memory(error: BaseException, where: str) -> OutOfMemory:
    return OutOfMemory(
        f"out of memory {where}; fewer seeds, or smaller networks, need less ({error})"
    )
