"""Strict everywhere: no silent dtype or rank promotion, runtime-checked shapes."""

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Every annotated function of the library is checked at run time; before any of it is imported.
install_import_hook("eligrad", "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "eligrad", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("eligrad")


@pytest.fixture
def x64():
    """Double precision for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def quick_compilation():
    """Programs that are made sooner and run slower, for tests that compile much."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
