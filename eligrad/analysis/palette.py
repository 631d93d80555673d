"""One colour, one dash and one title for each agent, in all figures.

The colours are those of Okabe and Ito, which stay apart for the colour-blind; yellow is left out,
for it fades on white. An agent's colour tells the rule it learns by, so that a streaming agent and
its kin among the PPO agents, which never share a figure, share a colour.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence

from eligrad.agents.presets import TITLES

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
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
    "gradient-ppo-tdrc": BLUE,
    "gradient-ppo-tdc": GREEN,
    "gradient-ppo-gtd2": PURPLE,
    "ppo": VERMILLION,
    "random": GREY,
}
_TITLES = {
    "gradient-ppo": "Gradient PPO",
    "gradient-ppo-tdrc": "Gradient PPO, TDRC(λ)",
    "gradient-ppo-tdc": "Gradient PPO, TDC(λ)",
    "gradient-ppo-gtd2": "Gradient PPO, GTD2(λ)",
    "ppo": "PPO",
    "random": "random actions",
} | TITLES


@dataclasses.dataclass(frozen=True)
class Style:
    """How an agent is drawn and called."""

    colour: str
    dash: str
    title: str


def style(agent: str) -> Style:
    """The style of an agent; of a name that is not known, always the same one too.

    Known agents are drawn in full lines, unknown ones never.
    """
    title = _TITLES.get(agent, agent)
    if agent in _COLOURS:
        return Style(_COLOURS[agent], DASHES[0], title)
    # Not hash(), which is another one in each process.
    which = zlib.crc32(agent.encode())
    others = DASHES[1:]
    return Style(COLOURS[which % len(COLOURS)], others[which // len(COLOURS) % len(others)], title)


def order(agent: str) -> tuple[int, str]:
    """To sort agents by, the same in all figures: known ones first."""
    known = list(_COLOURS)
    return (known.index(agent) if agent in known else len(known), agent)


def styles(agents: Sequence[str]) -> list[Style]:
    """A style for each line of a figure: lines of one agent share its colour and differ in dash.

    Where there is no other agent, colours tell its lines apart as well.
    """
    drawn = []
    for place, agent in enumerate(agents):
        own = style(agent)
        dash = DASHES[(DASHES.index(own.dash) + agents[:place].count(agent)) % len(DASHES)]
        colours = [own.colour]
        if len(set(agents)) == 1:
            colours += [colour for colour in COLOURS if colour != own.colour]
        colour = colours[place % len(colours)]
        drawn.append(dataclasses.replace(own, colour=colour, dash=dash))
    return drawn
