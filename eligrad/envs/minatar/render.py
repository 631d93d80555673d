"""Pictures of the games in the original's colours: arrays, an overview of all five."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Bool, Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from eligrad._base.checks import whole_number
from eligrad.envs.minatar import GAMES, Game


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


def contact_sheet(path: str | Path, length: int = 5) -> None:
    """Draws `length` consecutive frames of each game, with what each colour stands for."""
    figure = Figure(figsize=(2.0 * length + 2.2, 2.35 * len(GAMES)), layout="constrained")
    parts = figure.subfigures(len(GAMES), 1, squeeze=False)
    for part, game_class in zip(np.ravel(parts), GAMES, strict=True):
        game = game_class()
        part.suptitle(f"{game.name}: {length} consecutive frames →", x=0.01, ha="left")
        *boards, legend = part.subplots(1, length + 1)
        for axes, observation in zip(boards, _lively_moments(game, length), strict=True):
            _draw_board(axes, observation)
        _draw_legend(legend, game)
    figure.savefig(path, dpi=80)


def _draw_board(axes: Axes, observation: Bool[np.ndarray, "height width channels"]) -> None:
    axes.imshow(render(observation), interpolation="none")
    height, width = observation.shape[:2]
    axes.set_xticks(np.arange(width + 1) - 0.5, labels=[])
    axes.set_yticks(np.arange(height + 1) - 0.5, labels=[])
    axes.grid(color="0.3", linewidth=0.5)
    axes.tick_params(length=0)


def _draw_legend(axes: Axes, game: Game) -> None:
    colours = palette(len(game.channels))[1:] / 255.0
    patches = [
        Patch(facecolor=colour, edgecolor="0.3", label=channel.replace("_", " "))
        for colour, channel in zip(colours, game.channels, strict=True)
    ]
    axes.legend(handles=patches, loc="center left", frameon=False, fontsize=8)
    axes.axis("off")


def _lively_moments(
    game: Game, length: int, copies: int = 64, steps: int = 600
) -> Bool[np.ndarray, "length height width channels"]:
    """Of some random games, the consecutive frames that are least like the beginning."""
    params = game.default_params()

    def play(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state, first = game.reset(key, params)

        def step(carry: tuple, key: jax.Array) -> tuple:
            state, lives = carry
            act_key, step_key = jax.random.split(key)
            action = jax.random.randint(act_key, (), 0, len(game.actions))
            stepped = game.step(step_key, state, action, params)
            lives &= ~stepped.terminated
            changes = jnp.sum(stepped.observation != first, dtype=jnp.int32)
            return (stepped.state, lives), (stepped.observation, jnp.where(lives, changes, -1))

        _, trace = jax.lax.scan(step, (state, jnp.bool_(True)), jax.random.split(key, steps))
        return trace

    keys = jax.random.split(jax.random.key(0), copies)
    observations, changes = jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(keys))
    windows = np.lib.stride_tricks.sliding_window_view(changes, length, axis=1)
    scores = np.where(windows.min(axis=-1) >= 0, windows.sum(axis=-1), -1)
    best, start = np.unravel_index(np.argmax(scores), scores.shape)
    return observations[best, start : start + length]
