"""Gymnasium environments: any id, and custom classes."""

from eligrad._base.optional import import_optional

import_optional("gymnasium", extra="gymnasium", purpose="eligrad.envs.adapters.gymnasium")

from eligrad.envs.adapters.gymnasium.environment import GymnasiumEnvironment  # noqa: E402

__all__ = ["GymnasiumEnvironment"]
