"""One colour and one dash for each agent, in all figures and reports.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish; yellow is left
out, since it is hard to see on white. A colour stands for a learning rule: an agent of action
values and one with a policy, which never share a figure, may share a colour.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK)
DASHES = ("-", "--", ":", "-.")

_COLOURS = {
    "qrc": BLUE,
    "qc": GREEN,
    "gq2": PURPLE,
    "q-lambda": VERMILLION,
    "stream-q": ORANGE,
    "sarsa-lambda": SKY,
    "expected-sarsa-lambda": BLACK,
    "gradient-ppo": BLUE,
    "ppo": VERMILLION,
    "stream-ac": ORANGE,
    "gradient-ac": SKY,
}


class Style(NamedTuple):
    """How an agent is drawn."""

    colour: str
    dash: str


def style(agent: str) -> Style:
    """The style of an agent, the same in every process.

    Agents of this library are drawn in full lines, others never.
    """
    if agent in _COLOURS:
        return Style(_COLOURS[agent], DASHES[0])
    # Not hash(), which differs from process to process.
    which = zlib.crc32(agent.encode())
    others = DASHES[1:]
    return Style(COLOURS[which % len(COLOURS)], others[which // len(COLOURS) % len(others)])


def order(agent: str) -> tuple[int, str]:
    """The sort key of an agent, the same in all figures: agents of this library come first."""
    known = list(_COLOURS)
    return (known.index(agent) if agent in known else len(known), agent)


def styles(agents: Sequence[str]) -> list[Style]:
    """A style for each line of a figure: lines of one agent share its colour and differ in dash.

    Without other agents, its lines differ in colour too.
    """
    drawn = []
    for place, agent in enumerate(agents):
        own = style(agent)
        colours = [own.colour]
        if len(set(agents)) == 1:
            colours += [colour for colour in COLOURS if colour != own.colour]
        dash = DASHES[(DASHES.index(own.dash) + agents[:place].count(agent)) % len(DASHES)]
        drawn.append(Style(colours[place % len(colours)], dash))
    return drawn
