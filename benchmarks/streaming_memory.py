"""Memory of streaming QRC(λ) agents on Breakout: resident set of the process after training.

    python -m benchmarks.streaming_memory

Each count is trained in a process of its own. The peak is that of the compiler, which needs more
for a program of several runs than for one, however many; what it has freed goes back to the system
when all programs are made. The published code's single agent needs 613 MB.
"""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import resource, sys
from eligrad.training import train
train("qrc", "MinAtar/Breakout-v1", steps=1500, seeds=int(sys.argv[1]), chunk=500, progress=False)
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
