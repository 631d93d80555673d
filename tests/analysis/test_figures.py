"""Figures by the numbers that are in them; how they look was looked at."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from eligrad._base.errors import UnknownName
from eligrad.analysis import figures, palette
from eligrad.analysis.bootstrap import Bootstrap
from eligrad.analysis.frames import configurations
from eligrad.analysis.lines import lines_of
from eligrad.runs.configuration import shown
from tests.analysis.tables import runs_of

QUICK = Bootstrap(resamples=100)


@pytest.fixture
def runs() -> pd.DataFrame:
    frame = pd.concat(
        [runs_of("qc", {"A": [1.0, 3.0], "B": [5.0, 5.0]}), runs_of("qrc", {"A": [2.0, 4.0]})],
        ignore_index=True,
    )
    frame.loc[1, "diverged_step"] = 500
    return frame


@pytest.fixture
def episodes(runs) -> pd.DataFrame:
    """One episode for each run in each half, of its final score; the last run has none."""
    return pd.DataFrame(
        [
            {"run": run.run, "step": step, "return": share * run.return_last, "length": 500}
            for run in runs[:-1].itertuples()
            for step, share in ((500, 0.5), (1000, 1.0))
        ]
    )


def words(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def test_learning_curves(runs, episodes):
    figure = figures.learning_curves(runs, episodes, points=2)
    a, b = figure.axes
    by_colour = {line.get_color(): line for line in a.get_lines()}
    qc, qrc = by_colour[palette.GREEN], by_colour[palette.BLUE]
    np.testing.assert_allclose(qc.get_xdata(), [500, 1000])
    np.testing.assert_allclose(qc.get_ydata(), [1.0, 2.0])
    # The run that never ended an episode is not in the mean, and the reader is told.
    np.testing.assert_allclose(qrc.get_ydata(), [1.0, 2.0])
    assert "QRC(λ): 1 of 2 without an episode" in words(figure)
    assert "QC(λ): 1 of 2 diverged" in words(figure)
    assert "mean of 2 runs" in words(figure)
    assert a.get_title() == "A"
    assert [line.get_color() for line in b.get_lines()] == [palette.GREEN]
    # The standard error of 1 and 3 is 1; a single run has none to shade.
    (shade,) = a.collections
    assert shade.get_paths()[0].get_extents().ymax == 3.0
    assert shade.get_paths()[0].get_extents().ymin == 0.5


def test_variants_of_an_agent_differ_in_dash():
    variants = pd.concat([runs_of("qrc", {"A": [1.0]}, **{"lam": lam}) for lam in (0.9, 0.8)])
    with_another = pd.concat([variants, runs_of("qc", {"A": [1.0]})])
    first, second, _ = lines_of(with_another)
    assert (first.label, second.label) == ("QRC(λ), lam 0.8", "QRC(λ), lam 0.9")
    assert first.style.colour == second.style.colour == palette.BLUE
    assert first.style.dash != second.style.dash


@pytest.mark.parametrize(
    ("column", "values", "names"),
    [
        ("env_params.gravity", (9.5, np.nan), ("gravity 9.5", "gravity default")),
        ("max_episode_steps", (50, 70), ("max episode steps 50", "max episode steps 70")),
        ("steps", (1000, 1_000_448), ("steps 1000", "steps 1000448")),
        ("config_hash", ("abcdef0", "fedcba9"), ("configuration abcdef", "configuration fedcba")),
    ],
)
def test_other_problems_are_other_lines(column, values, names):
    """Two runs of each, with all settings equal: what no setting tells apart is not averaged."""
    both = [
        runs_of("qrc", {"A": [score, score]}, **{"lam": 0.8, column: value})
        for value, score in zip(values, (0.0, 10.0), strict=True)
    ]
    lines = lines_of(pd.concat(both))
    assert [line.label for line in lines] == [f"QRC(λ), {name}" for name in names]
    assert [list(line.runs["return_last"]) for line in lines] == [[0.0, 0.0], [10.0, 10.0]]


def test_exploration_that_follows_from_the_steps_is_not_named():
    """Runs of two lengths explore for a fifth of each: nobody set another schedule."""

    def run(steps: int, explored: float) -> pd.DataFrame:
        columns = {"exploration_steps": explored, "exploration_fraction": explored / steps}
        return runs_of("qrc", {"A": [1.0, 2.0]}, steps=steps, **columns)

    def labels(*runs: pd.DataFrame) -> list[str]:
        return [line.label for line in lines_of(pd.concat(runs))]

    assert labels(run(8000, 1600), run(100_000, 20_000)) == [
        "QRC(λ), steps 8000", "QRC(λ), steps 1e5",
    ]  # fmt: skip
    # The same number of steps for both: it was set as such.
    assert "exploration" not in str(labels(run(8000, 1600), run(100_000, 1600)))
    assert labels(run(8000, 1600), run(8000, 800)) == [
        "QRC(λ), exploration fraction 0.1", "QRC(λ), exploration fraction 0.2",
    ]  # fmt: skip


def test_a_column_of_the_users_own_is_no_setting():
    mine = runs_of("qrc", {"A": [1.0, 2.0]}, lam=0.8).assign(my_score=[3.0, 4.0])
    assert [line.label for line in lines_of(mine)] == ["QRC(λ)"]


def test_agents_on_different_problems_say_which():
    qrc = runs_of("qrc", {"A": [1.0]}, **{"env_params.gravity": 5.0})
    qc = runs_of("qc", {"A": [1.0]}, **{"env_params.gravity": 9.5})
    labels = [line.label for line in lines_of(pd.concat([qrc, qc]))]
    assert labels == ["QRC(λ), gravity 5", "QC(λ), gravity 9.5"]


def test_settings_that_go_with_the_environment_make_no_variants():
    runs = pd.concat(
        [runs_of("qrc", {env: [1.0]}, **{"lam": lam}) for env, lam in (("A", 1), ("B", 2))]
    )
    assert [line.label for line in lines_of(runs)] == ["QRC(λ)"]


def test_names_under_bars_leave_each_other_room(runs):
    games = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
    many = pd.concat([runs.assign(env=f"MinAtar/{game}-v1") for game in games])
    figure = figures.speed_bars(many)
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) == 5
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_speed_bars(runs):
    figure = figures.speed_bars(runs)
    (panel,) = figure.axes
    heights = {bar.get_facecolor(): bar.get_height() for bar in panel.patches}
    assert len(panel.patches) == 3
    assert set(heights.values()) == {100.5}
    assert panel.get_ylim()[0] == 0
    assert panel.collections  # the whiskers
    assert not figures.speed_bars(runs.assign(steps_per_second=0.1)).axes[0].collections


def test_performance_profiles(runs):
    both = runs[runs["env"] == "A"]
    figure = figures.performance_profiles(both, bounds={"A": (0.0, 4.0)}, bootstrap=QUICK)
    (panel,) = figure.axes
    by_label = {line.get_label(): line for line in panel.get_lines()}
    at, share = by_label["QRC(λ)"].get_data()
    np.testing.assert_allclose(share, [np.mean([t < 2 / 4, t < 4 / 4]) for t in at])
    assert share[0] == 1.0
    assert share[-1] == 0.0
    assert "given bounds" in words(figure)
    with pytest.raises(ValueError, match=r"QC\(λ\) on \['A', 'B'\]"):
        figures.performance_profiles(runs, bootstrap=QUICK)


def test_profiles_of_configurations_that_are_equal(runs):
    equal = runs[runs["env"] == "A"].assign(return_last=1.0)
    (panel,) = figures.performance_profiles(equal, bootstrap=QUICK).axes
    for line in panel.get_lines():
        at, share = line.get_data()
        np.testing.assert_array_equal(share, at < 1.0)


def sweep() -> pd.DataFrame:
    """Scores 10 lam + step: the best step size, 2, goes with every lam."""
    parts = [
        runs_of(
            "qrc",
            {"A": [10 * lam + step - 1, 10 * lam + step + 1]},
            **{"lam": lam, "step_size": step, "rule": "tdrc"},
        )
        for lam in (0.8, 0.9)
        for step in (0.1, 1.0, 2.0)
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame.loc[0, "diverged_step"] = 3
    return frame


def test_configurations():
    table = configurations(sweep())
    first = table.iloc[0]
    assert len(table) == 6
    assert (first["mean"], first["error"]) == (pytest.approx(8.1), pytest.approx(1.0))
    assert (first["runs"], first["scored"], first["diverged"]) == (2, 2, 1)
    runs = sweep()
    runs.loc[0, "return_last"] = np.nan
    first = configurations(runs).iloc[0]
    assert (first["mean"], first["runs"], first["scored"]) == (pytest.approx(9.1), 2, 1)


def test_sensitivity_shows_the_best_of_the_others():
    figure = figures.sensitivity_curves(sweep())
    lam, step = figure.axes
    assert (lam.get_xlabel(), step.get_xlabel()) == ("lam", "step_size")  # the rule never varies
    line = lam.containers[0].lines[0]
    np.testing.assert_allclose(line.get_ydata().astype(float), [10.0, 11.0])
    np.testing.assert_allclose(
        step.containers[0].lines[0].get_ydata().astype(float), [9.1, 10.0, 11.0]
    )
    assert [text.get_text() for text in lam.get_xticklabels()] == ["0.8", "0.9"]
    assert "with that value, ±" in " ".join(words(figure).split())
    worlds = sweep().assign(**{"env_params.g": [1.0, 2.0] * 6})
    told = " ".join(words(figures.sensitivity_curves(worlds)).split())
    assert "with that value, with the best of the other settings (env_params.g), ±" in told
    # Each configuration is a dot.
    assert len(lam.collections[0].get_offsets()) == 6


def test_sensitivity_to_a_setting_drawn_at_random():
    random = np.random.default_rng(0)
    runs = pd.concat(
        runs_of("qrc", {"A": [1.0, 2.0]}, **{"step_size": 10 ** random.uniform(-6, -2)})
        for _ in range(20)
    )
    (panel,) = figures.sensitivity_curves(runs).axes
    assert panel.get_xscale() == "log"
    assert not panel.containers
    assert len(panel.collections[0].get_offsets()) == 20


def test_sensitivity_does_not_join_runs_of_different_lengths():
    short, long = (
        pd.concat(runs_of("qrc", {"A": [lam + gain]}, lam=lam, steps=steps) for lam in (0.8, 0.9))
        for steps, gain in ((1000, 0.0), (5000, 10.0))
    )
    (panel,) = figures.sensitivity_curves(pd.concat([short, long])).axes
    drawn = [container.lines[0].get_ydata().astype(float) for container in panel.containers]
    np.testing.assert_allclose(drawn, [[0.8, 0.9], [10.8, 10.9]])
    labels = [container.get_label() for container in panel.containers]
    assert labels == ["QRC(λ), steps 1000", "QRC(λ), steps 5000"]


def test_settings_that_cannot_be_shown():
    with pytest.raises(UnknownName, match="'lamb'; did you mean 'lam'"):
        figures.sensitivity_curves(sweep(), ["lamb"])
    with pytest.raises(ValueError, match="no setting varies"):
        figures.sensitivity_curves(runs_of("qrc", {"A": [1.0]}, **{"lam": 1.0}))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-4, "1e-4"), (3e-5, "3e-5"), (0.01, "0.01"), (0, "0"), (-2e-3, "-2e-3"), (1e6, "1e6"),
     ("obgd", "obgd"), (np.nan, "nan"), (np.inf, "inf"), (True, "True"),
     (np.float64(0.95), "0.95"), (np.int64(1_000_448), "1000448"), (10**6, "1e6")],
)  # fmt: skip
def test_values_as_shown(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_saved_by_suffix_and_always_the_same(tmp_path, runs, suffix, begins):
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        figures.save(figures.speed_bars(runs), path)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(begins)
    assert first == second


def test_other_suffixes_are_refused(tmp_path, runs):
    with pytest.raises(ValueError, match=r"'\.jpg'; \.png, \.svg, \.pdf are accepted"):
        figures.save(figures.speed_bars(runs), str(tmp_path / "bars.jpg"))
    assert not list(tmp_path.iterdir())
