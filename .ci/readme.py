"""The README as package indexes show it, without the repository beside it; hatchling calls it.

With `[project.urls] Repository` in pyproject.toml, links and pictures lead to the files of this
version there. Without, a link is its text, and a picture its description.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


class Readme(MetadataHookInterface):
    """Fills in the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the README's text."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        text = standing_alone(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def standing_alone(markdown: str, repository: str | None, tag: str) -> str:
    """The text with absolute links to files of the repository, as of a tag."""

    def absolute(match: re.Match[str]) -> str:
        mark, text, path = match.groups()
        if repository is None:
            return f"*{text}*" if mark else text
        return f"{mark}[{text}]({repository.rstrip('/')}/{'raw' if mark else 'blob'}/{tag}/{path})"

    return _LINK.sub(absolute, markdown)
