"""The tables say what the result files hold, and the results' README shows these tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import minatar_table as table

RESULTS = Path(__file__).parents[2] / "results"


def a_result(variant: str, finals: list[float], diverged_at: list[int]) -> dict[str, object]:
    return {
        "game": "Breakout",
        "variant": variant,
        "seeds": len(finals),
        "steps": 100,
        "final_mean": sum(finals) / len(finals),
        "final_standard_error": 0.25,
        "final_per_seed": finals,
        "diverged_at": diverged_at,
        "curve_per_seed": [[value, float("nan")] * 2 for value in finals],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for result in (
        a_result("qrc", [1.0, 2.0, 3.0], [-1, -1, -1]),
        a_result("qc", [1.0, 1.0, 4.0], [-1, -1, -1]),
        a_result("q-lambda", [91.0, 92.0, 93.0], [-1, 7, 0]),
    ):
        (tmp_path / f"{result['variant']}.json").write_text(json.dumps(result))
    return tmp_path


def test_returns_have_errors_and_divergences(folder: Path) -> None:
    rows = table.returns_table(table.load(folder)).splitlines()
    assert rows[0] == "|  | Breakout |"
    assert rows[2:] == [
        "| QRC(λ) | 2.00 ± 0.25 |",
        "| Q(λ) | 92.00 ± 0.25 (2 of 3 diverged) |",
        "| QC(λ) | 2.00 ± 0.25 |",
    ]


def test_differences_are_taken_from_qrc_and_bold_where_they_stand(folder: Path) -> None:
    # Variances 1 and 1, and 1 and 3, over three seeds: errors √(2/3) and √(4/3).
    rows = table.differences_table(table.load(folder)).splitlines()
    assert rows[2:] == ["| Q(λ) | **+90.00 ± 0.82** |", "| QC(λ) | +0.00 ± 1.15 |"]


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no results"):
        table.load(tmp_path)


def test_a_figure_is_drawn_although_a_stretch_has_no_episode(folder: Path) -> None:
    table.draw(table.load(folder), folder / "curves.png")
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


BETA = ["qrc-beta0.1", "qrc-beta0.01"]


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("minatar", []),
        ("minatar-1m", []),
        ("minatar-5m", BETA),
        ("minatar-5m", ["stream-q", "q-lambda-sparse"]),
    ],
)
def test_the_readme_shows_the_tables_of_the_committed_results(
    name: str, left_out: list[str]
) -> None:
    loaded, readme = table.load(RESULTS / name), (RESULTS / "README.md").read_text()
    results = {key: result for key, result in loaded.items() if key[1] not in left_out}
    assert table.returns_table(results) in readme
    assert table.differences_table(results) in readme
