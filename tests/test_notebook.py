"""The notebook runs as it stands, and what it shows is small and names no machine."""

from __future__ import annotations

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from tests.markdown import ROOT, run

PATH = ROOT / "docs" / "demo.ipynb"
CELLS = json.loads(PATH.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
LENGTH = "STEPS, SEEDS = 250_000, 2"


@pytest.mark.nightly
def test_its_code_runs(tmp_path):
    code = "\n".join("".join(cell["source"]) for cell in CODE)
    assert code.count(LENGTH) == 1
    quick = code.replace(LENGTH, "STEPS, SEEDS = 300, 2")
    printed = run(quick, tmp_path, MPLBACKEND="agg", JAX_DISABLE_MOST_OPTIMIZATIONS="1")
    assert re.search(r"^\d+ episodes$", printed, re.MULTILINE)
    assert {"run", "seed", "step", "return", "length"} <= set(printed.split())


def test_it_was_run_from_top_to_bottom_without_an_error():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream", "display_data"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}


def test_it_shows_one_picture():
    pictures = [o["data"]["image/png"] for c in CODE for o in c["outputs"] if "data" in o]
    assert len(pictures) == 1
    with Image.open(io.BytesIO(base64.b64decode(pictures[0]))) as picture:
        assert np.asarray(picture.convert("L")).std() > 10  # not blank
    assert PATH.stat().st_size < 100_000


def test_it_names_no_machine():
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    assert set(kept["metadata"]) <= {"kernelspec", "language_info"}
    assert all(not cell["metadata"] for cell in CELLS)
    texts = ["".join(o.get("text", "")) for c in CODE for o in c["outputs"]]
    for text in [*texts, *("".join(cell["source"]) for cell in CELLS)]:
        assert not re.search(r"(?<![\w.:/])/\w+/\w|[A-Z]:\\|site-packages", text), text
