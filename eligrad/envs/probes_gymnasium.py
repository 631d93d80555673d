"""The probes as Gymnasium environments, registered under their own names on import.

    import eligrad.envs.probes_gymnasium
    env = gymnasium.make("Probe/Trace-v0")

or, in one string, `gymnasium.make("eligrad.envs.probes_gymnasium:Probe/Trace-v0")`.
"""

from __future__ import annotations

import gymnasium

from eligrad._base.lazy import imported
from eligrad.envs.adapters.to_gymnasium import GymnasiumFromJax
from eligrad.envs.names import PROBES


def make_probe(name: str) -> GymnasiumFromJax:
    """The probe of that name, such as `"Probe/Reward-v0"`."""
    if name not in PROBES:
        raise ValueError(f"name is {name!r}; one of {', '.join(PROBES)} is accepted")
    return GymnasiumFromJax(imported(PROBES[name])())


for _name in PROBES:
    if _name not in gymnasium.registry:
        gymnasium.register(
            _name, entry_point="eligrad.envs.probes_gymnasium:make_probe", kwargs={"name": _name}
        )
