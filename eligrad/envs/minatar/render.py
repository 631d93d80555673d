"""Pictures of the games in the original's colours."""

from __future__ import annotations

import jax
import matplotlib
import numpy as np
from jaxtyping import Bool, Int, UInt8

from eligrad._base.checks import whole_number


def palette(channels: int) -> UInt8[np.ndarray, "colours 3"]:
    """Black for an empty cell, then one colour per channel, from dark to bright."""
    steps = np.linspace(0.0, 1.0, channels + 2)[1:-1]
    colours = matplotlib.colormaps["cubehelix"](steps, bytes=True)[:, :3]
    return np.concatenate([np.zeros((1, 3), np.uint8), colours])


def render(
    observation: Bool[np.ndarray | jax.Array, "*batch height width channels"], scale: int = 1
) -> UInt8[np.ndarray, "*batch tall wide 3"]:
    """Colours of observations, one or many: where channels overlap, the last one shows.

    Each cell becomes `scale` × `scale` pixels.
    """
    scale = whole_number("scale", scale)
    lit = np.asarray(observation)
    channels = lit.shape[-1]
    top: Int[np.ndarray, ...] = np.max(lit * np.arange(1, channels + 1), axis=-1)
    large = top.repeat(scale, axis=-2).repeat(scale, axis=-1)
    return palette(channels)[large]
