"""Where jobs are trained: on this machine, on a Ray cluster, or under SLURM."""

from eligrad.sweeps.executors.executor import Executor, make_executor

__all__ = ["Executor", "make_executor"]
