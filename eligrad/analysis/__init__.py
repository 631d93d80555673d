"""Analysis: runs as tables, statistics, comparisons, figures and a report."""

from eligrad.analysis.load import load_chunks, load_episodes, load_runs

__all__ = ["load_chunks", "load_episodes", "load_runs"]
