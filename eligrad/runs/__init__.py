"""What a run leaves on disk: config, metrics, checkpoints, summary. Readable without JAX."""
