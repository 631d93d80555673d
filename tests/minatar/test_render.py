"""Pictures have the original's colours, and files hold the frames they were given."""

from __future__ import annotations

import sys
import types

import jax.numpy as jnp
import matplotlib.colors
import minatar
import numpy as np
import pytest
import seaborn
from PIL import Image

from eligrad.envs.animation import save_gif, save_mp4
from eligrad.envs.minatar import GAMES
from eligrad.envs.minatar.render import palette, render


@pytest.mark.parametrize("channels", range(1, 13))
def test_palette_is_seaborns(channels):
    expected = matplotlib.colors.ListedColormap(
        [(0.0, 0.0, 0.0), *seaborn.color_palette("cubehelix", channels)]
    )
    colours = expected(np.arange(channels + 1), bytes=True)[:, :3]
    np.testing.assert_array_equal(palette(channels), colours)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.__name__)
def test_render_is_the_originals_display(game, monkeypatch):
    """The array that the original's `display_state` shows, under its own colour map and norm."""
    module = {"SpaceInvaders": "space_invaders"}.get(game.__name__, game.__name__.lower())
    env = minatar.Environment(module)
    env.seed(0)
    for _ in range(20):
        env.act(0)
    shown = {}

    class Axes:
        def imshow(self, values, cmap, norm, interpolation):
            shown["rgb"] = cmap(norm(values), bytes=True)[..., :3]

    plot = types.SimpleNamespace(
        subplots=lambda *_: (None, Axes()),
        show=lambda **_: None,
        pause=lambda _: None,
        cla=lambda: None,
    )
    monkeypatch.setattr("minatar.environment.plt", plot)
    env.display_state()
    np.testing.assert_array_equal(render(env.state()), shown["rgb"])


def test_last_channel_wins_and_cells_scale():
    observation = np.zeros((2, 3, 4), bool)
    observation[0, 1, [0, 2]] = True
    observation[1, 2, 3] = True
    image = render(jnp.asarray(observation), scale=3)
    colours = palette(4)
    assert image.shape == (6, 9, 3)
    assert image.dtype == np.uint8
    assert np.all(image[:3, 3:6] == colours[3])
    assert np.all(image[3:, 6:] == colours[4])
    assert image.any(axis=-1).sum() == 2 * 9


def test_render_of_a_batch_is_a_batch_of_renders():
    observations = np.random.default_rng(0).random((2, 3, 10, 10, 6)) < 0.3
    images = render(observations, scale=2)
    assert images.shape == (2, 3, 20, 20, 3)
    np.testing.assert_array_equal(images[1, 2], render(observations[1, 2], scale=2))


def test_bad_scale_is_named():
    with pytest.raises(ValueError, match="scale is 0"):
        render(np.zeros((10, 10, 4), bool), scale=0)


def frames_of(count: int) -> np.ndarray:
    observations = np.random.default_rng(1).random((count, 10, 10, 10)) < 0.2
    return render(observations, scale=4)


def test_gif_holds_the_frames(tmp_path):
    frames = frames_of(5)
    save_gif(tmp_path / "game.gif", frames, fps=20.0)
    with Image.open(tmp_path / "game.gif") as image:
        assert image.n_frames == 5
        assert image.info["loop"] == 0
        for i, frame in enumerate(frames):
            image.seek(i)
            assert image.info["duration"] == 50
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frame)


def test_gif_keeps_its_length_when_nothing_moves(tmp_path):
    save_gif(tmp_path / "still.gif", np.repeat(frames_of(1), 30, axis=0), fps=10.0)
    with Image.open(tmp_path / "still.gif") as image:
        assert image.n_frames * image.info["duration"] == 3000


@pytest.mark.parametrize("save", [save_gif, save_mp4])
def test_bad_films_are_named(save, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", types.ModuleType("imageio_ffmpeg"))
    with pytest.raises(ValueError, match="frames is empty"):
        save(tmp_path / "film", np.zeros((0, 40, 40, 3), np.uint8))
    with pytest.raises(ValueError, match="fps is 0"):
        save(tmp_path / "film", frames_of(2), fps=0.0)


def test_mp4_without_ffmpeg_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"pip install imageio-ffmpeg, or write a GIF"):
        save_mp4(tmp_path / "game.mp4", frames_of(2))


def test_mp4_goes_through_ffmpeg(tmp_path, monkeypatch):
    """Against a stand-in with imageio-ffmpeg's interface, which is no dependency of ours."""
    calls = {}

    def write_frames(path, size, *, fps, macro_block_size, output_params):
        assert output_params == ["-f", "mp4"]
        calls.update(path=path, size=size, fps=fps, macro_block_size=macro_block_size, frames=[])
        try:
            while True:
                calls["frames"].append((yield))
        finally:
            calls["closed"] = True

    module = types.ModuleType("imageio_ffmpeg")
    module.write_frames = write_frames
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", module)
    frames = frames_of(3)[:, :, :20]
    save_mp4(tmp_path / "game.mp4", frames, fps=30.0)
    assert calls["path"] == str(tmp_path / "game.mp4")
    assert calls["size"] == (20, 40)
    assert (calls["fps"], calls["macro_block_size"], calls["closed"]) == (30.0, 2, True)
    np.testing.assert_array_equal(np.stack(calls["frames"]), frames)
