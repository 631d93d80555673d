"""Settings of all tests: strict dtype and rank promotion, shapes checked at run time."""

import contextlib
import os
import signal
import time
import zlib

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from jax._src import compiler, lru_cache

# Every annotated function of the library is checked at run time; before any of it is imported.
jaxtyping.install_import_hook("eligrad", "beartype.beartype")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# As from a terminal: jobs in a shell's background, and all that they start, do not hear Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "eligrad", deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("eligrad")

_BEGAN = time.monotonic()


@pytest.fixture
def unchecked():
    """As users have it: without the run-time checks of annotations that all other tests use."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_addoption(parser):
    group = parser.getgroup("eligrad")
    group.addoption("--slice", metavar="COMMIT/N", help="one of N parts, chosen by a commit's hash")
    group.addoption(
        "--minutes", type=float, help="start no test after this many minutes; name those left"
    )


def pytest_collection_modifyitems(config, items):
    if (chosen := config.getoption("--slice")) is not None:
        commit, _, parts = chosen.partition("/")
        kept = {item.nodeid: item for item in items}
        kept = [kept[name] for name in slice_of(list(kept), commit, int(parts))]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def slice_of(names, commit, parts):
    """Selects one of N parts of the tests; eight commits in a row run nearly all of them.

    The order of files changes each time, so that a lack of time does not always hit the same ones.
    """
    which = int(commit, 16) % parts
    kept = [name for name in names if zlib.crc32(name.encode()) % parts == which]
    return sorted(kept, key=lambda name: zlib.crc32((commit + name.partition("::")[0]).encode()))


def pytest_runtest_setup(item):
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - _BEGAN > 60 * minutes:
        pytest.skip(f"no time left for {item.nodeid}")


@pytest.fixture
def x64():
    """Double precision for the length of one test."""
    with jax.enable_x64(True):
        yield


@contextlib.contextmanager
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        jax.config.update("jax_disable_most_optimizations", True)
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@contextlib.contextmanager
def _without_emitter():
    options = compiler.get_compile_options

    def without_emitter(*args, env_options_overrides=None, **kwargs):
        chosen = {"xla_cpu_use_fusion_emitters": False} | (env_options_overrides or {})
        return options(*args, env_options_overrides=chosen, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", without_emitter)
        yield


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles faster and runs slower, for tests that compile much; in subprocesses too."""
    with _quick():
        yield


@pytest.fixture(scope="module")
def quickest_compilation(quick_compilation):
    """Compiles in half of that time and runs slower still, for programs that run for a moment.

    XLA's emitter of fused operations takes the other half. In this process only.
    """
    with _without_emitter():
        yield


@pytest.fixture
def quickest_programs():
    """As `quickest_compilation`, for one test; others of its file need what users get."""
    with _quick(), _without_emitter():
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Keeps compiled programs for all tests and processes.

    The limit of the folder's size is there for the lock that comes with it. It is never reached: to
    look for it would read a file of every program for each new one.
    """
    lru_cache.LRUCache._evict_if_needed = lambda self, *, additional_size=0: None
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
