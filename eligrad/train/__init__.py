"""Engines that train agents, and what is around them: checkpoints, metrics, run folders."""

from eligrad.train.checkpoint import CheckpointError
from eligrad.train.crew import Crew, WorkerDied
from eligrad.train.faults import Diverged, EnvironmentFault, OutOfMemory
from eligrad.train.host import HostRuns
from eligrad.train.host_rollout import HostRollouts
from eligrad.train.interruption import Interrupted
from eligrad.train.online import Online
from eligrad.train.platform import device_for_each_run, keep_compiled_programs
from eligrad.train.rollout import RolloutRecord, Rollouts, RolloutState
from eligrad.train.run import prepare, resume, train
from eligrad.train.session import Callback, Result, Session
from eligrad.train.stream import Runs, StepRecord, StreamState

__all__ = [
    "Callback",
    "CheckpointError",
    "Crew",
    "Diverged",
    "EnvironmentFault",
    "HostRollouts",
    "HostRuns",
    "Interrupted",
    "Online",
    "OutOfMemory",
    "Result",
    "RolloutRecord",
    "RolloutState",
    "Rollouts",
    "Runs",
    "Session",
    "StepRecord",
    "StreamState",
    "WorkerDied",
    "device_for_each_run",
    "keep_compiled_programs",
    "prepare",
    "resume",
    "train",
]
