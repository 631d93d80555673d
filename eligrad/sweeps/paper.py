"""The sweeps behind the paper's figures: `presets/fig1.toml` to `fig6.toml`, at three scales."""

from __future__ import annotations

import importlib.resources
import tomllib
from pathlib import Path
from typing import Any

from eligrad.sweeps.spec import Spec, parse


def figure_spec(figure: str, scale: str) -> Spec:
    """The sweep behind a figure; a scale replaces fields such as seeds, steps and envs."""
    content = _content(figure)
    chosen = content.pop("scale")[scale]
    content.pop("speed", None)
    return parse({**content, **chosen}, name=figure)


def is_about_speed(figure: str) -> bool:
    """Whether a figure shows steps per second, for which jobs are trained one after the other."""
    return _content(figure).get("speed", False)


def draw(figure: str, store: Path) -> Path:
    """Draws the figure of the finished runs in a store; returns the path of the picture."""
    from eligrad.analysis import figures
    from eligrad.analysis.load import load_episodes, load_runs

    runs = load_runs(store)
    if is_about_speed(figure):
        drawn = figures.speed_bars(runs)
    else:
        drawn = figures.learning_curves(runs, load_episodes(store))
    path = store / f"{figure}.png"
    figures.save(drawn, path)
    return path


def _content(figure: str) -> dict[str, Any]:
    file = importlib.resources.files("eligrad.sweeps") / "presets" / f"{figure}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
