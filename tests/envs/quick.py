"""For tests that compile much and compute little."""

import jax
import pytest


@pytest.fixture
def quick_compilation():
    """Programs that are made sooner and run slower, for the length of one test."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
