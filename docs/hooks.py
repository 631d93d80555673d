"""What `mkdocs build` does beyond Markdown.

- Some pages are outside docs/ (`results/README.md`, beside the results), and the notebook becomes a
  page. Links lead to files, so that they work in an editor too; here they become links of the site.
- With `[project.urls] Repository` in pyproject.toml, Home and the head of each page link to the
  repository, and links to files that the site lacks lead to them there.
- Formulas, written as $…$, become MathML, which browsers show without a script or a network.
- The reference shows the symbols that a page names as `first`, then the others. The build fails if
  a public symbol has no docstring, or is not in the reference.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
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
"""Where public symbols are: those in `__all__`, those imported at first use, or all without an
underscore."""
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

NOTEBOOK = "demo"
"""`demo.ipynb` is shown as the page `demo.md`."""

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside, and the pictures that they show."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
        for picture, target in _links((ROOT / name).read_text(encoding="utf-8")):
            if picture:
                source = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                files.append(File.generated(config, source, abs_src_path=str(ROOT / source)))
    for name, content in notebook_page((ROOT / "docs" / f"{NOTEBOOK}.ipynb").read_text()).items():
        files.append(File.generated(config, name, content=content))
    return files


def notebook_page(notebook: str) -> dict[str, str | bytes]:
    """Returns a notebook as a page and the pictures that it shows, by their file names."""
    page, files = [], dict[str, str | bytes]()
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        page.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/png")
            if picture:
                name = f"images/{NOTEBOOK}-{len(files)}.png"
                files[name] = base64.b64decode(picture)
                page.append(f"![Output of the code above]({name})")
            else:
                page.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    page.insert(1, f"[Download this notebook]({NOTEBOOK}.ipynb){{ download }}")
    return files | {f"{NOTEBOOK}.md": "\n\n".join(page)}


def _links(markdown: str) -> Iterator[tuple[bool, str]]:
    for mark, _, target, _ in _LINK.findall(markdown):
        if "://" not in target:
            yield bool(mark), target


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Turns links between files into links of the site, or of the repository, or into text."""
    here, repository = page.file.src_uri, config["repo_url"]
    if here == "index.md" and repository:
        markdown = markdown.replace("\n## ", f"\nThe source code: <{repository}>.\n\n## ", 1)
    if "first" in page.meta:
        markdown = _ordered(markdown, page.meta["first"])
    in_repository = here if here in OUTSIDE else f"docs/{here}"

    def on_site(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups(default="")
        if "://" in target:
            return match.group()
        folder = posixpath.dirname(in_repository)
        path = posixpath.normpath(posixpath.join(folder, target)).removeprefix("docs/")
        if path == f"{NOTEBOOK}.ipynb" and here != f"{NOTEBOOK}.md":
            path = f"{NOTEBOOK}.md"
        if files.get_file_from_path(path) is None:
            if (ROOT / path).exists():
                return f"[{text}]({repository}/blob/HEAD/{path})" if repository else text
            return match.group()  # leads nowhere: MkDocs says so
        relative = posixpath.relpath(path, posixpath.dirname(here) or ".")
        return f"{mark}[{text}]({relative}{anchor})"

    return _LINK.sub(on_site, markdown)


def _ordered(markdown: str, first: list[str]) -> str:
    """The page of a package with its symbols in order: those named, then the others."""
    package = re.findall(r"^::: (\S+)$", markdown, re.MULTILINE)[0]
    paths = (name.removeprefix(f"{package}.") for name in public_symbols(package))
    names = [path for path in paths if "." not in path]
    if unknown := set(first) - set(names):
        raise PluginError(f"{package} has no {', '.join(sorted(unknown))}")
    members = [*first, *(name for name in names if name not in first)]
    options = f"    options:\n      members: [{', '.join(members)}]"
    return markdown.replace(f"::: {package}\n", f"::: {package}\n{options}\n", 1)


def on_page_content(content: str, **_: Any) -> str:
    """Turns formulas into MathML."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    element, formula = match.groups()
    return convert(html.unescape(formula), display="block" if element == "div" else "inline")


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
    """The names that a package imports at first use; or those that a module defines."""
    lazy = [name for name, member in module.members.items() if not member.runtime]
    return lazy or [
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
    """Refuses to build while a public symbol has no docstring; links to the repository."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if repository := about["urls"].get("Repository", "").rstrip("/"):
        config["repo_url"], config["repo_name"] = repository, repository.split("://")[1]
    missing = [name for package in PACKAGES for name in undocumented(public_symbols(package))]
    if missing:
        raise PluginError(f"without a docstring: {', '.join(missing)}")
    return config


def on_post_build(config: Any) -> None:
    """Fails where the reference that was built leaves a public symbol out."""
    with (Path(config["site_dir"]) / "objects.inv").open("rb") as file:
        built = Inventory.parse_sphinx(file, domain_filter=("py",))
    wanted = [name for package in PACKAGES for name in public_symbols(package)]
    missing = sorted({*wanted, *ELSEWHERE} - set(built))
    if missing:
        raise PluginError(f"not in the reference: {', '.join(missing)}")
