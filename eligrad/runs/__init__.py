"""The files of a run: config, metrics, checkpoints, summary. Readable without JAX."""
