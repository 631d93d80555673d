"""Memory of streaming QRC(λ) agents on Breakout: resident set of the process after training.

    python -m benchmarks.streaming_memory

Each count runs in a process of its own. The published code's single agent needs 613 MB.
"""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import resource, sys
import jax, numpy as np
from eligrad.agents import PRESETS, QLambda, default_network
from eligrad.envs.minatar import Breakout
from eligrad.train.stream import Runs
count = int(sys.argv[1])
env = Breakout()
agent = QLambda(PRESETS["qrc"], default_network(env.observation_space.shape, env.action_space.n))
runs = Runs(agent, env, env.default_params(), np.arange(count), np.arange(count))
for _ in range(3):
    jax.block_until_ready(runs.advance(500))
now = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def main() -> None:
    print(f"{'agents':>6}{'resident MB':>13}{'peak MB':>9}")
    for count in (1, 2, 4, 8, 16):
        answer = subprocess.run(
            [sys.executable, "-c", CHILD, str(count)], capture_output=True, text=True, check=True
        )
        now, peak = (int(number) / 2**20 for number in answer.stdout.split())
        print(f"{count:>6}{now:>13.0f}{peak:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
