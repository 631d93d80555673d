"""The probes as Gymnasium environments, registered under their own names on import.

    import eligrad.envs.probes_gymnasium
    env = gymnasium.make("Probe/Trace-v0")

or, in one string, `gymnasium.make("eligrad.envs.probes_gymnasium:Probe/Trace-v0")`.
"""

from __future__ import annotations

import gymnasium

from eligrad.envs import probes
from eligrad.envs.adapters.to_gymnasium import GymnasiumFromJax


def make_probe(name: str) -> GymnasiumFromJax:
    """The probe of that name, such as `"Probe/Reward-v0"`."""
    if name not in probes.PROBES:
        raise ValueError(f"name is {name!r}; one of {', '.join(probes.PROBES)} is accepted")
    _, _, class_name = probes.PROBES[name].partition(":")
    return GymnasiumFromJax(getattr(probes, class_name)())


for _name in probes.PROBES:
    if _name not in gymnasium.registry:
        gymnasium.register(
            _name, entry_point="eligrad.envs.probes_gymnasium:make_probe", kwargs={"name": _name}
        )
