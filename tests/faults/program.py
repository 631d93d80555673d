"""`eligrad` with two environments that fail on request, and a clock that may jump.

    FAULT=raises FAULT_AT=3000 python -m tests.faults.program train qrc Fault/Host-v0 ...

Faults: `raises`, `reward` or `observation` (NaN), `memory`; in Fault/Host-v0 also `leaves`
(SystemExit), `exits` (os._exit) and `hangs`; all at step FAULT_AT of an environment.
With CLOCK=jumps the time of day goes back a day, or on by one, whenever it is asked for.
"""

from __future__ import annotations

import itertools
import os
import time

if os.environ.get("CLOCK") == "jumps":  # before anyone takes the function for themselves
    _now, _jumps = time.time, itertools.cycle([0.0, 86_400.0, -86_400.0])
    time.time = lambda: _now() + next(_jumps)

from eligrad.cli import main
from eligrad.engines import Rollouts, Runs
from eligrad.envs import register
from eligrad.envs.adapters.gymnasium import GymnasiumEnvironment
from tests.faults.environments import FAULT, HostEnv, JaxEnv, short_of_memory

register("Fault/Jax-v0", JaxEnv)
register("Fault/Host-v0", lambda: GymnasiumEnvironment(HostEnv, max_episode_steps=200))
if FAULT == "memory":
    for engine in (Runs, Rollouts):
        engine.advance = short_of_memory(engine.advance)

if __name__ == "__main__":
    main()
