"""Gymnasium environments: any id, custom classes, and ready-made vector environments."""

from eligrad._base.optional import import_optional

import_optional("gymnasium", extra="gymnasium", purpose="eligrad.envs.adapters.gymnasium")

from eligrad.envs.adapters.gymnasium.environment import GymnasiumEnvironment  # noqa: E402
from eligrad.envs.adapters.gymnasium.vector import GymnasiumVector  # noqa: E402

__all__ = ["GymnasiumEnvironment", "GymnasiumVector"]
