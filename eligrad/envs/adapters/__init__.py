"""Environments of other packages behind the protocol of `eligrad.envs`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def lenient_promotion() -> Iterator[None]:
    """Lets environments of other libraries mix dtypes and ranks, even if the user forbids it."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
