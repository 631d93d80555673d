"""A pytree as few arrays, for programs that are called once for every step.

A call costs about a microsecond for each array that goes in or comes out. An agent's state has
some seventy, most of them a number or two.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

LARGE = 2_000
"""Leaves of this size and more are left alone: copying them would cost more than it saves."""


class Packing:
    """Large leaves as they are, and all small leaves of one dtype as one vector."""

    def __init__(self, like: PyTree) -> None:
        leaves, self._structure = jax.tree.flatten(like)
        self._shapes = [leaf.shape for leaf in leaves]
        self._large = [i for i, leaf in enumerate(leaves) if math.prod(leaf.shape) >= LARGE]
        self._small: dict[Any, list[int]] = {}
        for i, leaf in enumerate(leaves):
            if i not in self._large:
                self._small.setdefault(leaf.dtype, []).append(i)

    def pack(self, tree: PyTree) -> list[Array]:
        """The arrays that stand for `tree`."""
        leaves = jax.tree.leaves(tree)
        vectors = [
            jnp.concatenate([jnp.ravel(leaves[i]) for i in group]) for group in self._small.values()
        ]
        return [leaves[i] for i in self._large] + vectors

    def unpack(self, arrays: list[Array]) -> PyTree:
        """The tree that `arrays` stand for."""
        leaves: dict[int, Array] = dict(zip(self._large, arrays, strict=False))
        for group, vector in zip(self._small.values(), arrays[len(self._large) :], strict=True):
            offset = 0
            for i in group:
                size = math.prod(self._shapes[i])
                leaves[i] = vector[offset : offset + size].reshape(self._shapes[i])
                offset += size
        return jax.tree.unflatten(self._structure, [leaves[i] for i in range(len(leaves))])
