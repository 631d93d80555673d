"""The same few programs in many tests: compiled once."""

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(scope="package")
def compiled_once(tmp_path_factory):
    """Keeps compiled programs for the length of this folder's tests; the folder they are in."""
    folder = tmp_path_factory.mktemp("programs")
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_disable_most_optimizations": True,
    }
    before = {name: jax.config.values[name] for name in settings}
    for values in (settings, before):
        for name, value in values.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        if values is settings:
            yield folder
