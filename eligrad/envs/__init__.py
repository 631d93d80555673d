"""Environments: one protocol for JAX, one for the host, and `make` for both."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.envs.check import InvalidEnvironmentError, check_env
    from eligrad.envs.core import Environment, Step, Transition, step_autoreset
    from eligrad.envs.host import HostCopies, HostEnvironment, HostTransition
    from eligrad.envs.names import list_envs, register
    from eligrad.envs.registry import make
    from eligrad.envs.spaces import Box, Discrete, MultiDiscrete
    from eligrad.envs.wrappers import TimeLimit

__all__ = [
    "Box",
    "Discrete",
    "Environment",
    "HostCopies",
    "HostEnvironment",
    "HostTransition",
    "InvalidEnvironmentError",
    "MultiDiscrete",
    "Step",
    "TimeLimit",
    "Transition",
    "check_env",
    "list_envs",
    "make",
    "register",
    "step_autoreset",
]

__getattr__, __dir__ = lazy(__name__)
