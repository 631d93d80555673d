"""Checksums of run folders: whether their files are as they were written."""

from __future__ import annotations

from pathlib import Path

from eligrad._base.errors import DamagedFileError
from eligrad._base.files import checksum, damage, inside, read_json, sealed, write_json
from eligrad.runs.folder import RunFolder
from eligrad.runs.metrics import LARGEST_PART
from eligrad.runs.plan import read_config

_CHECKSUMS = "checksums.json"


def write_checksums(folder: Path) -> None:
    """Writes `checksums.json`, with the SHA-256 of every file in a run folder and its own."""
    written = folder / _CHECKSUMS
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != written)
    sums = {path.relative_to(folder).as_posix(): checksum(path) for path in files}
    write_json(written, sealed(sums))


def what_is_wrong(folder: Path, below: str = "") -> str | None:
    """Names the first file of a run folder that differs from what was written, or returns None.

    `below` restricts the check to a part of the folder, such as `"metrics/episodes/"`. In folders
    without `checksums.json`, such as those of `eligrad train`, or that were trained further since,
    metrics are compared with the checksums in the last checkpoint.
    """
    try:
        sums = _checksums(folder)
        for name, digest in sums.items():
            # Checkpoints have any size.
            largest = None if name.endswith(".npz") else LARGEST_PART
            path = inside(folder, name)
            if name.startswith(below) and (wrong := damage(path, digest, largest)) is not None:
                return wrong
    except ValueError as error:
        return str(error)
    except (KeyError, TypeError, AttributeError) as error:
        return f"{folder} is damaged: {error!r}"
    return None


def _checksums(folder: Path) -> dict[str, str]:
    try:
        sums = read_json(folder / _CHECKSUMS)
    except FileNotFoundError:
        return RunFolder(folder).last_header().get("metrics", {})
    if not isinstance(sums, dict):
        raise DamagedFileError(f"{folder / _CHECKSUMS} is damaged: it holds no checksums")
    config = folder / "config.json"
    if not config.is_file() or sums.get(config.name) in (None, checksum(config)):
        return sums
    # Training has continued since. It first writes the config, of the same runs.
    plan, header = read_config(folder)["plan"], RunFolder(folder).last_header()
    saved = header.get("config", {}).get("plan", plan)
    if any(plan.get(name) != saved[name] for name in ("agent", "settings", "env", "seeds")):
        raise DamagedFileError(f"{config} is damaged: it is another run's")
    return header.get("metrics", {})
