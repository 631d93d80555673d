"""The five MinAtar games of Young and Tian (2019), written in JAX, equal to the original."""

from eligrad.envs.minatar.asterix import Asterix
from eligrad.envs.minatar.base import Game, MinAtarState, Params
from eligrad.envs.minatar.breakout import Breakout
from eligrad.envs.minatar.freeway import Freeway
from eligrad.envs.minatar.seaquest import Seaquest
from eligrad.envs.minatar.space_invaders import SpaceInvaders

GAMES = (Asterix, Breakout, Freeway, Seaquest, SpaceInvaders)
"""All of them, in alphabetical order."""

__all__ = [
    "GAMES",
    "Asterix",
    "Breakout",
    "Freeway",
    "Game",
    "MinAtarState",
    "Params",
    "Seaquest",
    "SpaceInvaders",
]
