"""Learning curves of the streaming agents on MinAtar, many seeds in one program.

    python -m benchmarks.minatar_learning --agents qrc stream-q --steps 200000 --out results/minatar

`learning.py` says what a variant is, what the files hold, and how to go on after `--minutes`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import learning

GAMES = ("Breakout", "SpaceInvaders", "Asterix", "Freeway", "Seaquest")
LOST = {"Freeway": 1.0}
"""Below this final return a run is lost: it got next to nothing for its last tenth."""


def main() -> None:
    parser = learning.parser(__doc__)
    parser.add_argument("--games", nargs="+", default=GAMES, choices=GAMES)
    parser.set_defaults(steps=200_000, out=Path("results/minatar"))
    given = parser.parse_args()
    envs, steps = [f"MinAtar/{game}-v1" for game in given.games], int(given.steps)
    complete = learning.measure(
        envs,
        given.agents,
        dict.fromkeys(envs, steps),
        range(given.first_seed, given.first_seed + given.seeds),
        given.out,
        given.chunk,
        given.minutes,
    )
    sys.exit(0 if complete else learning.UNFINISHED)


if __name__ == "__main__":
    main()
