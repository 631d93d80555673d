"""Many small programs, each run for a moment."""

import jax
import pytest


@pytest.fixture(scope="package")
def compiled_quickly(tmp_path_factory):
    """Programs that are made sooner and run slower; a folder for those of other processes."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield tmp_path_factory.mktemp("programs")
    jax.config.update("jax_disable_most_optimizations", False)
