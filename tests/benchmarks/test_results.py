"""Tables, verdicts and data follow from the result files, and the committed ones still do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import results, sentences
from benchmarks.minatar_learning import GAMES
from eligrad.analysis import statistics


def a_result(variant: str, finals: list[float], diverged_at: list[int]) -> dict[str, object]:
    return {
        "game": "Breakout",
        "variant": variant,
        "config": {"lam": 0.8},
        "seeds": len(finals),
        "first_seed": 7,
        "steps": 100,
        "final_per_seed": finals,
        "diverged_at": diverged_at,
        "grid": [25, 50, 75, 100],
        "curve_per_seed": [[value, float("nan")] * 2 for value in finals],
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "study").mkdir()
    for result in (
        a_result("qrc", [1.0, 2.0, 3.0], [-1, -1, -1]),
        a_result("qc", [1.0, 1.0, 4.0], [-1, -1, -1]),
        a_result("q-lambda", [91.0, 92.0, 93.0], [-1, 7, 0]),
    ):
        (tmp_path / "study" / f"{result['variant']}.json").write_text(json.dumps(result))
    return tmp_path


def test_runs_and_curves_are_tidy(root):
    runs, curves = results.load(root)
    assert len(runs) == 9
    assert len(curves) == 36
    one = curves[(curves["variant"] == "qc") & (curves["seed"] == 9)]
    assert one["step"].tolist() == [25, 50, 75, 100]
    np.testing.assert_array_equal(one["return"], [4.0, np.nan, 4.0, np.nan])
    assert set(runs["study"]) == {"study"}
    assert runs[runs["variant"] == "qc"]["area"].tolist() == [1.0, 1.0, 4.0]
    with pytest.raises(FileNotFoundError, match="holds no results"):
        results.load(root / "none")


def test_finals_have_errors_and_divergences(root):
    rows = results.finals(results.load(root)[0]).splitlines()
    assert rows[0] == "|  | Breakout |"
    assert rows[2:] == [
        "| QRC(λ) | 2.00 ± 0.58 |",
        "| Q(λ) | 92.00 ± 0.58 (2 of 3 diverged) |",
        "| QC(λ) | 2.00 ± 1.00 |",
    ]


def test_differences_are_taken_from_qrc_and_bold_where_they_stand(root):
    # Variances 1 and 1, and 1 and 3, over three seeds: errors √(2/3) and √(4/3).
    rows = results.differences(results.load(root)[0]).splitlines()
    assert rows[2:] == ["| Q(λ) | **+90.00 ± 0.82** |", "| QC(λ) | +0.00 ± 1.15 |"]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([9.0, 10.0, 11.0], [1.0, 2.0, 3.0], "**holds**"),
        ([1.0, 2.0, 3.0], [9.0, 10.0, 11.0], "**does not hold**"),
        ([1.0, 2.0, 3.0], [1.5, 2.5, 3.0], "not enough data"),
    ],
)
def test_verdicts(ours, theirs, verdict):
    runs = pd.DataFrame(
        {
            "study": "s", "env": "Freeway", "variant": ["qrc"] * 3 + ["qc"] * 3, "steps": 100,
            "final": ours + theirs,
        }
    )  # fmt: skip
    # The first row is of an agent that is not compared; runs of both studies count, of others none.
    runs.loc[0, "study"] = "t"
    others = [runs.head(1).assign(variant="another", steps=99), runs.assign(study="u", final=0.0)]
    runs = pd.concat([*others, runs])
    claims = (("QRC > QC", "qrc", "qc", ("Freeway",), ("s", "t")),)
    (row,) = results.verdicts(runs, claims).splitlines()[2:]
    gap = statistics.difference({"": np.array(ours)}, {"": np.array(theirs)})
    assert row.startswith("| QRC > QC | Freeway | 100, 3 and 3 | ")
    assert f"{gap.value:+,.4g} [{gap.low:+,.4g}".replace("-", "−") in row
    assert "; seeds lost 0 of 3 and 0 of 3" in row
    assert row.endswith(f"| {verdict} |")


def test_environments_without_runs_count_in_the_correction_of_verdicts():
    runs = pd.DataFrame(
        {
            "study": "s", "env": "Breakout", "variant": ["qrc"] * 3 + ["qc"] * 3, "steps": 100,
            "final": [9.0, 10.0, 11.0, 1.0, 2.0, 3.0],
        }
    )  # fmt: skip
    # Welch's t-test: t = 8 / √(2/3) with 4 degrees of freedom.
    p = 2 * stats.t.sf(8 / np.sqrt(2 / 3), 4)
    claims = (("QRC > QC", "qrc", "qc", GAMES, ("s",)),)
    (row,) = results.verdicts(runs, claims, ("better", "worse", "level")).splitlines()[2:]
    assert row.endswith(f"| {5 * p:.4f} | better |")


def stage_one(variant: str, env: str, areas: list[float], **settings: object) -> pd.DataFrame:
    """Runs of the study of h, seeds 0 and on; a run without an area has diverged."""
    base = {"rule": "tdrc", "regularize": "output", "h": "network", "optimizer": "sgd"}
    return pd.DataFrame(
        {
            **base, "h_scale": 1.0, "beta": 1.0, **settings, "study": "h/stage-1", "env": env,
            "variant": variant, "seed": range(len(areas)), "final": areas, "area": areas,
            "diverged": np.isnan(areas),
        }
    )  # fmt: skip


@pytest.fixture
def stage() -> pd.DataFrame:
    nan = float("nan")
    return pd.concat(
        [
            stage_one("a", "Freeway", [0.0, 0.5, 4.0, 3.5], beta=0.3),
            stage_one("b", "Freeway", [8.0, 8.0, 8.0, 8.0], h="features"),
            # The fifth seed of a game is not one of the protocol's.
            stage_one("c", "Freeway", [6.0, 6.0, 6.0, 6.0, 99.0], regularize=None, h=None),
            stage_one("a", "CartPole-v1", [100.0] * 4 + [500.0] * 4, beta=0.3),
            # The run that diverged counts 100: the mean is 350.
            stage_one("c", "CartPole-v1", [400.0, nan] + [300.0] * 3 + [500.0] * 2 + [400.0],
                      regularize=None, h=None),
            stage_one("d", "CartPole-v1", [500.0] * 8, optimizer="obgd"),
            stage_one("stream-q", "CartPole-v1", [500.0] * 8, rule="td"),
        ],
        ignore_index=True,
    )  # fmt: skip


def test_the_study_names_settings_and_counts_lost_and_solved_runs(stage):
    assert results.finals_of_h(stage, ["Freeway"], 1).splitlines() == [
        "|  | Freeway |",
        "| --- | --- |",
        "| `parameters`, β = 1 (the paper's) | 24.6 ± 18.6 |",
        "| `output`, β = 0.3 | 2.0 ± 1.0 (2 of 4 lost) |",
        "| `output`, β = 1, features | 8.0 ± 0.0 |",
    ]
    assert results.solved(*results.study_of_h(stage)).splitlines()[2:] == [
        "| StreamQ | 8 of 8 |",
        "| `parameters`, β = 1 (the paper's) | 2 of 8 |",
        "| `output`, β = 0.3 | 4 of 8 |",
        "| `output`, β = 1, ObGD | 8 of 8 |",
    ]


def test_scores_are_of_candidates_that_ran_everywhere(stage):
    # Means 2 and 6, 300 and 350; each in its own environment from 0 to 1.
    paper, other = results.scores_of_h(stage).splitlines()[2:]
    assert paper.startswith("| `parameters`, β = 1 (the paper's) | 1.00 | 1.0 | ")
    assert paper.endswith("| 1.00 | 1.00 |")
    assert other.startswith("| `output`, β = 0.3 | 0.00 | 2.0 | ")
    assert other.endswith("| 0.00 | 0.00 |")


def test_ranges_count_missing_environments_as_worst_and_best(stage):
    # Means 2, 8 and 6 on Freeway; 300, 350 and 500 on CartPole.
    assert results.ranges_of_h(stage).splitlines()[2:] == [
        "| `output`, β = 1, ObGD | 0.50 | 1.00 | Freeway |",
        "| `output`, β = 1, features | 0.50 | 1.00 | CartPole-v1 |",
        "| `parameters`, β = 1 (the paper's) | 0.46 | 0.46 |  |",
        "| `output`, β = 0.3 | 0.00 | 0.00 |  |",
    ]


def test_a_figure_is_drawn_although_a_stretch_has_no_episode(root):
    runs, curves = results.load(root)
    results.draw(runs, curves, root / "curves.png", joined=2)
    assert (root / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_blocks_are_replaced_and_nothing_else(monkeypatch):
    monkeypatch.setattr(results, "BLOCKS", {"one": lambda runs: "1", "two": lambda runs: "2\n2"})
    text = "a\n<!-- begin one -->\n<!-- end -->\nb\n<!-- begin two -->\nold\n<!-- end -->\nc\n"
    once = results.rewritten(text, pd.DataFrame())
    assert once == (
        "a\n<!-- begin one -->\n1\n<!-- end -->\nb\n<!-- begin two -->\n2\n2\n<!-- end -->\nc\n"
    )
    assert results.rewritten(once, pd.DataFrame()) == once


def test_sentences_that_the_runs_contradict_are_named():
    """Each of them has numbers of the runs, so that none stands where all digits are others."""
    runs, _ = results.load()
    wanted = [
        f"{page}: {each}" for page, all_ in sentences.sentences(runs).items() for each in all_
    ]
    others = str.maketrans("0123456789", "1234567890")
    assert sentences.missing(runs, lambda path: path.read_text().translate(others)) == wanted
    lost = runs["final"].mask((runs["study"] == "h/stage-2") & (runs["env"] == "Freeway"), 0.0)
    found = sentences.missing(runs.assign(final=lost))
    assert "docs/why.md: loses 30 seed of Freeway, the paper's rule 30 of 30" in found


def test_claims_in_short():
    def made(variant, env, finals, study):
        return pd.DataFrame({"study": study, "env": env, "variant": variant, "final": finals})

    high, low = [9.0, 10.0, 11.0], [1.0, 2.0, 3.0]
    games = [("Breakout", high, low), ("Asterix", low, high), ("Freeway", low, low)]
    runs = pd.concat(
        [made("qrc", env, ours, "minatar-5m") for env, ours, _ in games]
        + [made("stream-q", env, theirs, "minatar-5m") for env, _, theirs in games]
        + [made("tdrc-fresh", "Hopper-v4", high * 3, "mujoco-1m")]
        + [made("ppo", "Hopper-v4", low * 3, "mujoco-1m")]
    ).assign(steps=5, seed=0, diverged=False)
    _, _, *rows = results.claims_in_short(runs).splitlines()
    assert rows == [
        "| QRC(λ) > StreamQ | Breakout | Asterix | Freeway |",
        "| Gradient PPO is level with PPO |  | Hopper-v4 |  |",
        "| β matters less for QRC(λ) than for Gradient PPO |  |  | over all environments |",
    ]


@pytest.mark.parametrize(("without", "verdict"), [(-100.0, 0), (300.0, 1), (0.0, 2)])
def test_regularisation_is_compared_between_agents(without, verdict):
    """QC's returns are a little below QRC's; TDC's below, above, or equal to TDRC's."""
    rows = [
        {
            "study": study, "env": env, "variant": variant,
            "final": value + gap * (variant == variants[1]),
        }
        for study, env, variants, gap in (
            ("mujoco-1m", "Hopper-v4", ("tdrc-fresh", "tdc-fresh"), without),
            ("minatar-5m", "Breakout", ("qrc", "qc"), -0.1),
            ("h/stage-2", "Freeway", ("qrc", "qc"), -0.1),
        )
        for variant in variants
        for value in np.linspace(-1, 1, 8)
    ]  # fmt: skip
    runs = pd.DataFrame(rows)
    table, found = results.regularisation(runs)
    assert found == verdict
    _, _, ppo, qrc, _ = table.splitlines()
    finals = {name: group["final"].to_numpy() for name, group in runs.groupby(["env", "variant"])}
    wins = [
        np.mean(np.subtract.outer(finals[env, "qrc"], finals[env, "qc"]) > 0)
        for env in ("Breakout", "Freeway")
    ]
    assert qrc.startswith(f"| QRC(λ) | Breakout, Freeway | {np.mean(wins):.2f} [")
    assert ppo.startswith("| Gradient PPO | Hopper-v4 | ")


def test_what_is_committed_follows_from_the_files():
    runs, curves = results.load()
    texts = {path: path.read_text() for path in results.PAGES}
    for path, text in texts.items():
        assert results.rewritten(text, runs) == text, f"{path}: python -m benchmarks.results"
    # Each table stands once in results/; other pages repeat some of them.
    mine = [text for path, text in texts.items() if path.is_relative_to(results.ROOT)]
    blocks = [block[2] for text in mine for block in results._BLOCK.finditer(text)]
    assert sorted(blocks) == sorted(results.BLOCKS)
    assert sentences.missing(runs) == []
    committed = pd.read_parquet(results.ROOT / "curves.parquet")
    pd.testing.assert_frame_equal(committed, curves, check_dtype=False)
    assert (results.ROOT / "curves.parquet").stat().st_size < 20e6


@pytest.mark.parametrize(("newer", "apart"), [([2.0, 3.0, 4.0], "None"), ([9.0, 9.1, 9.2], "1")])
def test_older_and_newer_runs_of_an_agent_are_compared(newer, apart):
    finals = {("minatar-5m", "qrc"): [1.0, 2.0, 3.0], ("h/stage-2", "qrc"): newer}
    alone = {("minatar-5m", "qc"): [5.0, 6.0]}
    runs = pd.DataFrame(
        [
            {"study": study, "env": "Breakout", "variant": variant, "final": value}
            for (study, variant), values in (finals | alone).items()
            for value in values
        ]
    )
    _, _, row, _, said = results.older_and_newer(runs).splitlines()
    p = stats.ttest_ind([1.0, 2.0, 3.0], newer, equal_var=False).pvalue
    assert row.startswith("| Breakout | QRC(λ) | 2.0 ± 0.6 (3) | ")
    assert row.endswith(f" (3) | {p:.2f} | {p:.2f} |")
    assert said == f"{apart} of 1 differences is significant (5 %)."
