"""A recorded episode as a video: each frame above a chart of the agent's estimates.

The chart is drawn once. A frame then costs only what differs: the picture, a few numbers, the
cursor, and the future, which is pale.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont

from eligrad._base import files
from eligrad._base.text import rounded
from eligrad.envs.animation import import_ffmpeg, save_gif, save_mp4
from eligrad.training.recording import Recording

VALUE, AUXILIARY, ERROR, REWARD = "#0072B2", "#009E73", "#D55E00", "#E69F00"
"""Colours of value, h, TD error and reward, apart for the colour-blind too."""
SUFFIXES = (".gif", ".mp4")

WIDTH = 560
PICTURE = 300
"""The square that a picture of the environment is fitted into."""
MARGIN = 16
PANEL = 92
"""Height of one part of the chart."""
_INK, _QUIET = "#222222", "#777777"
_PALE = 0.72
"""How much of the future is white."""


def save(recording: Recording, path: str | Path, fps: float = 15.0) -> None:
    """Writes a GIF or, with the package imageio-ffmpeg, an MP4; the name says which."""
    path = Path(path).expanduser()
    check_target(path)
    with files.replacing(path) as partial:
        if path.suffix == ".gif":
            save_gif(partial, _with_one_palette(recording), fps)
            return
        with warnings.catch_warnings():
            # JAX has threads, whose locks a child could wait for. This one becomes ffmpeg at once
            # and asks for none of them.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            save_mp4(partial, compose(recording), fps)


def check_target(path: Path) -> None:
    """Refuses a file that could not be written, before there is anything to write."""
    files.check_target(path, SUFFIXES)
    if path.suffix == ".mp4":
        import_ffmpeg()


def compose(recording: Recording) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """The frames of the video, one by one: T + 1 of them for T steps."""
    video = _Video(recording)
    for step in range(len(recording) + 1):
        yield video.frame(step)


def _with_one_palette(recording: Recording) -> Iterator[Image.Image]:
    """Frames in the same 256 colours: what does not move stays the same, and the file small."""
    video, last = _Video(recording), len(recording)
    sample = [video.frame(step) for step in sorted({0, last // 3, 2 * last // 3, last})]
    palette = Image.fromarray(np.concatenate(sample)).quantize(256)
    colours = np.array(palette.getpalette(), np.uint8).reshape(-1, 3)
    # Averaged with what is nearly white, the paper would be grey.
    colours[colours.min(axis=1) > 240] = 255
    palette.putpalette(colours.tobytes())
    for step in range(last + 1):
        frame = Image.fromarray(video.frame(step))
        yield frame.quantize(palette=palette, dither=Image.Dither.NONE)


@dataclasses.dataclass(frozen=True)
class _Panel:
    """A part of the chart: numbers `shown` at the steps from `since` on."""

    label: str
    colour: str
    shown: np.ndarray
    since: int

    def at(self, step: int) -> float | None:
        """The number of a step; None where it has none."""
        place = step - self.since
        return float(self.shown[place]) if 0 <= place < len(self.shown) else None


class _Video:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._returns = np.concatenate([[0.0], np.cumsum(recording.rewards)])
        self._panels = _panels(recording)
        self._chart, self._boxes, self._axes = _draw_chart(recording, self._panels)
        self._pale = (self._chart + _PALE * (255.0 - self._chart)).round().astype(np.uint8)
        self._fonts = {
            size: ImageFont.truetype(
                str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), size
            )
            for size in (12, 13, 15)
        }

    def frame(self, step: int) -> UInt8[np.ndarray, "height width 3"]:
        """The video at one step."""
        chart = self._chart.copy()
        after = self._place(0, step, 0.0)[0] + 1
        for top, bottom, right in self._boxes:
            chart[top:bottom, after:right] = self._pale[top:bottom, after:right]
        top = PICTURE + 2 * MARGIN
        canvas = np.full((top + len(chart), WIDTH, 3), 255, np.uint8)
        picture = _fit(self._recording.frames[step], PICTURE)
        y = MARGIN + (PICTURE - picture.shape[0]) // 2
        x = MARGIN + (PICTURE - picture.shape[1]) // 2
        canvas[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
        canvas[top:] = chart
        image = Image.fromarray(canvas)
        draw = ImageDraw.Draw(image)
        self._write_numbers(draw, step)
        self._draw_cursor(draw, step, top)
        return np.asarray(image)

    def _place(self, panel: int, step: int, number: float) -> tuple[int, int]:
        """Column and row of a number in the chart."""
        x, y = self._axes[panel].transData.transform((step, number))
        return round(x), len(self._chart) - 1 - round(y)

    def _draw_cursor(self, draw: ImageDraw.ImageDraw, step: int, top: int) -> None:
        for number, (panel, (above, below, _)) in enumerate(
            zip(self._panels, self._boxes, strict=True)
        ):
            x, _ = self._place(number, step, 0.0)
            draw.line([(x, top + above), (x, top + below - 1)], fill=_INK, width=1)
            value = panel.at(step)
            if value is not None and np.isfinite(value):
                y = top + np.clip(self._place(number, step, value)[1], above, below - 1)
                draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=panel.colour, outline="white")

    def _write_numbers(self, draw: ImageDraw.ImageDraw, step: int) -> None:
        recording = self._recording
        left, y = PICTURE + 2 * MARGIN, MARGIN
        for line in _wrapped(recording.title, WIDTH - left - 8, self._fonts[13]):
            draw.text((left, y), line, _INK, font=self._fonts[13])
            y += 18
        rows: list[tuple[str, str, str]] = [("step", f"{step} of {len(recording)}", _INK)]
        rows.append(("action", _action(recording, step), _INK))
        reward = recording.rewards[step - 1] if step else 0.0
        rows.append(("reward", f"{reward:+.3g}" if reward else "0", _INK))
        rows.append(("return", f"{self._returns[step]:.4g}", _INK))
        rows += [(panel.label, rounded(panel.at(step), 3), panel.colour) for panel in self._panels]
        y += 12
        for name, number, colour in rows:
            draw.text((left, y), name, _QUIET if colour == _INK else colour, font=self._fonts[15])
            draw.text((left + 88, y), number, colour, font=self._fonts[15])
            if name == "reward" and reward:
                draw.ellipse([left + 150, y + 4, left + 161, y + 15], fill=REWARD)
            y += 24
        if step == len(recording):
            end = "ends" if recording.terminated else "is cut off"
            draw.text((left, y + 4), f"the episode {end} here", _QUIET, font=self._fonts[12])


def _panels(recording: Recording) -> list[_Panel]:
    if recording.values is None or recording.td_errors is None:
        return [_Panel("reward", REWARD, recording.rewards, since=1)]
    of = "(s, a)" if recording.of_actions else "(s)"
    name = "q" if recording.of_actions else "v"
    panels = [_Panel(f"{name}{of}", VALUE, recording.values, since=0)]
    if recording.auxiliary is not None:
        panels.append(_Panel(f"h{of}", AUXILIARY, recording.auxiliary, since=0))
    # An error is known where the step led to: it is seen together with the reward.
    return [*panels, _Panel("δ", ERROR, recording.td_errors, since=1)]


_MEANING = {
    "q(s, a)": "value of the action taken, q(s, a)",
    "v(s)": "value of the state, v(s)",
    "h(s, a)": "h(s, a): the TD(λ) error expected here",
    "h(s)": "h(s): the TD(λ) error expected here",
    "δ": "TD error δ = r + γ v′ - v, when the reward comes",
    "reward": "reward, as the environment gives it",
}


def _draw_chart(
    recording: Recording, panels: list[_Panel]
) -> tuple[UInt8[np.ndarray, "height width 3"], list[tuple[int, int, int]], list[Any]]:
    """The chart; top, bottom and right of each panel in it; and their axes."""
    height = PANEL * len(panels) + 34
    figure = Figure(figsize=(WIDTH / 100, height / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    rewarded = 1 + np.flatnonzero(recording.rewards)
    axes = []
    for place, panel in enumerate(panels):
        bottom = height - (place + 1) * PANEL + 4
        axis = figure.add_axes((52 / WIDTH, bottom / height, 1 - 64 / WIDTH, (PANEL - 26) / height))
        finite = np.where(np.isfinite(panel.shown), panel.shown, np.nan)
        at = panel.since + np.arange(len(finite))
        axis.axhline(0.0, color="#BBBBBB", linewidth=0.8)
        if panel.since:
            axis.vlines(at, 0.0, finite, color=panel.colour, linewidth=1.6)
        else:
            axis.plot(at, finite, color=panel.colour, linewidth=1.6, marker=".", markersize=2)
        # Rewards in every step say nothing.
        if len(rewarded) <= len(recording) / 2:
            axis.plot(
                rewarded, np.full(len(rewarded), 0.04), "o", color=REWARD, markersize=3.5,
                transform=axis.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip
        axis.set_xlim(-0.01 * len(recording), 1.01 * len(recording))
        axis.set_title(
            _MEANING[panel.label], loc="left", fontsize=8, color=panel.colour, pad=3, weight="bold"
        )
        axis.tick_params(labelsize=7, length=2, labelbottom=panel is panels[-1])
        axis.locator_params(axis="y", nbins=4)
        # A common factor, as matplotlib would write it, has no place but the title's.
        axis.yaxis.set_major_formatter(lambda number, _: f"{number:.3g}")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axes.append(axis)
    axes[-1].set_xlabel(
        "step;  orange: a reward.  All in units of the reward as the agent scales it", fontsize=7.5
    )
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    boxes = []
    for axis in axes:
        box = axis.get_window_extent()
        boxes.append((height - round(box.y1), height - round(box.y0), round(box.x1) + 4))
    return pixels, boxes, axes


def _fit(picture: np.ndarray, side: int) -> np.ndarray:
    """A picture as large as fits into a square; small ones in whole multiples of their pixels."""
    height, width = picture.shape[:2]
    times = side // max(height, width)
    if times >= 1:
        return picture.repeat(times, axis=0).repeat(times, axis=1)
    by = side / max(height, width)
    size = (max(1, round(width * by)), max(1, round(height * by)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def _action(recording: Recording, step: int) -> str:
    if step == len(recording):
        return "–"
    action = recording.actions[step]
    if action.ndim:
        shown = " ".join(f"{number:.1f}" for number in action.ravel()[:3])
        return shown if action.size <= 3 else f"{shown} …"
    return recording.action_names[int(action)] if recording.action_names else str(int(action))


def _wrapped(text: str, width: int, font: ImageFont.FreeTypeFont) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
