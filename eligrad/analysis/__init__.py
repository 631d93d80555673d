"""Analysis of runs: data frames, statistics, comparisons, figures and a report."""

from eligrad._base.optional import needs_train

with needs_train("eligrad.analysis"):
    from eligrad.analysis.frames import best_configurations
    from eligrad.analysis.load import load_chunks, load_episodes, load_runs

__all__ = ["best_configurations", "load_chunks", "load_episodes", "load_runs"]
