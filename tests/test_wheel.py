"""What is shipped: wheel and sdist are complete, hold nothing else, and work where they land."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.markdown import ROOT, local_links

PACKAGE = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "eligrad").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


def say(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """What a command prints; fails where it fails."""
    result = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=cwd,
        env=os.environ | variables,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with wheel and sdist, made without a network."""
    out = tmp_path_factory.mktemp("dist")
    say(sys.executable, "-m", "hatchling", "build", "-d", out)
    return out


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_package_is_more_than_its_code():
    """So that what the next tests compare with is what it should be."""
    assert {
        "eligrad/py.typed",
        "eligrad/sweeps/presets/fig6.toml",
        "eligrad/analysis/report/page.html",
        "eligrad/analysis/report/curves.js",
        "eligrad/envs/minatar/breakout.py",
    } <= PACKAGE


def test_the_wheel_is_the_package_and_nothing_else(built):
    shipped = names(only(built, "*.whl"))
    about = {name for name in shipped if re.match(r"eligrad-[^/]+\.dist-info/", name)}
    assert shipped - about == PACKAGE
    assert {name.split("/", 1)[1] for name in about} == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip


def test_the_sdist_is_enough_to_make_the_same_wheel(built, tmp_path):
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        shipped = {name.split("/", 1)[1] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert shipped - PACKAGE == {
        "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore",
        ".ci/readme.py",
    }  # fmt: skip
    assert shipped >= PACKAGE
    source = only(tmp_path, "eligrad-*")
    say(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    assert names(only(tmp_path, "*.whl")) == names(only(built, "*.whl"))


def description(wheel: Path) -> str:
    """What a package index shows."""
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return archive.read(about).decode()


def test_an_index_shows_no_link_that_leads_nowhere(built, tmp_path):
    """Without the repository's address neither links nor pictures, with it all of them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = local_links(readme)
    assert len(links) > 5
    shown = description(only(built, "*.whl"))
    assert local_links(shown) == []
    assert "*Left: on Baird's counterexample TD(λ) diverges" in shown
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    source = only(tmp_path, "eligrad-*")
    project = (source / "pyproject.toml").read_text()
    address = "https://code.example/someone/eligrad"
    urls = f'[project.urls]\nRepository = "{address}"\n'
    (source / "pyproject.toml").write_text(project.replace("[project.urls]\n", urls))
    (source / "PKG-INFO").unlink()  # as in a clone
    say(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source)
    shown = description(only(tmp_path, "*.whl"))
    assert local_links(shown) == []
    version = tomllib.loads(project)["project"]["version"]
    for link in links:
        kind = "raw" if link.endswith(".png") else "blob"
        assert f"]({address}/{kind}/v{version}/{link})" in shown


@pytest.fixture(scope="module")
def elsewhere(built, tmp_path_factory) -> Path:
    """The programs of an environment of its own with the wheel; the rest is borrowed from ours."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    # A path in a .pth is searched for packages; .pth files in it (an editable install) are not.
    site = say(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = only(built, "*.whl")
    say(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-q", wheel)
    return home / "bin"


@pytest.mark.nightly
def test_an_installed_wheel_works_in_an_empty_folder(elsewhere, tmp_path):
    where = say(elsewhere / "python", "-c", "import eligrad; print(eligrad.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(elsewhere.parent)
    eligrad = elsewhere / "eligrad"
    assert "eligrad COMMAND" in say(eligrad, "--help", cwd=tmp_path)
    say(eligrad, "demo", "--seeds", "2", cwd=tmp_path)
    assert (tmp_path / "demo.png").stat().st_size > 50_000
    say(eligrad, "train", "qrc", "Probe/Trace-v0", "--steps", "300", "--seeds", "1",
        "--out", "run", "--no-cache", cwd=tmp_path)  # fmt: skip
    say(eligrad, "report", "run", "-o", "report.html", cwd=tmp_path)
    assert "<script" in (tmp_path / "report.html").read_text(encoding="utf-8")
    say(eligrad, "reproduce", "fig6", "--help", cwd=tmp_path)
    spec = "from eligrad.sweeps.paper import figure_spec\nprint(figure_spec('fig{}', 'smoke'))"
    for figure in range(1, 7):
        assert "Spec(" in say(elsewhere / "python", "-c", spec.format(figure), cwd=tmp_path)


@pytest.mark.nightly
def test_an_installed_wheel_draws_the_golden_curves(elsewhere, tmp_path):
    printed = say(elsewhere / "python", ROOT / "tests" / "golden" / "curves.py", cwd=tmp_path)
    assert set(re.findall(r": (.*)", printed)) == {"the same"}
