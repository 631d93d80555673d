"""Time, machine, versions and commit of a training session."""

from __future__ import annotations

import datetime
import platform
import subprocess
from typing import Any

from eligrad._base.system import version_of

SIMULATORS = ("gymnasium", "mujoco", "ale-py", "minatar", "gymnax", "brax")
"""Results depend on their versions."""
PACKAGES = ("eligrad", "jax", "jaxlib", "equinox", "optax", "numpy", "pyarrow", *SIMULATORS)


def provenance() -> dict[str, Any]:
    """Returns time, machine, versions, and the commit of the current folder."""
    import jax

    device = jax.local_devices()[0]
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()}
        | {name: version for name in PACKAGES if (version := version_of(name)) is not None},
        "machine": platform.platform(),
        "device": f"{jax.local_device_count()} × {device.platform} ({device.device_kind})",
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    """The commit's hash, with "-dirty" after it where files differ from it; None without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
