"""What `mkdocs build` does beyond Markdown: pages from outside docs/, a complete reference.

Some pages live where they are needed (`results/README.md`, beside the results). Links between them
and docs/ are those of files, so that they work in an editor too; here they become those of a site.
And no public symbol may lack a docstring or a place in the reference: the build fails.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocstrings import Inventory

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = (
    "CONTRIBUTING.md", "benchmarks/README.md", "results/README.md", "results/h/README.md",
)  # fmt: skip
"""Pages of the site that are no files of docs/."""
PACKAGES = (
    "eligrad", "eligrad.rules", "eligrad.problems", "eligrad.nets", "eligrad.optim",
    "eligrad.normalize", "eligrad.envs", "eligrad.agents", "eligrad.engines", "eligrad.training",
    "eligrad.sweeps", "eligrad.analysis",
)  # fmt: skip
"""Where public symbols are: those in `__all__`, or all without an underscore."""
ELSEWHERE = (
    "eligrad.envs.animation.save_gif",
    "eligrad.envs.animation.save_mp4",
    "eligrad.envs.adapters.gymnasium.GymnasiumEnvironment",
    "eligrad.envs.minatar.render.render",
    "eligrad.envs.adapters.to_gymnasium.GymnasiumFromJax",
    "eligrad.analysis.compare.compare",
    "eligrad.analysis.figures.learning_curves",
    "eligrad.analysis.statistics.iqm",
    "eligrad.training.callbacks.EvaluateEvery",
    "eligrad.training.callbacks.StopAtReturn",
    "eligrad.training.evaluation.evaluate",
    "eligrad.training.video.compose",
    "eligrad.training.video.save",
    "eligrad.training.recording.Recording",
    "eligrad.training.recording.record",
    "eligrad.training.recording.record_episode",
)
"""Symbols for users in modules that no package imports."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside, and the pictures that they show."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
        for picture, target in _links((ROOT / name).read_text(encoding="utf-8")):
            if picture:
                source = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                files.append(File.generated(config, source, abs_src_path=str(ROOT / source)))
    return files


def _links(markdown: str) -> Iterator[tuple[bool, str]]:
    for mark, _, target, _ in _LINK.findall(markdown):
        if "://" not in target:
            yield bool(mark), target


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Turns links between files into links of the site; what the site lacks becomes plain text."""
    del config
    here = page.file.src_uri
    in_repository = here if here in OUTSIDE else f"docs/{here}"

    def on_site(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups(default="")
        if "://" in target:
            return match.group()
        folder = posixpath.dirname(in_repository)
        path = posixpath.normpath(posixpath.join(folder, target)).removeprefix("docs/")
        if files.get_file_from_path(path) is None:
            if (ROOT / path).exists():
                return text
            return match.group()  # leads nowhere: MkDocs says so
        relative = posixpath.relpath(path, posixpath.dirname(here) or ".")
        return f"{mark}[{text}]({relative}{anchor})"

    return _LINK.sub(on_site, markdown)


def public_symbols(package: str, *, where: Path = ROOT) -> dict[str, griffe.Object | griffe.Alias]:
    """The public symbols of a package by their full names."""
    root, *inner = package.split(".")
    module = _loaded(root, where)[tuple(inner)] if inner else _loaded(root, where)
    exports = module.exports
    names = [str(each) for each in exports] if exports is not None else _own(module)
    symbols = {}
    for name in names:
        # A function that has the name of its module: Python means the function.
        path = [name, name] if module[name].is_module else [name]
        symbols[".".join([package, *path])] = module[path]
    return symbols


@functools.cache
def _loaded(root: str, where: Path) -> Any:
    return griffe.load(root, search_paths=[where], resolve_aliases=True)


def _own(module: Any) -> list[str]:
    return [
        name
        for name, member in module.members.items()
        if not name.startswith("_") and not member.is_alias and not member.is_module
    ]


def undocumented(symbols: dict[str, Any]) -> list[str]:
    """Those without a docstring; of a class, its public methods and properties too."""
    missing = []
    for name, symbol in symbols.items():
        if not symbol.has_docstring:
            missing.append(name)
        if symbol.is_class:
            inner = ((n, m) for n, m in symbol.members.items() if not n.startswith("_"))
            missing += [
                f"{name}.{inner_name}"
                for inner_name, member in inner
                if (member.is_function or "property" in member.labels) and not member.has_docstring
            ]
    return missing


def on_config(config: Any) -> Any:
    """Refuses to build while a public symbol has no docstring."""
    missing = [name for package in PACKAGES for name in undocumented(public_symbols(package))]
    if missing:
        raise PluginError(f"without a docstring: {', '.join(missing)}")
    return config


def on_post_build(config: Any) -> None:
    """Fails where the reference that was built leaves a public symbol out."""
    with (Path(config["site_dir"]) / "objects.inv").open("rb") as file:
        told = Inventory.parse_sphinx(file, domain_filter=("py",))
    wanted = [name for package in PACKAGES for name in public_symbols(package)]
    missing = sorted({*wanted, *ELSEWHERE} - set(told))
    if missing:
        raise PluginError(f"not in the reference: {', '.join(missing)}")
