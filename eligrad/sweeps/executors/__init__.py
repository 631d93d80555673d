"""Executors start the workers of a sweep: on this machine, on a Ray cluster, or under SLURM."""

from eligrad.sweeps.executors.executor import EXECUTORS, Executor, executor_class, make_executor

__all__ = ["EXECUTORS", "Executor", "executor_class", "make_executor"]
