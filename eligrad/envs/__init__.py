"""Environments: one protocol for JAX, one for the host, and `make` for both."""

from typing import TYPE_CHECKING

from eligrad._base.lazy import lazy

if TYPE_CHECKING:
    from eligrad.envs.check import InvalidEnvironmentError as InvalidEnvironmentError
    from eligrad.envs.check import check_env as check_env
    from eligrad.envs.core import Environment as Environment
    from eligrad.envs.core import Step as Step
    from eligrad.envs.core import Transition as Transition
    from eligrad.envs.core import step_autoreset as step_autoreset
    from eligrad.envs.host import HostCopies as HostCopies
    from eligrad.envs.host import HostEnvironment as HostEnvironment
    from eligrad.envs.host import HostTransition as HostTransition
    from eligrad.envs.names import list_envs as list_envs
    from eligrad.envs.names import register as register
    from eligrad.envs.registry import make as make
    from eligrad.envs.spaces import Box as Box
    from eligrad.envs.spaces import Discrete as Discrete
    from eligrad.envs.spaces import MultiDiscrete as MultiDiscrete
    from eligrad.envs.wrappers import TimeLimit as TimeLimit

__getattr__, __dir__ = lazy(__name__)
