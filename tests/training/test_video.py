"""Films of recorded episodes: what is where in a frame, and that every frame is in the file."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest
from PIL import Image

from eligrad.training import video as film
from eligrad.training.recording import Recording


def made_up(steps: int = 12, auxiliary: bool = True) -> Recording:
    """An episode that nobody played, with a reward at its fourth step."""
    random = np.random.default_rng(0)
    numbers = {name: random.normal(size=steps) for name in ("values", "following", "td_errors")}
    rewards = np.where(np.arange(steps) == 3, 1.0, 0.0)
    return Recording(
        title="QRC(λ) on a game",
        frames=random.integers(0, 255, (steps + 1, 10, 10, 3), np.uint8),
        observations=np.zeros((steps + 1, 1)),
        actions=np.zeros(steps, np.int32),
        rewards=rewards,
        scaled_rewards=rewards,
        **numbers,
        auxiliary=random.normal(size=steps) if auxiliary else None,
        of_actions=True,
        discount=0.9,
        terminated=True,
        truncated=False,
    )


def cursors(frames, top):
    """Where each frame has a column that is dark from the top of a panel to its bottom."""
    dark = frames[:, top : top + film.PANEL - 30, 54:-4].astype(int).sum(axis=-1) < 150
    assert np.all(dark.mean(axis=1).max(axis=1) > 0.5)
    return dark.sum(axis=1).argmax(axis=1)


def test_the_cursor_goes_over_the_chart_once():
    recording = made_up()
    frames = np.stack(list(film.compose(recording)))
    chart = film.PICTURE + 2 * film.MARGIN
    assert frames.shape == (13, chart + 3 * film.PANEL + 34, film.WIDTH, 3)
    assert not frames.shape[1] % 2
    at = cursors(frames, chart + 26)
    assert np.all(np.abs(np.diff(at) - np.diff(at).mean()) <= 1)
    assert at[-1] - at[0] > 0.9 * (film.WIDTH - 70)
    # The world is above, in squares of its own colours.
    large = recording.frames[5].repeat(30, axis=0).repeat(30, axis=1)
    picture = frames[5, film.MARGIN :, film.MARGIN :][: film.PICTURE, : film.PICTURE]
    np.testing.assert_array_equal(picture, large)
    # Without h there is a panel less.
    without = next(film.compose(made_up(auxiliary=False)))
    assert without.shape[0] == frames.shape[1] - film.PANEL


def test_small_numbers_leave_the_titles_in_their_place():
    """Matplotlib would write a common factor of 1e-5 where the title is, and move that."""
    small = made_up()
    assert small.auxiliary is not None
    small.auxiliary[:] *= 1e-5
    _, _, axes = film._draw_chart(small, film._panels(small))
    assert [axis.yaxis.get_offset_text().get_text() for axis in axes] == ["", "", ""]
    assert {"2e-05"} <= {label.get_text() for label in axes[1].get_yticklabels()}


def test_a_diverged_agent_has_a_film_too():
    broken = made_up()
    broken.values[4:] = np.nan
    broken.td_errors[4:] = np.inf
    assert len(list(film.compose(broken))) == 13


def test_the_gif_has_every_frame(tmp_path):
    recording = made_up()
    film.save(recording, tmp_path / "film.gif", fps=20.0)
    wanted = list(film.compose(recording))
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.n_frames == 13
        assert gif.size == (film.WIDTH, wanted[0].shape[0])
        for step, frame in enumerate(wanted):
            gif.seek(step)
            assert gif.info["duration"] == 50
            pixels = np.asarray(gif.convert("RGB")).astype(int)
            chart = slice(film.PICTURE + 2 * film.MARGIN, None)
            # 256 colours for all: a random picture loses some, the chart hardly any.
            assert np.mean(np.abs(pixels[chart] - frame[chart])) < 2
            assert tuple(pixels[0, 0]) == (255, 255, 255)
    assert [file.name for file in tmp_path.iterdir()] == ["film.gif"]


def test_mp4_goes_through_ffmpeg(tmp_path, monkeypatch):
    """Against a stand-in with imageio-ffmpeg's interface, which is no dependency of ours."""

    def write_frames(path, size, **options):
        assert options["output_params"] == ["-f", "mp4"]  # not by the name, which is a partial one
        warnings.warn("os.fork() was called. It is …", RuntimeWarning, stacklevel=1)
        frames = 0
        try:
            while True:
                frame = yield
                assert frame.shape == (size[1], size[0], 3)
                frames += 1
        finally:
            with open(path, "w") as file:
                file.write(str(frames))

    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "imageio_ffmpeg", None)
        with pytest.raises(ImportError, match="pip install imageio-ffmpeg"):
            film.save(made_up(), tmp_path / "film.mp4")
    module = types.ModuleType("imageio_ffmpeg")
    module.write_frames = write_frames
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        film.save(made_up(), tmp_path / "film.mp4")
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]
    assert (tmp_path / "film.mp4").read_text() == "13"


# Its reader leaves pipes open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_mp4_has_every_frame(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    recording = made_up()
    film.save(recording, tmp_path / "film.mp4", fps=10.0)
    wanted = np.stack(list(film.compose(recording)))
    about, *frames = ffmpeg.read_frames(str(tmp_path / "film.mp4"))
    assert about["fps"] == 10.0
    assert about["size"] == (wanted.shape[2], wanted.shape[1])
    read = np.stack([np.frombuffer(frame, np.uint8) for frame in frames])
    assert len(read) == len(wanted)
    # Colours are compressed; frames in another order would be further apart.
    off = np.abs(read.reshape(wanted.shape).astype(int) - wanted).mean(axis=(1, 2, 3))
    others = np.abs(wanted[1:].astype(int) - wanted[:-1]).mean(axis=(1, 2, 3))
    assert off.max() < others.min() / 2


def test_bad_targets_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.avi'; .gif, .mp4 are accepted"):
        film.save(made_up(), tmp_path / "film.avi")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        film.save(made_up(), tmp_path / "nowhere" / "film.gif")
