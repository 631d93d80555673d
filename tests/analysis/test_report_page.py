"""The report in a browser: loaded, toggled, hovered, sorted, driven by keys, and seen."""

from __future__ import annotations

import io
import re

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eligrad.analysis.report.data import report_data
from eligrad.runs.returns import mean_and_error
from tests.analysis.browser import ABSENT, CHROMIUM, DRIVER, Browser
from tests.analysis.made_runs import Made, made
from tests.analysis.test_report import HOSTILE, floats, hostile, page_of, silenced

pytestmark = [
    pytest.mark.skipif(not (DRIVER and CHROMIUM), reason=ABSENT),
]

THOSE = made(envs=("A-world", "B-world"), length=40, changes=[{"h_scale": s} for s in (0.1, 1.0)])
THOSE.runs.loc[0, "diverged_step"] = 400
DATA = report_data(THOSE.runs, THOSE.episodes, THOSE.configs)
LABELS = [each["label"] for each in DATA["algorithms"]]
RIGHT, END = "\ue014", "\ue010"
"""WebDriver's names for keys."""


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page_of(THOSE, "Two worlds"), encoding="utf-8")
    return file


@pytest.fixture
def page(browser, path):
    """The report as it is when opened."""
    browser.move(0, 0)
    browser.open(path)
    return browser


def texts(page, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
    return page.run(script, selector)


def hover(page, panel: int, across: float, down: float = 0.5) -> str:
    """Puts the pointer over the plotted area of a panel; gives the tooltip's text."""
    box = page.run(
        "const panel = document.querySelectorAll('#panels figure > svg')[arguments[0]];"
        "const box = panel.getBoundingClientRect();"
        "return [box.left + 52, box.top + 10, box.width - 66, box.height - 50]",
        panel,
    )
    page.move(box[0] + across * box[2], box[1] + down * box[3])
    return tooltip(page)


def tooltip(page) -> str:
    return page.run(
        "const tooltip = document.getElementById('tooltip');"
        "return tooltip.hidden ? '' : tooltip.innerText"
    )


def mean_line(page, algorithm: int, panel: int = 0) -> np.ndarray:
    """Pixels [points, 2] of a mean curve."""
    path = page.run(
        "return document.querySelectorAll('#panels figure')[arguments[1]]"
        ".querySelectorAll('path.mean')[arguments[0]].getAttribute('d')",
        algorithm,
        panel,
    )
    return np.array([pair.split() for pair in re.split("[ML]", path)[1:]], np.float64)


def test_it_loads_without_a_word_of_complaint_and_asks_for_nothing(page):
    assert page.log() == []
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.run("return document.title") == "Two worlds"
    assert texts(page, "#panels h3") == ["A-world", "B-world"]
    assert texts(page, "#algorithms .chip") == LABELS
    assert page.run("return document.querySelectorAll('#panels path.mean').length") == 8
    assert texts(page, "#facts") == [
        "24 runs · 4 algorithms · 2 environments · all finished · 1 diverged"
    ]
    assert "1 of 3 diverged" in texts(page, "#panels .foot")[0]
    assert len(texts(page, "#runs-list tbody tr")) == 24
    assert texts(page, "#commands-list pre")[0].count("eligrad train") == 8
    assert "0123456789abcdef, with changes that are not committed" in texts(page, "#provenance")[0]
    assert texts(page, "#contents a")[:3] == ["Learning curves", "Statistics", "Sensitivity"]


def test_environments_and_algorithms_are_chosen(page):
    page.click("#environments .chip")
    assert texts(page, "#panels h3") == ["B-world"]
    page.click("#algorithms .chip:nth-child(4)")
    assert page.run("return document.querySelectorAll('#panels path.mean').length") == 3
    rows = texts(page, "#statistics-table tbody tr")
    assert len(rows) == 3
    assert not any(LABELS[1] in row or "A-world" in row for row in rows)
    assert page.run(
        "return [...document.querySelectorAll('#algorithms .chip')]"
        ".map((chip) => chip.getAttribute('aria-pressed'))"
    ) == ["true", "false", "true", "true"]
    page.click("#environments .quick:nth-child(2)")
    assert texts(page, "#panels") == ["No environment is chosen."]
    page.click("#environments .quick")
    assert texts(page, "#panels h3") == ["A-world", "B-world"]


def test_hovering_shows_the_values_there(page):
    shown = hover(page, panel=1, across=0.5)
    place = 49  # of 100 points, the one that ends the first half
    assert shown.startswith(f"step {DATA['curves'][4]['steps'][place]:,}")
    curves = [curve for curve in DATA["curves"] if curve["environment"] == 1]
    rows = [line.split("\t")[1:] for line in shown.splitlines()[1:]]
    expected = sorted(curves, key=lambda curve: -curve["mean"][place])
    assert [row[0] for row in rows] == [LABELS[curve["algorithm"]] for curve in expected]
    for row, curve in zip(rows, expected, strict=True):
        mean, error = (float(number) for number in row[1].split(" ± "))
        assert mean == pytest.approx(curve["mean"][place], abs=curve["error"][place] / 20)
        assert error == pytest.approx(curve["error"][place], rel=0.051)
    page.move(0, 0)
    assert tooltip(page) == ""


def test_the_nearest_line_is_marked(page):
    curve = mean_line(page, 2)
    top = page.run(
        "return document.querySelector('#panels figure > svg').getBoundingClientRect().top"
    )
    height = page.run("return document.querySelector('#panels figure > svg').clientHeight")
    x, y = curve[-1]
    left = page.run(
        "return document.querySelector('#panels figure > svg').getBoundingClientRect().left"
    )
    page.move(left + x, top + y)
    assert 0 < y < height
    near = texts(page, "#tooltip tr.near td:nth-child(2)")
    assert near == [LABELS[2]]


def test_keys_do_what_the_pointer_does(page):
    page.run("document.querySelectorAll('#panels figure > svg')[1].focus()")
    page.press(RIGHT)
    assert tooltip(page).startswith("step 10\n") or tooltip(page) == "step 10"
    page.press(RIGHT, RIGHT)
    assert tooltip(page).startswith("step 30")
    page.press(END)
    assert tooltip(page).startswith("step 1,000")
    page.press("\ue00c")
    assert tooltip(page) == ""
    page.run("document.querySelector('#environments .chip').focus()")
    page.press(" ")
    assert texts(page, "#panels h3") == ["B-world"]


def test_smoothing_is_a_moving_average_of_every_seed(page):
    reach = 4
    script = """
        const slider = document.getElementById("smoothing");
        slider.value = arguments[0];
        slider.dispatchEvent(new Event("input"));
        return visibleCurves(0).map(({ mean, error }) => ({ mean, error }));
    """
    whole, drawn = page.run(script, 0), mean_line(page, 0)
    smoothed = page.run(script, reach)
    assert texts(page, "#window") == ["9 points"]
    assert not np.array_equal(drawn, mean_line(page, 0))
    for curve, plain, smooth in zip(DATA["curves"], whole, smoothed, strict=False):
        each = np.stack([floats(row) for row in curve["each"]])
        np.testing.assert_array_equal(floats(plain["mean"]), floats(curve["mean"]))
        average = np.full(each.shape, np.nan)
        for seed, at in np.ndindex(each.shape):
            window = each[seed, max(0, at - reach) : at + reach + 1]
            if not np.isnan(each[seed, at]):
                average[seed, at] = np.mean(window[~np.isnan(window)])
        np.testing.assert_allclose(floats(smooth["mean"]), average.mean(axis=0), rtol=1e-12)
        error = average.std(axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(floats(smooth["error"]), error, rtol=1e-9)


def test_python_and_the_page_agree_on_means_and_errors(page):
    lines = np.random.default_rng(1).normal(size=(5, 7))
    lines[2, 3] = lines[4, 0] = np.nan
    asked = [[None if np.isnan(value) else value for value in line] for line in lines.tolist()]
    answer = page.run("return meanAndError(arguments[0])", asked)
    for ours, theirs in zip(mean_and_error(lines), ("mean", "error"), strict=True):
        np.testing.assert_allclose(floats(answer[theirs]), ours, rtol=1e-12)
    assert page.run("return meanAndError([[1, null]])") == {
        "mean": [1, None],
        "error": [None, None],
    }


def test_seeds_without_an_episode_leave_the_others_their_mean(browser, tmp_path):
    """One of the first agent's three; all of the second's, which have no line."""
    file = tmp_path / "silent.html"
    file.write_text(page_of(silenced(made(), 1, 3, 4, 5)), encoding="utf-8")
    browser.open(file)
    assert texts(browser, "#facts")[0].endswith("4 without an episode")
    notes = "QRC(λ): 1 of 3 without an episode; Q(λ): 3 of 3 without an episode"
    for reach in (0, 4):
        browser.run(
            "const slider = document.getElementById('smoothing');"
            "slider.value = arguments[0]; slider.dispatchEvent(new Event('input'))",
            reach,
        )
        assert texts(browser, "#panels .foot") == [notes]
        assert len(mean_line(browser, 0)) > 90
        assert mean_line(browser, 1).size == 0
    assert browser.log() == []


def test_log_axes_place_points_by_their_logarithm(page):
    curve = DATA["curves"][0]
    known = ~np.isnan(floats(curve["mean"]))
    steps, means = floats(curve["steps"])[known], floats(curve["mean"])[known]
    straight(mean_line(page, 0), steps, means)
    page.click("#log-x")
    straight(mean_line(page, 0), np.log(steps), means)
    page.click("#log-y")
    straight(mean_line(page, 0), np.log(steps), np.log(means))
    ticks = texts(page, "#panels figure:first-child text[text-anchor=middle]")
    assert {"10", "100", "1k"} <= set(ticks)


def straight(pixels: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Pixels are a linear function of these coordinates, to a rounding."""
    assert len(pixels) == len(x)
    for at, values in zip(pixels.T, (x, y), strict=True):
        slope, base = np.polyfit(values, at, 1)
        np.testing.assert_allclose(base + slope * values, at, atol=0.11)


def test_every_seed_on_demand(page):
    assert page.run("return document.querySelectorAll('path.seed').length") == 0
    page.click("#each")
    assert page.run("return document.querySelectorAll('path.seed').length") == 24
    assert page.run("return document.querySelectorAll('path.band').length") == 8
    choose(page, "band", "")
    assert page.run("return document.querySelectorAll('path.band').length") == 0


def choose(page, select: str, value: str) -> None:
    page.run(
        "const select = document.getElementById(arguments[0]);"
        "select.value = arguments[1]; select.dispatchEvent(new Event('change'))",
        select,
        value,
    )


def test_the_band_is_a_standard_error_or_a_confidence_interval(page):
    """Student's, of the three seeds at each point."""
    curve = DATA["curves"][0]
    each = np.stack([floats(row) for row in curve["each"]])
    wide = stats.t.interval(0.95, 2, loc=each.mean(axis=0), scale=stats.sem(each))
    script = "return visibleCurves(0).map(({ lower, upper }) => [lower, upper])[0]"
    plus_minus = [floats(line) for line in page.run(script)]
    mean, error = mean_and_error(each)
    # Numbers below 10 have four decimals or more on the page.
    rounded = {"rtol": 0.0, "atol": 0.5e-4 * (1 + stats.t.ppf(0.975, 2))}
    np.testing.assert_allclose(plus_minus, [mean - error, mean + error], **rounded)
    band = "return document.querySelector('#panels path.band').getAttribute('d')"
    drawn = page.run(band)
    choose(page, "band", "interval")
    np.testing.assert_allclose([floats(line) for line in page.run(script)], wide, **rounded)
    assert page.run(band) != drawn
    shown = hover(page, panel=0, across=0.5).splitlines()[1].split("\t")
    which = next(c for c in DATA["curves"][:4] if LABELS[c["algorithm"]] == shown[1])
    half = float(shown[2].split(" ± ")[1])
    assert half == pytest.approx(stats.t.ppf(0.975, 2) * which["error"][49], rel=0.051)


def test_small_screens(browser, tmp_path):
    """Every line is named beside it, all chips can be reached, and nothing is cut off."""
    sweep = made(changes=[{"step_size": x} for x in (1e-4, 3e-4, 1e-3)], envs=("A", "B"), seeds=2)
    file = tmp_path / "small.html"
    file.write_text(page_of(sweep), encoding="utf-8")
    with Browser(width=500, height=900) as small:
        small.open(file)
        for width in (500, 420):
            small.resize(width)
            size = "const {scrollWidth, clientWidth} = document.documentElement"
            whole, seen = small.run(f"{size}; return [scrollWidth, clientWidth]")
            assert whole == seen <= width
        names = texts(small, "#panels figure:first-child .legend span")
        assert len(names) == 6
        assert names == texts(small, "#algorithms .chip")
        assert small.run(
            "return document.querySelector('#panels .legend').getBoundingClientRect().height > 20"
        )
        for place in range(6):
            small.click(f"#algorithms .chip:nth-child({place + 3})")
        assert texts(small, "#algorithms .chip[aria-pressed=true]") == []
        assert cut_off(small) == []
    browser.open(file)
    assert cut_off(browser) == []
    hidden = "return getComputedStyle(document.querySelector('#panels .legend')).display"
    assert browser.run(hidden) == "none"


def cut_off(page) -> list[str]:
    """Texts of charts that are not within their picture."""
    return page.run("""
        return [...document.querySelectorAll("figure > svg text")].filter((text) => {
          const one = text.getBoundingClientRect();
          const all = text.ownerSVGElement.getBoundingClientRect();
          return one.left < all.left || one.right > all.right + 0.5;
        }).map((text) => text.textContent)
    """)


def test_sensitivity_joins_runs_of_one_length(browser, tmp_path):
    short, long = (
        made(agents=("qrc",), changes=[{"lam": x} for x in (0.8, 0.9)], seeds=2, steps=steps)
        for steps in (500, 1000)
    )
    both = Made(
        pd.concat([short.runs, long.runs], ignore_index=True),
        pd.concat([short.episodes, long.episodes], ignore_index=True),
        short.configs | long.configs,
    )
    file = tmp_path / "lengths.html"
    file.write_text(page_of(both), encoding="utf-8")
    browser.open(file)
    assert texts(browser, "#setting option") == ["lam"]
    dashes = browser.run(
        "return [...document.querySelectorAll('#sensitivity path.mean')]"
        ".map((path) => ['stroke-dasharray', 'd'].map((name) => path.getAttribute(name)))"
    )
    assert [(dash, path.count("L")) for dash, path in dashes] == [(None, 1), ("7 4", 1)]
    assert texts(browser, "#sensitivity .legend span") == [
        "QRC(λ), 1,000 steps",
        "QRC(λ), 500 steps",
    ]
    assert browser.run("return document.getElementById('lengths').hidden") is False


def test_tables_are_sorted(page):
    page.click("#statistics-table th:nth-child(3) button")
    falling = [float(t.split(" ± ")[0]) for t in texts(page, "#statistics-table td:nth-child(3)")]
    assert falling == sorted(falling, reverse=True)
    page.click("#statistics-table th:nth-child(3) button")
    rising = texts(page, "#statistics-table td:nth-child(3)")
    assert [float(text.split(" ± ")[0]) for text in rising] == falling[::-1]
    assert (
        page.run("return document.querySelector('#statistics-table th:nth-child(3)').ariaSort")
        == "ascending"
    )


def test_sensitivity_has_a_dot_for_each_value(page):
    assert texts(page, "#setting option") == ["h_scale"]
    assert page.run("return document.querySelectorAll('#sensitivity circle').length") == 8
    titles = texts(page, "#sensitivity figure:first-child circle ~ title")
    means = {row["algorithm"]: row["last"]["mean"] for row in DATA["statistics"][:4]}
    for place, label in enumerate(LABELS):
        (title,) = (title for title in titles if title.startswith(f"{label}: "))
        shown = float(title.removeprefix(f"{label}: ").split(" ± ")[0])
        assert shown == pytest.approx(means[place], rel=0.05)


def test_a_sweep_begins_with_the_best_of_each_agent(browser, tmp_path):
    sweep = made(changes=[{"lam": x / 10} for x in range(1, 8)], seeds=2)
    data = report_data(sweep.runs, sweep.episodes, sweep.configs)
    best = [data["algorithms"][place]["label"] for place in data["shown"]]
    file = tmp_path / "sweep.html"
    file.write_text(page_of(sweep), encoding="utf-8")
    browser.open(file)
    assert texts(browser, "#algorithms .chip[aria-pressed=true]") == best
    assert browser.run("return document.getElementById('few').hidden") is False
    assert browser.run("return document.querySelectorAll('#panels path.mean').length") == 2
    # The sensitivity to a setting is that of all its values, whichever curves are shown.
    assert browser.run("return document.querySelectorAll('#sensitivity circle').length") == 14
    browser.click("#algorithms .quick")
    assert browser.run("return document.querySelectorAll('#panels path.mean').length") == 14
    browser.click("#algorithms .quick:nth-child(3)")
    assert texts(browser, "#algorithms .chip[aria-pressed=true]") == best


def test_what_is_chosen_is_seen(page):
    """The colour of an algorithm is on the screen until it is switched off."""
    red = (0xD5, 0x5E, 0x00)  # of Q(λ)
    before = matching(page.screenshot(), red)
    for place in (5, 6):  # after the two shortcuts
        page.click(f"#algorithms .chip:nth-child({place})")
    page.move(0, 0)
    after = matching(page.screenshot(), red)
    assert before > 2000
    assert after < before / 10  # the swatches of the chips remain, faint


def matching(png: bytes, colour: tuple[int, int, int]) -> int:
    """How many pixels have the colour, or nearly."""
    pixels = matplotlib.image.imread(io.BytesIO(png))[..., :3]
    return int((np.abs(pixels * 255 - np.array(colour)).max(axis=-1) < 12).sum())


def test_it_is_dark_where_that_is_preferred(page, path):
    paper = "return getComputedStyle(document.body).backgroundColor"
    strokes = (
        "return [...document.querySelectorAll('#panels path.mean')]"
        ".map((path) => getComputedStyle(path).stroke)"
    )
    assert page.run(paper) == "rgb(255, 255, 255)"
    light = set(page.run(strokes))
    with Browser("--blink-settings=preferredColorScheme=0") as dark:
        dark.open(path)
        assert dark.run(paper) == "rgb(20, 23, 26)"
        shades = set(dark.run(strokes))
    # One for each agent, and lighter where the paper is dark.
    assert len(light) == len(shades) == 2
    assert light.isdisjoint(shades)


def test_strings_are_shown_and_never_run(browser, tmp_path):
    file = tmp_path / "hostile.html"
    file.write_text(page_of(hostile(), HOSTILE[2]), encoding="utf-8")
    browser.open(file)
    assert browser.log() == []
    assert browser.run("return window.hacked ?? null") is None
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert texts(browser, "h1") == [HOSTILE[2]]
    assert texts(browser, "#panels h3") == HOSTILE[:2]
    assert HOSTILE[0] in hover(browser, 0, 0.9)
    assert HOSTILE[0] in texts(browser, "#commands-list pre")[0]


def test_the_policy_stops_a_script_that_is_not_the_page_s_own(browser, tmp_path):
    """Should a string ever slip through: the browser does not run it."""
    file = tmp_path / "slipped.html"
    slipped = "<script>window.hacked = 1</script></body>"
    file.write_text(page_of(THOSE).replace("</body>", slipped), encoding="utf-8")
    browser.open(file)
    assert browser.run("return window.hacked ?? null") is None
    assert any("Content Security Policy" in entry["message"] for entry in browser.log())
