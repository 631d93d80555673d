"""What the README shows must run as it stands."""

from __future__ import annotations

import re

import pytest

from tests.markdown import QUICK, ROOT, blocks, local_links, run

README = (ROOT / "README.md").read_text()
EXAMPLE, *OTHERS = blocks(README, "python")


def test_the_example_prints_what_it_says(tmp_path):
    assert len(EXAMPLE.strip().splitlines()) <= 20
    promised = [float(x) for x in re.findall(r"\d+\.\d+", EXAMPLE.splitlines()[-1].split("#")[1])]
    printed = [float(x) for x in re.findall(r"-?\d+\.\d+", run(EXAMPLE, tmp_path))]
    assert printed == pytest.approx(promised, abs=0.15)


@pytest.mark.parametrize("code", OTHERS)
def test_the_others_run(code, tmp_path):
    for_a_moment = "learn(" not in code
    run(code, tmp_path, **QUICK if for_a_moment else {})


def test_make_knows_the_commands():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"make ([a-z-]+)", README)
    assert {"demo", "test"} <= set(named) <= set(targets)


def test_links_and_pictures_exist():
    for target in local_links(README):
        assert (ROOT / target).exists(), target
