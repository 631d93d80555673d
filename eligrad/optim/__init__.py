"""Optimisers for streaming learners, as optax transformations."""

from eligrad.optim.ascent import ascend
from eligrad.optim.obgd import AdaptiveObGDState, adaptive_obgd, obgd

__all__ = ["AdaptiveObGDState", "adaptive_obgd", "ascend", "obgd"]
