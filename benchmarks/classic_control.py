"""Learning curves of the streaming agents on classic control and two probes, 20 seeds a program.

    python -m benchmarks.classic_control --out results/classic_control

CartPole-v1 has 100,000 steps, Acrobot-v1 150,000, MountainCar-v0 200,000 and a probe 20,000, unless
`--steps` is given. `learning.py` says what a variant is, what the files hold, and how to continue
after `--minutes`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import learning

STEPS = {
    "gymnax/CartPole-v1": 100_000,
    "gymnax/Acrobot-v1": 150_000,
    "gymnax/MountainCar-v0": 200_000,
    "Probe/Trace-v0": 20_000,
    "Probe/OffPolicy-v0": 20_000,
}
ENVS = {learning.title(env): env for env in STEPS}
SOLVED = {"CartPole-v1": 475.0, "Acrobot-v1": -130.0}
"""From this final return on, a run has solved the environment."""
AGENTS = [
    "qrc", "qrc-head", "qrc-output", "qrc-features-output", "qrc-obgd", "qrc-output-obgd",
    "qrc-features-output-obgd", "q-lambda", "stream-q",
]  # fmt: skip


def main() -> None:
    parser = learning.parser(__doc__)
    parser.add_argument("--envs", nargs="+", default=list(ENVS), choices=list(ENVS))
    parser.set_defaults(agents=AGENTS, seeds=20, out=Path("results/classic_control"))
    given = parser.parse_args()
    complete = learning.measure(
        [ENVS[env] for env in given.envs],
        given.agents,
        {env: given.steps or steps for env, steps in STEPS.items()},
        range(given.first_seed, given.first_seed + given.seeds),
        given.out,
        given.chunk,
        given.minutes,
    )
    sys.exit(0 if complete else learning.UNFINISHED)


if __name__ == "__main__":
    main()
