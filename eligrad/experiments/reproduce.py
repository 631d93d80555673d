"""The paper's figures as sweeps: `presets/fig1.toml` to `fig6.toml`, each at three scales."""

from __future__ import annotations

import importlib.resources
import tomllib
from typing import Any

from eligrad.envs.names import UnknownName
from eligrad.experiments.spec import Spec, parse

FIGURES = tuple(f"fig{number}" for number in range(1, 7))
SCALES = ("smoke", "small", "paper")


def figure_spec(figure: str, scale: str = "smoke") -> Spec:
    """The sweep behind a figure; a scale replaces fields such as seeds, steps and envs."""
    content = _content(figure)
    if scale not in SCALES:
        raise UnknownName("scale", scale, SCALES)
    chosen = content.pop("scale")[scale]
    content.pop("speed", None)
    return parse({**content, **chosen}, name=figure)


def is_about_speed(figure: str) -> bool:
    """Whether a figure shows steps per second, for which programs run one after the other."""
    return _content(figure).get("speed", False)


def _content(figure: str) -> dict[str, Any]:
    if figure not in FIGURES:
        raise UnknownName("figure", figure, FIGURES)
    file = importlib.resources.files("eligrad.experiments") / "presets" / f"{figure}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
