"""Learning curves of the streaming agents on classic control (gymnax), 20 seeds in one program.

    python -m benchmarks.classic_control --out results/classic_control

CartPole-v1 has 100,000 steps, Acrobot-v1 150,000 and MountainCar-v0 200,000, unless `--steps` is
given. `learning.py` says what a variant is, what the files hold, and how to continue after
`--minutes`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import learning

STEPS = {"CartPole-v1": 100_000, "Acrobot-v1": 150_000, "MountainCar-v0": 200_000}
AGENTS = [
    "qrc", "qrc-head", "qrc-output", "qrc-features-output", "qrc-obgd", "qrc-output-obgd",
    "qrc-features-output-obgd", "q-lambda", "stream-q",
]  # fmt: skip


def main() -> None:
    parser = learning.parser(__doc__)
    parser.add_argument("--envs", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.set_defaults(agents=AGENTS, seeds=20, out=Path("results/classic_control"))
    given = parser.parse_args()
    complete = learning.measure(
        [f"gymnax/{env}" for env in given.envs],
        given.agents,
        {f"gymnax/{env}": given.steps or steps for env, steps in STEPS.items()},
        range(given.first_seed, given.first_seed + given.seeds),
        given.out,
        given.chunk,
        given.minutes,
    )
    sys.exit(0 if complete else learning.UNFINISHED)


if __name__ == "__main__":
    main()
