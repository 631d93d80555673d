"""The kernels that a program becomes: what is one kernel on a CPU, what is not merged on a GPU.

A CPU runs a program as a list of kernels. A step of a streaming agent has hundreds of them, most
for a few numbers, and what is cheap is computed again in each kernel that reads it:
`lax.optimization_barrier` prevents that on GPUs only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jaxtyping import Array, Shaped

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MOST_NUMBERS = 2048
"""Of an array: the compiler gives sums over more to a library, which such a kernel cannot call."""

_in_use: ContextVar[bool] = ContextVar("in_use", default=False)
_whole: ContextVar[bool] = ContextVar("whole", default=False)
_ONE_KERNEL = {"inlineable": "false", "xla_cpu_small_call": "true"}


def one_kernel(function: F) -> F:
    """`function`, which within `for_one_run` becomes one kernel that keeps its results in memory.

    For elementwise functions of small arrays, slices and sums. Matrix products are not accepted.
    Keyword-only arguments are constants. The function is the same kernel with and without
    derivatives, whichever of its results are used, so that a program that acts by a value and then
    learns it computes it once: what derivatives need is computed by kernels of their own, and no
    result is left out. Results are the same up to rounding.
    """

    @functools.cache
    def kernels(constants: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
        of_arrays = functools.partial(function, **dict(constants))

        @jax.jit
        def tangent(arguments: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
            return jax.jvp(of_arrays, arguments, tangents)[1]

        call = jax.custom_jvp(_as_one_kernel(jax.jit(of_arrays)))
        along = _as_one_kernel(tangent)
        call.defjvp(lambda arguments, tangents: (call(*arguments), along(arguments, tangents)))
        return call

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if not (in_use() and all(jnp.size(x) <= MOST_NUMBERS for x in jax.tree.leaves(arguments))):
            return function(*arguments, **options)
        return jax.lax.optimization_barrier(kernels(tuple(options.items()))(*arguments))

    return call  # pyright: ignore[reportReturnType]


def _as_one_kernel(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with set_xla_metadata(**_ONE_KERNEL):
            return compiled(*arguments)

    return call


def whole_program(function: F) -> F:
    """`function`, which becomes one kernel with all that it calls.

    Of matrix products, those with a vector are accepted, and sums of large arrays if `total` makes
    them. The compiler raises `JaxRuntimeError` at anything else. Every array among the arguments
    must have an effect on the results, else the compiler ends the process: it looks for the address
    of each in a table of those that the kernel reads.
    """

    def trace(*arguments: Any) -> Any:
        with _set(_whole, True):
            return function(*arguments)

    return functools.wraps(function)(_as_one_kernel(jax.jit(trace)))  # pyright: ignore[reportReturnType]


def after(number: Shaped[Array, ""], x: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    """`x`, which a program for one run on a CPU has only once it has `number`, a finite one.

    For the order of work: its caches hold one large network, and not two in turn. An
    `optimization_barrier` does not order anything there, and this a compiler cannot simplify.
    """
    return x + 0.0 * number if in_use() else x


def apart(tree: T) -> T:
    """The same arrays, but unknown to a compiler as those that other operations read.

    For GPUs. A compiler merges small kernels that read the same array, and the one that it makes
    waits for all that any of them needs. Each array has a barrier of its own, since a barrier waits
    for all that goes through it.
    """
    return jax.tree.map(jax.lax.optimization_barrier, tree)


def total(x: Shaped[Array, "*shape"]) -> Shaped[Array, ""]:
    """The sum of all entries of an array."""
    if not in_whole_program() or x.size <= MOST_NUMBERS or x.ndim < 2:
        return jnp.sum(x)
    columns = jnp.ones(x.shape[-1], x.dtype)
    return jnp.sum(jnp.matmul(x, columns, precision=jax.lax.Precision.HIGHEST))


@contextlib.contextmanager
def for_one_run(on_cpu: bool) -> Iterator[None]:
    """What is traced within is a program for one run, without a batch axis, if it is for a CPU."""
    with _set(_in_use, on_cpu and available()):
        yield


@contextlib.contextmanager
def _set(variable: ContextVar[bool], value: bool) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def in_whole_program() -> bool:
    """Whether a `whole_program` is being traced."""
    return _whole.get()


def in_use() -> bool:
    """Whether a program for one run on a CPU is being traced."""
    return _in_use.get()


@functools.cache
def available() -> bool:
    """Whether the compiler makes such kernels."""

    def probe(x: Any) -> Any:
        return jnp.sum(jax.jit(lambda x: x - jnp.dot(x, x))(x))

    with set_xla_metadata(**_ONE_KERNEL):
        try:
            jax.jit(jax.grad(probe)).lower(jnp.zeros(64)).compile()
        except jax.errors.JaxRuntimeError:
            return False
    return True
