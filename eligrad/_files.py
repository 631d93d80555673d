"""The small files of a run, which know when they were altered; read without JAX."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from eligrad._base.files import regular_size
from eligrad._damaged import DamagedFileError

LARGEST = 2**26
"""Bytes of a JSON file: 64 MiB, the configuration of millions of runs."""
RUN_FORMAT = 2
"""Version of a run folder's layout. In folders of version 1, which do not say it, tables may be
without the column `run`."""

_SEAL = "sha256"


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content with its own checksum in it, for `read_json` to compare."""
    return content | {_SEAL: _digest(content)}


def read_json(path: Path) -> Any:
    """What a JSON file holds, without its seal; `DamagedFileError` where it is not as written.

    Files without a seal, from an earlier eligrad or by hand, are read as they are.
    """
    regular_size(path, LARGEST)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
    if isinstance(content, dict):
        seal = content.pop(_SEAL, None)
        if seal is not None and seal != _digest(content):
            raise DamagedFileError(
                f"{path} is damaged: its checksum differs (whoever changed it by hand removes the "
                f'line "{_SEAL}" as well)'
            )
    return content


def read_config(folder: Path) -> dict[str, Any]:
    """What a run folder's `config.json` says; refuses that of a later eligrad, or of no run."""
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict) or not isinstance(config.get("plan"), dict):
        raise DamagedFileError(f"{path} is damaged, or of no run: it has no plan")
    written = config.get("format", 1)
    if not (isinstance(written, int) and 1 <= written <= RUN_FORMAT):
        raise DamagedFileError(
            f"{folder} is a run of format {written}; this eligrad reads 1 to {RUN_FORMAT}: use the "
            "version that wrote it, or a later one"
        )
    return config


def inside(folder: Path, name: str) -> Path:
    """The file of that name in a folder; refuses names that lead out of it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise DamagedFileError(f"{folder} is damaged: it names {name}, which is outside of it")
    return folder / name


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
