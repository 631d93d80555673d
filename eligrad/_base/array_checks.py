"""Checks of arguments, also while tracing: messages say what was given and what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from eligrad._base.checks import is_real, is_traced
from eligrad._base.checks import one_of as one_of
from eligrad._base.checks import positive as positive
from eligrad._base.checks import within as within

Number = int | float | Shaped[Array, ""]


def real(name: str, value: Any, like: Array | None = None) -> Array:
    """`value` as an array of a floating dtype; arrays of integers are refused.

    A number of Python's gets the dtype of `like`, as in NumPy and JAX it has none of its own.
    """
    array = jnp.asarray(value)
    plain = array.weak_type or isinstance(value, float)
    if like is not None and plain and is_real(array.dtype):
        return array.astype(like.dtype)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"{name} has dtype {array.dtype}; a floating dtype is accepted "
            f"(convert it with {name}.astype(jnp.float32))"
        )
    return array


def number(name: str, value: Any, like: Array) -> Array:
    """A hyper-parameter: a scalar or an array, integers too, in the dtype of `like`."""
    array = jnp.asarray(value)
    if not is_real(array.dtype):
        raise TypeError(f"{name} has dtype {array.dtype}; a real number is accepted")
    return array.astype(like.dtype)


def boolean(name: str, value: Any) -> Array:
    """`value` as an array of truth values."""
    array = jnp.asarray(value)
    if array.dtype != jnp.bool_:
        raise TypeError(f"{name} has dtype {array.dtype}; bool is accepted (try {name} != 0)")
    return array


def known_zero(value: Any) -> bool:
    """Whether `value` is known, already while tracing, to be 0 everywhere."""
    return not is_traced(value) and not np.any(np.asarray(value))


def scalar(name: str, value: Array) -> None:
    """Refuses anything but one number."""
    if value.ndim != 0:
        raise ValueError(
            f"{name} has shape {value.shape}; a scalar is accepted (use jax.vmap for batches)"
        )


def sequence(**arrays: Array) -> int:
    """The common length of several one-dimensional, non-empty sequences."""
    (first, reference), *_ = arrays.items()
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(
                f"{name} has shape {array.shape}; one sequence, shape (time,), is accepted "
                "(use jax.vmap for batches)"
            )
        if array.shape != reference.shape:
            raise ValueError(
                f"{name} has length {array.shape[0]} and {first} has length "
                f"{reference.shape[0]}; equal lengths are accepted"
            )
    if reference.shape[0] == 0:
        raise ValueError(f"{first} is empty; a sequence of at least one step is accepted")
    return reference.shape[0]


def same_shape(**arrays: Array) -> None:
    """Refuses arrays of different shapes."""
    (first, reference), *_ = arrays.items()
    for name, array in arrays.items():
        if array.shape != reference.shape:
            raise ValueError(
                f"{name} has shape {array.shape} and {first} has shape {reference.shape}; "
                "equal shapes are accepted"
            )


def same_structure(name: str, tree: Any, like_name: str, like: Any) -> None:
    """Refuses a pytree whose structure or leaf shapes differ from those of another."""
    given, wanted = jax.tree.structure(tree), jax.tree.structure(like)
    if given != wanted:
        raise ValueError(f"{name} has structure {given}; that of {like_name} is needed: {wanted}")
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    for (path, a), b in zip(leaves, jax.tree.leaves(like), strict=True):
        if jnp.shape(a) != jnp.shape(b):
            leaf = jax.tree_util.keystr(path)
            raise ValueError(
                f"{name}{leaf} has shape {jnp.shape(a)}; that of {like_name}{leaf} is needed: "
                f"{jnp.shape(b)}"
            )


def check_number(name: str, value: Number, holds: Callable[[float], bool], accepted: str) -> None:
    """Raises ValueError unless `holds(value)`; a traced value has no value yet, and passes."""
    try:
        number = float(value)
    except jax.errors.ConcretizationTypeError:
        return
    if not holds(number):
        raise ValueError(f"{name} is {number}; {accepted} is accepted")
