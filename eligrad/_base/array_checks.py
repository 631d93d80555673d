"""Checks of arguments, also while tracing: messages say what was given and what is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from eligrad._base.errors import did_you_mean

Number = int | float | Shaped[Array, ""]

Leaf = Any
"""A number in a settings pytree: a batch of them inside `vmap`'s arguments, and whatever a
transformation puts in its place meanwhile."""


def real(name: str, value: Any) -> Array:
    """`value` as an array of a floating dtype; integers are refused."""
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"{name} has dtype {array.dtype}; a floating dtype is accepted "
            f"(convert it with {name}.astype(jnp.float32))"
        )
    return array


def number(name: str, value: Any, like: Array) -> Array:
    """A hyper-parameter: a scalar or an array, integers too, in the dtype of `like`."""
    array = jnp.asarray(value)
    if not _is_real(array.dtype):
        raise TypeError(f"{name} has dtype {array.dtype}; a real number is accepted")
    return array.astype(like.dtype)


def boolean(name: str, value: Any) -> Array:
    """`value` as an array of truth values."""
    array = jnp.asarray(value)
    if array.dtype != jnp.bool_:
        raise TypeError(f"{name} has dtype {array.dtype}; bool is accepted (try {name} != 0)")
    return array


def within(name: str, value: Any, low: float, high: float) -> None:
    """Refuses known values outside [low, high], NaN and infinity always.

    A traced value is not checked.
    """
    if isinstance(value, jax.core.Tracer):
        return
    interval = f"[{low:g}, {high:g}]" if np.isfinite(high) else f"[{low:g}, ∞)"
    accepted = f"values in {interval} are accepted"
    known = _known_numbers(name, value, accepted)
    outside = ~(np.isfinite(known) & (known >= low) & (known <= high))
    if np.any(outside):
        raise ValueError(f"{name} is {known[outside].flat[0]}; {accepted}")


def positive(name: str, value: Any) -> None:
    """Refuses known values that are not finite and above 0; a traced value is not checked."""
    if isinstance(value, jax.core.Tracer):
        return
    accepted = "numbers above 0 are accepted"
    known = _known_numbers(name, value, accepted)
    if not np.all(np.isfinite(known) & (known > 0)):
        raise ValueError(f"{name} is {value}; {accepted}")


def _known_numbers(name: str, value: Any, accepted: str) -> np.ndarray:
    known = np.asarray(value)
    if not _is_real(known.dtype):
        raise TypeError(f"{name} is {value!r}; {accepted}")
    return known


def _is_real(dtype: Any) -> bool:
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    return any(jnp.issubdtype(dtype, kind) for kind in kinds)


def known_zero(value: Any) -> bool:
    """Whether `value` is known, already while tracing, to be 0 everywhere."""
    return not isinstance(value, jax.core.Tracer) and not np.any(np.asarray(value))


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


def one_of(name: str, value: Any, accepted: Iterable[str]) -> None:
    """Refuses a name that is not in the list, and suggests the nearest one that is."""
    accepted = tuple(accepted)
    if value not in accepted:
        hint = did_you_mean(str(value), accepted, all_shown=True)
        raise ValueError(f"{name} is {value!r}; one of {', '.join(accepted)} is accepted{hint}")


def same_structure(name: str, tree: Any, like_name: str, like: Any) -> None:
    """Refuses a pytree whose structure or leaf shapes differ from those of another."""
    given, wanted = jax.tree.structure(tree), jax.tree.structure(like)
    if given != wanted:
        raise ValueError(f"{name} has structure {given}; that of {like_name} is needed: {wanted}")
    for path, (a, b) in zip(
        jax.tree_util.tree_leaves_with_path(tree),
        zip(jax.tree.leaves(tree), jax.tree.leaves(like), strict=True),
        strict=True,
    ):
        if jnp.shape(a) != jnp.shape(b):
            leaf = jax.tree_util.keystr(path[0])
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
