"""Strict everywhere: no silent dtype or rank promotion, runtime-checked shapes."""

import os
import signal

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Every annotated function of the library is checked at run time; before any of it is imported.
install_import_hook("eligrad", "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# As from a terminal: jobs in a shell's background, and all that they start, do not hear Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "eligrad", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("eligrad")


@pytest.fixture
def x64():
    """Double precision for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def quick_compilation():
    """Programs that are made sooner and run slower, where tests compile much; children's, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """The same few programs serve many tests: whichever process makes one keeps it for all.

    The limit of the folder's size is there for the lock that comes with it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    for name, value in {
        "jax_compilation_cache_dir": str(folder / "programs"),
        "jax_compilation_cache_max_size": 2**33,
        "jax_persistent_cache_min_compile_time_secs": 0.05,
    }.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
