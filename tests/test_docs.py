"""What the documentation shows runs, what it links to is there, and its site builds strictly."""

from __future__ import annotations

import html
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tyro
from fontTools.ttLib import TTFont

from eligrad.agents import registry
from eligrad.analysis import frames
from eligrad.cli import compare as cli_compare
from eligrad.cli import completion as cli_completion
from eligrad.cli import demo as cli_demo
from eligrad.cli import evaluate as cli_evaluate
from eligrad.cli import play as cli_play
from eligrad.cli import report as cli_report
from eligrad.cli import reproduce as cli_reproduce
from eligrad.cli import runs as cli_runs
from eligrad.cli import sweep as cli_sweep
from eligrad.cli import train as cli_train
from eligrad.cli import two_stage as cli_two_stage
from eligrad.cli import watch as cli_watch
from eligrad.training import train
from tests.engines import tiny, tiny_ppo
from tests.markdown import PYTHON, QUICK, ROOT, blocks, local_links, run_blocks

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = {str(page.relative_to(DOCS)): page.read_text(encoding="utf-8") for page in PAGES}

BEFORE = {
    # The runs that the page's sweep would have trained.
    "experiments.md": "from eligrad.training import train\n"
    "train('qrc', 'Probe/Reward-v0', steps=50, out='runs/sizes/one')\n",
}
"""What must have happened before a page's code."""
ALONE = ("own-agent.md",)
"""Pages whose blocks are programs of their own."""


OPTIONS: dict[str, Any] = {
    "compare": cli_compare.Compare,
    "completion": cli_completion.Completion,
    "demo": cli_demo.Demo,
    "evaluate": cli_evaluate.Evaluate,
    "play": cli_play.Play,
    "report": cli_report.Report,
    "watch": cli_watch.Watch,
    "reproduce": cli_reproduce.Reproduce,
    "sweep": cli_sweep.Sweep,
    "two-stage": cli_two_stage.TwoStage,
}
"""What each command of `eligrad` reads its arguments into."""


def programs() -> list[tuple[str, list[tuple[str, str]]]]:
    """Code and shown output of the blocks: one program for each page, or for each of its blocks."""
    found = []
    for name, text in TEXTS.items():
        code = [(block, shown) for block, _, shown in PYTHON.findall(text)]
        found += [(name, [each]) for each in code] if name in ALONE else [(name, code)]
    return [(name, code) for name, code in found if code]


DAILY = ("mathematics.md", "experiments.md")
"""Pages whose code is run daily; that of the others runs at night."""
EXACT = ("mathematics.md", "why.md", "streaming.md", "custom-environment.md")
"""Pages whose numbers are the same everywhere, to one per cent; of others only the words are."""
NUMBER = re.compile(r"[-−]?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")


def scheduled(page: str, code: list[tuple[str, str]]):
    """A program, daily or nightly."""
    suits = page.rpartition("/")[2] in DAILY
    return pytest.param(page, code, id=page, marks=() if suits else pytest.mark.nightly)


@pytest.mark.parametrize(("page", "code"), [scheduled(*each) for each in programs()])
def test_code_runs_and_prints_what_the_page_shows(page, code, tmp_path):
    codes = [block for block, _ in code]
    for package in ("flax", "haiku"):
        if f"import {package}" in codes[0]:
            pytest.importorskip(package)
    printed = run_blocks([BEFORE.get(page, "") + codes[0], *codes[1:]], tmp_path, **QUICK)
    for (block, shown), output in zip(code, printed, strict=True):
        if shown:
            assert words(output) == words(shown)
        if shown and page in EXACT:
            ours, theirs = ([float(n) for n in NUMBER.findall(each)] for each in (output, shown))
            assert ours == pytest.approx(theirs, rel=1e-2, abs=1e-6)
        if page in ALONE and "def error(" in block:
            before, after = map(float, output.split())
            assert after < before / 2


def words(output: str) -> list[str]:
    """The output without its numbers and spaces."""
    return NUMBER.sub(" # ", output).replace("# ,", "#,").split()


def test_worked_examples_are_short():
    for code in blocks(TEXTS["own-agent.md"], "python"):
        assert len([line for line in code.splitlines() if line.strip()]) <= 42


def commands() -> list[tuple[str, str]]:
    """All lines of shell code, with the page they are on."""
    texts = TEXTS | {"README.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    return [
        (name, line)
        for name, text in texts.items()
        for block in blocks(text, "bash")
        for line in block.splitlines()
        if line.strip() and not line.startswith("#")
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_are_known(page, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where there is nothing to list, show or remove
    program, *arguments = shlex.split(line, comments=True)
    if program == "eligrad":
        parse(arguments[0], arguments[1:])
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets
    elif program == "python":
        assert arguments[0] == "-m"
        assert (ROOT / arguments[1].replace(".", "/")).with_suffix(".py").is_file()
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        named = [e for each in re.findall(r"\[(.*?)\]", line) for e in each.split(",")]
        assert set(named) <= set(extras)
    else:
        assert program in (".", "export", "srun")


def parse(command: str, arguments: list[str]) -> None:
    """Reads a command line of `eligrad` without doing what it says."""
    if command == "train":
        if "--resume" in arguments:  # of a run that is not here
            place = arguments.index("--resume")
            arguments = ["qrc", "Any-v0", *arguments[:place], *arguments[place + 2 :]]
        cli_train.parse(arguments)
    elif command == "runs":
        assert cli_runs.main(arguments) in (0, 2)
    else:
        options = OPTIONS[command]
        # As its module has it now: another test loads these modules again.
        tyro.cli(getattr(sys.modules[options.__module__], options.__name__), args=arguments)


@pytest.mark.parametrize("arguments", ["--stepz 3", "--rule", ""])
def test_a_wrong_command_is_noticed(arguments):
    with pytest.raises((SystemExit, ValueError)):
        parse("train", ["qrc", *shlex.split(arguments)])


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for link in local_links(TEXTS[page]):
        target, _, anchor = link.partition("#")
        path = (DOCS / page).parent / target if target else DOCS / page
        assert path.exists(), link
        if anchor.startswith("eligrad."):
            module, _, name = anchor.rpartition(".")
            assert hasattr(importlib.import_module(module), name), anchor


def code_names(page: str) -> set[str]:
    """All that a page shows as code in the first column of a table."""
    rows = re.findall(r"^\| (`.*?) \|", TEXTS[page], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_metric_and_column_is_documented(quickest_compilation):
    drift = tiny_ppo.Drift()
    results = [
        train(tiny.agent(), tiny.ENV, steps=60, seeds=[5, 9], chunk=20),
        train(tiny_ppo.agent("gradient-ppo", drift), drift, steps=64),
    ]
    names = {*frames.COLUMNS, "exploration_fraction"} - {"stage", "label"}
    for result in results:
        names |= {*result.episodes.column_names, *result.chunks.column_names, *result.summary}
        assert set(result.summary["seeds"][0]) <= set(re.findall(r"`(\w+)`", TEXTS["metrics.md"]))
    others = {"lam", "step_size", "env_params.NAME"}  # examples of settings
    assert code_names("metrics.md") == names | others


def test_the_evidence_for_choosing_an_agent_is_in_the_results():
    numbers = re.compile(r"-?\d[\d,.]* ± \d+(?:\.\d+)?")
    pages = (ROOT / "results").rglob("README.md")
    results = [n for page in pages for n in numbers.findall(page.read_text(encoding="utf-8"))]
    shown = numbers.findall(TEXTS["choosing.md"].replace("\u00a0", " "))
    assert len(shown) > 20
    assert set(shown) <= set(results)


def test_names_of_stable_baselines3_are_documented():
    # From papers and earlier versions.
    papers = {"lr", "alpha", "lambda", "lambda_", "sink", "sinks"}
    assert set(registry._NAMES_ELSEWHERE) - papers <= code_names("from-sb3.md")
    for name, here in registry._NAMES_ELSEWHERE.items():
        row = re.search(rf"^\|.*`{name}`.*\|(.*)\|$", TEXTS["from-sb3.md"], re.MULTILINE)
        assert name in papers or (row and set(re.findall(r"`(\w+)`", row[1])) >= set(here)), name


def load_hooks() -> ModuleType:
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_with_public_names_is_in_the_reference():
    packages = {"eligrad", "eligrad.normalize"} | {
        f"eligrad.{init.parent.name}"
        for init in (ROOT / "eligrad").glob("*/__init__.py")
        if re.search(r"__all__|lazy\(", init.read_text(encoding="utf-8"))
    }
    assert packages == set(load_hooks().PACKAGES)


def functions(name: str, symbol: Any) -> Iterator[tuple[str, Any, str]]:
    """A function, or the methods of a class that it does not inherit, with their docstrings."""
    if inspect.isfunction(symbol):
        yield name, symbol, symbol.__doc__ or ""
    for inner, method in vars(symbol).items() if inspect.isclass(symbol) else ():
        method = inspect.unwrap(getattr(method, "__func__", method))
        if not inspect.isfunction(method) or method.__code__.co_filename.startswith("<"):
            continue  # not a method, or one that dataclasses wrote
        if inner == "__init__":
            yield name, method, f"{symbol.__doc__}{method.__doc__}"
        elif not inner.startswith("_") and not any(hasattr(b, inner) for b in symbol.__mro__[1:]):
            yield f"{name}.{inner}", method, method.__doc__ or ""


def test_public_functions_with_more_than_three_parameters_have_an_args_section():
    hooks = load_hooks()
    public = [name for package in hooks.PACKAGES for name in hooks.public_symbols(package)]
    lacking = set()
    for path in {*public, *hooks.ELSEWHERE}:
        for name, function, docstring in functions(path, pkgutil.resolve_name(path)):
            parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
            if len(parameters) > 3 and "Args:" not in docstring:
                lacking.add(name)
    assert lacking <= {
        "eligrad.training.recording.record",
        "eligrad.training.recording.record_episode",
    }, "only these may still lack one"


def test_a_symbol_without_docstring_is_found(tmp_path):
    package = tmp_path / "sample"
    package.mkdir()
    (package / "__init__.py").write_text(
        "__all__ = ['Told', 'untold']\n"
        "class Told:\n    '''Told.'''\n    def method(self): ...\n    def _hidden(self): ...\n"
        "def untold(): ...\n"
        "def private(): ...\n"
    )
    hooks = load_hooks()
    symbols = hooks.public_symbols("sample", where=tmp_path)
    assert hooks.undocumented(symbols) == ["sample.Told.method", "sample.untold"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built strictly."""
    load_hooks()
    folder = tmp_path_factory.mktemp("docs") / "site"
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_the_site_has_every_page_and_needs_no_network(site):
    for page in TEXTS:
        folder = site / page.removesuffix(".md").removesuffix("index")
        assert (folder / "index.html").is_file()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img)[^>]* src=.?([^\s>]+)", text)
        loaded += re.findall(r"<link[^>]* rel=.?stylesheet[^>]* href=.?([^\s>]+)", text)
        assert not [address for address in loaded if "//" in address], page
        assert not re.search(r"::</p>|<p>::", text), page


def test_the_site_links_to_the_repository_if_its_address_is_known(tmp_path, monkeypatch, site):
    """The address is in pyproject.toml and nowhere else; without it, nothing is shown of it."""
    home = (site / "index.html").read_text(encoding="utf-8")
    assert "md-source" not in home
    assert "The source code:" not in home
    hooks, address = load_hooks(), "https://code.example/someone/eligrad"
    project = (ROOT / "pyproject.toml").read_text()
    urls = f'[project.urls]\nRepository = "{address}/"\n'
    (tmp_path / "pyproject.toml").write_text(project.replace("[project.urls]\n", urls))
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "atari.py").touch()
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    monkeypatch.setattr(hooks, "PACKAGES", ())
    config = hooks.on_config({})
    assert config == {"repo_url": address, "repo_name": "code.example/someone/eligrad"}

    def shown(page: str) -> str:
        stub = SimpleNamespace(file=SimpleNamespace(src_uri=page), meta={})
        files = SimpleNamespace(get_file_from_path=lambda path: None)
        return hooks.on_page_markdown(TEXTS[page], stub, config, files)

    assert f"\nThe source code: <{address}>.\n" in shown("index.md")
    assert f"[`examples/atari.py`]({address}/blob/HEAD/examples/atari.py)" in shown("examples.md")


def test_formulas_are_mathml_in_characters_of_the_font(site):
    font = set(TTFont(DOCS / "fonts" / "math.woff").getBestCmap())
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    for page, text in pages.items():
        assert "arithmatex" not in text, page
        for formula in re.findall(r"<math.*?</math>", text, re.DOTALL):
            shown = html.unescape(re.sub(r"<[^>]*>", "", formula))
            assert "\\" not in shown, formula
            assert {ord(character) for character in shown} <= font, formula
    for page, fewest in (("mathematics", 50), ("api/rules", 5)):
        assert pages[site / page / "index.html"].count("<math") >= fewest


def test_the_notebook_is_a_page_with_its_outputs(site):
    text = (site / "demo" / "index.html").read_text(encoding="utf-8")
    notebook = (DOCS / "demo.ipynb").read_text(encoding="utf-8")
    (episodes,) = re.findall(r'"([\d,]+ episodes)', notebook)
    assert episodes in text
    assert (site / "images" / "demo-0.png").read_bytes().startswith(b"\x89PNG")
    assert "images/demo-0.png" in text
    for page in ("index.html", "quickstart/index.html"):
        assert 'demo.ipynb"' not in (site / page).read_text(encoding="utf-8")


def test_the_reference_begins_with_the_symbols_that_a_page_names_first(site):
    text = (site / "api" / "rules" / "index.html").read_text(encoding="utf-8")
    symbols = re.findall(r'<h2 id="eligrad\.rules\.(\w+)"', text)
    assert symbols[:5] == ["TDRC", "TDC", "GTD2", "TD", "Rule"]
    with pytest.raises(Exception, match="rules has no TDRX"):
        load_hooks()._ordered("::: eligrad.rules\n", ["TDRX"])
