"""Engines: what moves agents through environments, and `Online` for a stream of observations."""

from eligrad.engines.devices import device_for_each_run, keep_compiled_programs
from eligrad.engines.faults import Diverged, EnvironmentFault, OutOfMemory
from eligrad.engines.host import HostRuns
from eligrad.engines.host_rollout import HostRollouts
from eligrad.engines.multiprocess import Crew, WorkerDied
from eligrad.engines.online import Online
from eligrad.engines.rollout import RolloutRecord, Rollouts, RolloutState
from eligrad.engines.stream import Runs, StepRecord, StreamState

__all__ = [
    "Crew",
    "Diverged",
    "EnvironmentFault",
    "HostRollouts",
    "HostRuns",
    "Online",
    "OutOfMemory",
    "RolloutRecord",
    "RolloutState",
    "Rollouts",
    "Runs",
    "StepRecord",
    "StreamState",
    "WorkerDied",
    "device_for_each_run",
    "keep_compiled_programs",
]
