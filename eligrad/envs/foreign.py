"""JAX code of others, traced under JAX's default rules whatever the caller's own are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def lenient_promotion() -> Iterator[None]:
    """Lets other people's environments mix dtypes and ranks, also where the user forbids it."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
