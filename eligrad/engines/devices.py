"""Prepares JAX for training: compiled programs are kept between runs, all cores are used."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from eligrad._base.system import environment_variable

MOST_DEVICES = 64


def cache_folder() -> Path:
    """Where compiled programs are kept: `eligrad/xla` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "eligrad" / "xla"


def keep_compiled_programs() -> None:
    """Keeps compiled programs on disk, so that the next run of the same shape need not compile.

    A cache that was set up already (`JAX_COMPILATION_CACHE_DIR`) is left as it is.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder()))


def device_for_each_run(runs: int) -> None:
    """Lets JAX see the CPU as one device for each run, so that runs share its cores.

    Call it before JAX is first used: it has no effect later. It changes nothing if the number of
    devices is set by `--xla_force_host_platform_device_count` in `XLA_FLAGS` or by
    JAX_NUM_CPU_DEVICES.
    """
    counted = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not counted and jax.config.values["jax_num_cpu_devices"] < 0:
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", min(runs, MOST_DEVICES))


def one_thread() -> None:
    """Lets XLA have one thread for its work on a CPU, which is best for a single streaming agent.

    Else it divides the larger arrays of each step among as many threads as there are cores, and
    handing the parts over costs more than it saves. Call it before JAX is first used: it has no
    effect later. NPROC in the environment is XLA's setting for it, and comes first if it is set.
    """
    if "NPROC" not in os.environ:
        # An error is raised again at the first use.
        with environment_variable("NPROC", "1"), contextlib.suppress(RuntimeError):
            jax.devices()


def calling_thread() -> None:
    """Lets programs on a CPU run in the thread that calls them, best for one agent in Gymnasium.

    A step is too small to be handed to another thread. Call it before JAX is first used: it has no
    effect later.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` with the compiler options that make training faster."""
    return jax.jit(function, compiler_options=_compiler_options(), **options)


_IN_PLACE: dict[str, str | bool] = {"xla_cpu_copy_insertion_use_region_analysis": True}
_CONCURRENT: dict[str, str | bool] = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
OPTIONS: dict[str, list[dict[str, str | bool]]] = {
    # No copies of parameters that are overwritten anyway: a sixth of a step's time. The widest
    # vectors that the processor has: up to another eighth.
    "cpu": [_IN_PLACE | {"xla_cpu_prefer_vector_width": "512"}, _IN_PLACE],
    # Small kernels that do not wait for each other run at once, and the loop over steps is one CUDA
    # graph: a fifth of the time of 48 agents.
    "gpu": [_CONCURRENT | {"xla_gpu_enable_command_buffer": _GRAPHS}, _CONCURRENT],
}
"""By backend: the options to ask for, and fewer of them for a compiler that does not know all."""


@functools.cache
def _compiler_options() -> dict[str, str | bool] | None:
    """The options that the compiler knows; with them the results are the same up to rounding."""
    for options in OPTIONS.get(jax.default_backend(), []):
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.jit(lambda: 0, compiler_options=options).lower().compile()
            return options
    return None


class _Compilations:
    """The time that JAX has spent on tracing and compiling in this process."""

    def __init__(self) -> None:
        self.seconds, self._end = 0.0, 0.0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            # A function that is traced within another one is a part of it, and ends first.
            self.seconds += now - max(self._end, now - duration_secs)
            self._end = now


_compilations = _Compilations()


def compile_seconds() -> float:
    """Seconds that were spent on tracing and compiling so far."""
    return _compilations.seconds


def count_compiling(seconds: float) -> None:
    """Counts what other processes spent on it, for which this one has waited."""
    _compilations.seconds += seconds


def return_freed_memory() -> None:
    """Gives memory that was used and freed back to the system.

    That of compilers is some 200 MB, kept by the C library, which has a call for this on Linux, if
    it is glibc; that of tables some MB, kept by Arrow.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
