"""Engines: loops that step agents and environments, and `Online` for a stream of observations."""

from eligrad.engines.devices import device_for_each_run, keep_compiled_programs
from eligrad.engines.episodes import Record
from eligrad.engines.faults import Diverged, EnvironmentFault, OutOfMemory
from eligrad.engines.host import HostRuns
from eligrad.engines.host_rollout import HostRollouts
from eligrad.engines.multiprocess import Multiprocess, WorkerDied
from eligrad.engines.online import Online
from eligrad.engines.rollout import Rollouts
from eligrad.engines.stream import Runs, RunState

__all__ = [
    "Diverged",
    "EnvironmentFault",
    "HostRollouts",
    "HostRuns",
    "Multiprocess",
    "Online",
    "OutOfMemory",
    "Record",
    "Rollouts",
    "RunState",
    "Runs",
    "WorkerDied",
    "device_for_each_run",
    "keep_compiled_programs",
]
