"""Colours that stay apart for everybody, and never change."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eligrad.agents import PRESETS
from eligrad.analysis import palette

WITH_A_POLICY = ["ppo", "gradient-ppo", "stream-ac", "gradient-ac"]
FAMILIES = {
    "action values": [name for name in PRESETS if name not in WITH_A_POLICY],
    "policies": WITH_A_POLICY,
}
APART = 15.0
# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
VISION = {
    "full": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
}  # fmt: skip


def seen(colour: str, vision: np.ndarray) -> np.ndarray:
    """Where an eye puts a colour, in CIE L*a*b*."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([
        [0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505],
    ])  # fmt: skip
    white = to_xyz @ np.ones(3)
    x, y, z = np.cbrt(np.clip(to_xyz @ (vision @ linear) / white, 0, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, VISION[vision]) - seen(other, VISION[vision])))


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("family", FAMILIES)
def test_agents_of_a_figure_look_apart(family, vision):
    """Of `distance` a difference of about 2.3 is just noticeable."""
    colours = {palette.style(agent).colour for agent in FAMILIES[family]}
    assert len(colours) == len(FAMILIES[family])
    for one, other in itertools.combinations(colours, 2):
        assert distance(one, other, vision) > APART, (one, other)


def test_the_measure_tells_a_bad_pair():
    """Red and green as matplotlib has them."""
    assert distance("#D62728", "#2CA02C", "full") > 3 * APART
    assert distance("#D62728", "#2CA02C", "deuteranopia") < APART


@pytest.mark.parametrize("colour", palette.COLOURS)
def test_colours_show_on_white(colour):
    assert seen("#ffffff", np.eye(3))[0] - seen(colour, np.eye(3))[0] > 25


def test_every_preset_has_a_full_line():
    for agent in PRESETS:
        assert palette.style(agent).dash == "-"


def test_unknown_names_always_get_the_same():
    """In every process and every version: figures of different days are laid side by side."""
    own = palette.Style(palette.SKY, ":")
    assert palette.style("my own agent") == own
    drawn = {(s.colour, s.dash) for s in map(palette.style, map(str, range(200)))}
    assert len(drawn) == len(palette.COLOURS) * (len(palette.DASHES) - 1)


def test_lines_of_one_agent_differ_in_dash():
    first, other, second = palette.styles(["qrc", "qc", "qrc"])
    assert first == palette.style("qrc")
    assert other == palette.style("qc")
    assert second.colour == first.colour
    assert second.dash != first.dash


def test_lines_of_the_only_agent_differ_in_colour_too():
    drawn = palette.styles(["gradient-ppo"] * 3)
    assert drawn[0] == palette.style("gradient-ppo")
    assert len({each.colour for each in drawn}) == len({each.dash for each in drawn}) == 3
