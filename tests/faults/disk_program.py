"""A run on a small disk, which fills up or becomes read-only; then the disk is repaired.

    unshare --map-root-user --mount python -m tests.faults.disk_program FAULT KILOBYTES FOLDER ...

Mounts are seen by this process and its children alone: what is left of the run is copied out to
FOLDER at each stage, and the messages are printed as JSON.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = [sys.executable, "-m", "tests.faults.program"]


def mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def main() -> None:
    fault, kilobytes, out, *arguments = sys.argv[1:]
    disk = Path(tempfile.mkdtemp())
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk))
    run = disk / "run"
    begin = [*PROGRAM, *(word.replace("RUN", str(run)) for word in arguments)]
    stages = []
    if fault == "read-only from the beginning":
        mount("-o", "remount,ro", str(disk))
    process = subprocess.Popen(begin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if fault == "read-only later":
        turn_read_only(run, disk, process)
    stages.append(ended(process))
    if run.exists():
        shutil.copytree(run, Path(out) / "broken")
    mount("-o", "remount,rw,size=200m", str(disk))
    go_on = [*PROGRAM, "train", "--resume", str(run), "--no-progress"]
    command = go_on if (run / "config.json").exists() else begin
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stages.append(ended(process))
    shutil.copytree(run, Path(out) / "mended")
    subprocess.run(["umount", str(disk)], check=True)
    print(json.dumps(stages))


def turn_read_only(run: Path, disk: Path, process: subprocess.Popen[str]) -> None:
    """After the first checkpoint; refused for as long as a file is being written."""
    while not list(run.glob("checkpoint-*.npz")) and process.poll() is None:
        time.sleep(0.005)
    for _ in range(10_000):
        with contextlib.suppress(subprocess.CalledProcessError):
            return mount("-o", "remount,ro", str(disk))
    raise RuntimeError("the disk cannot be made read-only")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate()
    return process.returncode, errors


if __name__ == "__main__":
    main()
