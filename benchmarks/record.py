"""One place where benchmarks put their numbers: a printed table and a JSON file.

    from benchmarks.record import record
    record("breakout", "QRC(λ)", 158.0, "µs", ratio=2.0, to="C floor")

`benchmarks/measured.json` (or the file that ELIGRAD_MEASURED names) has a row for each name of each
benchmark, the last one measured, with the versions and the machine it was measured on.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import jax

from eligrad._base.files import read_json, write_json

MEASURED = Path(os.environ.get("ELIGRAD_MEASURED", Path(__file__).with_name("measured.json")))
PACKAGES = (
    "eligrad",
    "jax",
    "jaxlib",
    "numpy",
    "gymnasium",
    "mujoco",
    "stable-baselines3",
    "sbx-rl",
)


def record(
    benchmark: str,
    name: str,
    value: float,
    unit: str,
    *,
    ratio: float | None = None,
    to: str | None = None,
    file: Path = MEASURED,
) -> None:
    """Prints a number and writes it to the JSON file, in place of an earlier one of that name.

    Args:
        benchmark: what was measured.
        name: of the number, one of this benchmark's.
        value: the number.
        unit: of the number.
        ratio: this value over that of `to`, from the same run.
        to: what the ratio refers to.
        file: where it is written.
    """
    beside = "" if ratio is None else f"{ratio:>8.2f} × {to}"
    print(f"{benchmark:<16}{name:<44}{value:>14,.1f} {unit:<8}{beside}", flush=True)
    rows = read_json(file) if file.exists() else []
    row = {"benchmark": benchmark, "name": name, "value": value, "unit": unit}
    kept = [each for each in rows if (each["benchmark"], each["name"]) != (benchmark, name)]
    write_json(file, [*kept, row | {"ratio": ratio, "to": to} | machine()])


def machine() -> dict[str, Any]:
    """What the numbers depend on: versions, processor or accelerator, cores at hand."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "versions": versions | {"python": platform.python_version()},
        "device": jax.devices()[0].device_kind,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
