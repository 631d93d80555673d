"""Writes frames of any environment as GIF or MP4."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

Frame = UInt8[np.ndarray, "height width 3"]
Frames = UInt8[np.ndarray, "time height width 3"]


def save_gif(
    path: str | Path, frames: Frames | Iterable[Frame | Image.Image], fps: float = 15.0
) -> None:
    """Writes an endless animation of RGB frames. GIF keeps time in hundredths of a second.

    Frames that come one by one may be images with a palette, which is kept.
    """
    first, others = _split(frames, fps)
    duration = max(10 * round(100 / fps), 10)
    images = map(_image, others)
    _image(first).save(path, "GIF", save_all=True, append_images=images, duration=duration, loop=0)


def save_mp4(path: str | Path, frames: Frames | Iterable[Frame], fps: float = 15.0) -> None:
    """Writes a video of RGB frames; needs the package imageio-ffmpeg."""
    ffmpeg = import_ffmpeg()
    first, others = _split(frames, fps)
    height, width = first.shape[:2]
    # H.264 halves the resolution of colour, so that both sides must be even.
    options = {"macro_block_size": 2, "output_params": ["-f", "mp4"]}  # whatever the name ends in
    video = ffmpeg.write_frames(str(path), (width, height), fps=fps, **options)
    video.send(None)
    for frame in itertools.chain([first], others):
        video.send(np.ascontiguousarray(frame))
    video.close()


def import_ffmpeg() -> ModuleType:
    """The package that writes videos; ImportError says how to get it."""
    try:
        return importlib.import_module("imageio_ffmpeg")
    except ModuleNotFoundError as error:
        raise ImportError(
            "save_mp4 needs the package 'imageio-ffmpeg', which is not installed: "
            "pip install imageio-ffmpeg, or write a GIF with save_gif",
            name="imageio_ffmpeg",
        ) from error


def _split(frames: Iterable[Any], fps: float) -> tuple[Any, Iterator[Any]]:
    """Returns the first frame and the others, after checks of the arguments."""
    if fps <= 0:
        raise ValueError(f"fps is {fps}; a positive number of frames per second is accepted")
    others = iter(frames)
    first = next(others, None)
    if first is None:
        raise ValueError("frames is empty; at least one frame is accepted")
    return first, others


def _image(frame: Any) -> Image.Image:
    return frame if isinstance(frame, Image.Image) else Image.fromarray(frame)
