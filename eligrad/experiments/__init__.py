"""Experiments: many runs, what they say together, and how it is shown."""
