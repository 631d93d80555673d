"""What the report says, against values worked out apart from it."""

from __future__ import annotations

import copy
import functools
import json
import math
import operator
import re
import shlex
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eligrad import cli
from eligrad._base.errors import DamagedFileWarning
from eligrad._base.files import read_json
from eligrad.analysis.report import build_report, write_report
from eligrad.analysis.report.commands import commands
from eligrad.analysis.report.data import FIGURES, POINTS, report_data
from eligrad.cli import train as cli_train
from eligrad.runs.folder import RunFolder
from eligrad.training import train
from tests.analysis.made_runs import SESSION, Made, made
from tests.engines import tiny
from tests.runs.altered import write_run

ROUNDED = {"rtol": 0.6 * 10.0 ** (1 - FIGURES)}
ROOT = Path(__file__).parent.parent.parent


def data_of(those: Made) -> dict:
    return report_data(those.runs, those.episodes, those.configs)


def page_of(those: Made, title: str = "Runs") -> str:
    return build_report(those.runs, those.episodes, those.configs, title)


def embedded(page: str) -> dict:
    """The data as a browser takes them from the page."""
    start = '<script type="application/json" id="data">'
    return json.loads(page.partition(start)[2].partition("</script>")[0])


def floats(values: list) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def test_curves_against_a_loop_over_episodes():
    those = made(envs=("A", "B"), length=50)
    curves = data_of(those)["curves"]
    assert len(curves) == 4
    whose = those.episodes.groupby(["env", "agent", "seed"])
    for curve in curves:
        key = ("A", "B")[curve["environment"]], ("qrc", "q-lambda")[curve["algorithm"]]
        rows = []
        for seed in curve["seeds"]:
            mine = whose.get_group((*key, seed))[["step", "return"]].to_numpy()
            value, row = np.nan, []
            for end in np.linspace(0, 1000, POINTS + 1)[1:]:
                begin = end - 1000 / POINTS
                inside = [value for step, value in mine if begin < step <= end]
                value = sum(inside) / len(inside) if inside else value
                row.append(value)
            rows.append(row)
        each = np.array(rows)
        np.testing.assert_allclose(np.stack([floats(r) for r in curve["each"]]), each, **ROUNDED)
        np.testing.assert_allclose(floats(curve["mean"]), each.mean(0), **ROUNDED)
        error = np.sqrt(((each - each.mean(0)) ** 2).sum(0) / 2 / 3)
        np.testing.assert_allclose(floats(curve["error"]), error, **ROUNDED)


def silenced(those: Made, *places: int) -> Made:
    """The same, but these runs have ended no episode."""
    silent = those.runs["run"].iloc[list(places)]
    those.runs.loc[those.runs["run"].isin(silent), ["return_last", "return_all", "return_area"]] = (
        np.nan
    )
    those.episodes = those.episodes[~those.episodes["run"].isin(silent)]
    return those


def test_a_seed_without_an_episode_is_in_no_mean_and_is_counted():
    all_of_it, data = data_of(made()), data_of(silenced(made(), 1))
    before, curve = all_of_it["curves"][0], data["curves"][0]
    assert (curve["seeds"], curve["without_episode"]) == ([0, 2], 1)
    assert [row["without_episode"] for row in data["statistics"][:2]] == [1, 0]
    assert curve["each"] == [before["each"][0], before["each"][2]]
    mean = (floats(before["each"][0]) + floats(before["each"][2])) / 2
    np.testing.assert_allclose(floats(curve["mean"]), mean, rtol=2 * ROUNDED["rtol"])
    assert data["curves"][1] == all_of_it["curves"][1]
    assert data["facts"].endswith("none diverged · 1 without an episode")
    assert "without an episode" not in all_of_it["facts"]


def test_statistics_of_seeds():
    those = made()
    qrc = those.runs["agent"] == "qrc"
    those.runs.loc[qrc, "return_last"] = [1.0, 3.0, np.nan]
    those.runs.loc[qrc, "return_area"] = [2.0, 4.0, 6.0]
    those.runs.loc[qrc, "diverged_step"] = pd.array([None, 500, None], dtype="Int64")
    those.runs.loc[qrc, "finished"] = [True, True, False]
    data = data_of(those)
    row = data["statistics"][0]
    assert row["last"] == {"mean": 2.0, "error": 1.0}
    assert row["area"] == {"mean": 3.0, "error": 1.0}
    assert (row["seeds"], row["finished"], row["diverged"], row["speed"]) == (3, 2, 1, 2000.0)
    assert data["curves"][0]["diverged"] == [500]
    assert data["facts"].endswith("1 not finished · 1 diverged")
    those.runs["finished"] = False  # what there is, as far as it is
    area = data_of(those)["statistics"][0]["area"]
    assert area == {"mean": 4.0, "error": pytest.approx(2 / np.sqrt(3), rel=1e-4)}


def test_a_seed_counts_once():
    """The same command given twice makes two folders, and no further evidence."""
    those = made()
    expected = data_of(those)
    again = those.runs.assign(run=those.runs["run"] + "-again", step=those.runs["step"] - 1)
    runs = pd.concat([again, those.runs], ignore_index=True)
    episodes = [those.episodes, those.episodes.assign(run=those.episodes["run"] + "-again")]
    configs = {**those.configs, **{f"{run}-again": c for run, c in those.configs.items()}}
    data = report_data(runs, pd.concat(episodes, ignore_index=True), configs)
    left_out = f"{len(those.runs)} repetitions of a seed left out"
    assert data["facts"] == f"{expected['facts']} · {left_out}"
    unlike = {"facts": "", "sessions": []}  # machines are told of all
    assert data | unlike == expected | unlike
    own = runs.assign(agent="")  # custom ones may differ
    assert "repetition" not in report_data(own, pd.concat(episodes), configs)["facts"]


def test_runs_that_are_still_trained_have_scores_too():
    those = made()
    expected = data_of(those)["statistics"]
    scores = ["return_last", "return_all", "return_area"]
    those.runs.loc[those.runs["agent"] == "qrc", scores] = np.nan
    assert data_of(those)["statistics"] == expected


def test_interquartile_mean_on_the_common_scale():
    """Eight runs of QRC(λ): the two lowest and the two highest of them do not count."""
    those = made(envs=("A", "B"), seeds=4)
    scores = {
        ("qrc", "A"): [0.0, 1.0, 2.0, 9.0], ("q-lambda", "A"): [1.0, 1.0, 1.0, 1.0],
        ("qrc", "B"): [10.0, 10.0, 10.0, 10.0], ("q-lambda", "B"): [20.0, 20.0, 20.0, 20.0],
    }  # fmt: skip
    for (agent, env), values in scores.items():
        mine = (those.runs["agent"] == agent) & (those.runs["env"] == env)
        those.runs.loc[mine, "return_last"] = values
    rows = data_of(those)["aggregate"]
    # In A the means are 3 and 1, in B 10 and 20: so 0, 1, 2, 9 are -0.5, 0, 0.5, 4 and 10 is 0.
    assert [row["value"] for row in rows] == [0.0, pytest.approx(0.5)]
    assert [row["runs"] for row in rows] == [8, 8]
    assert rows[0]["low"] <= 0.0 <= rows[0]["high"]
    # The lowest return of one is missing: the rest would look better than it is.
    lowest = (those.runs["agent"] == "qrc") & (those.runs["return_last"] == 0)
    those.runs.loc[lowest, "return_last"] = np.nan
    assert data_of(those)["aggregate"] == []
    alone = made()
    assert data_of(alone)["aggregate"] == []


def test_algorithms_are_told_apart_by_what_was_varied():
    those = made(changes=[{"h_scale": 3.0}, {"h_scale": 0.3}], agents=("qrc", "stream-q"))
    data = data_of(those)
    assert [each["label"] for each in data["algorithms"]] == [
        "QRC(λ), h scale 0.3", "QRC(λ), h scale 3", "StreamQ, h scale 0.3", "StreamQ, h scale 3",
    ]  # fmt: skip
    assert data["settings"] == {"h_scale": {"values": [0.3, 3.0], "log": True}}
    assert {"h_scale", "optimizer", "rule", "step_size"} <= set(data["differing"])
    assert "lam" not in data["differing"]
    assert data["algorithms"][0]["settings"]["h_scale"] == 0.3
    assert data["algorithms"][0]["colour"] == data["algorithms"][1]["colour"]
    assert data["algorithms"][0]["dash"] != data["algorithms"][1]["dash"]


def test_what_no_setting_tells_apart_is_not_averaged():
    """The same settings for other numbers of steps, and with another environment's parameters."""
    short, long = made(agents=("qrc",), steps=500), made(agents=("qrc",), steps=1000)
    long.runs["exploration_steps"] = short.runs["exploration_steps"]
    other = made(agents=("qrc",), steps=1000)
    other.runs["exploration_steps"] = short.runs["exploration_steps"]
    other.runs["config_hash"] = "abcdef1234567890"
    other.runs["run"] = other.runs["run"] + "-other"
    runs = pd.concat([short.runs, long.runs, other.runs], ignore_index=True)
    configs = dict.fromkeys(runs["run"], next(iter(long.configs.values())))
    data = report_data(runs, short.episodes, configs)
    labels = [each["label"] for each in data["algorithms"]]
    assert len(labels) == 3
    assert "QRC(λ), steps 500" in labels
    assert "QRC(λ), steps 1000, configuration abcdef" in labels
    assert data["differing"] == ["steps"]
    assert all(row["seeds"] == 3 for row in data["statistics"])


def test_what_differs_is_in_the_page_whatever_it_is():
    """Also flags and whole numbers, in their order."""
    changes = [{"importance_sampling": flag} for flag in (True, False)]
    those = made(agents=("gradient-ppo",), changes=changes, seeds=2)
    those.runs["max_episode_steps"] = pd.array([70, 50] * 2, dtype="Int64")
    those.runs["env_params.gravity"] = [np.nan, 5.0] * 2
    those.runs["config_hash"] += those.runs["max_episode_steps"].astype(str)
    data = embedded(page_of(those))
    assert data["differing"] == ["importance_sampling", "env_params.gravity", "max_episode_steps"]
    assert [tuple(each["settings"].values()) for each in data["algorithms"]] == [
        (False, 5.0, 50), (False, 70), (True, 5.0, 50), (True, 70),
    ]  # fmt: skip


def test_with_many_algorithms_the_best_of_each_agent_is_shown():
    those = made(changes=[{"lam": x / 10} for x in range(1, 8)], seeds=1)
    best = those.runs["lam"].isin([0.3]) & (those.runs["agent"] == "qrc")
    those.runs.loc[best, "return_area"] = 100.0
    best = those.runs["lam"].isin([0.6]) & (those.runs["agent"] == "q-lambda")
    those.runs.loc[best, "return_area"] = 100.0
    data = data_of(those)
    shown = [data["algorithms"][place]["label"] for place in data["shown"]]
    assert shown == ["QRC(λ), lam 0.3", "Q(λ), lam 0.6"]
    assert len(data_of(made())["shown"]) == 2


def test_sessions_that_are_alike_are_one():
    those = made()
    later = SESSION | {"started": "2026-02-03T00:00:00+00:00"}
    elsewhere = SESSION | {"machine": "another"}
    first, second, *_ = those.configs
    those.configs[first]["sessions"] = [SESSION, later]
    those.configs[second]["sessions"] = [elsewhere]
    sessions = data_of(those)["sessions"]
    assert [(each["machine"], each["runs"]) for each in sessions] == [
        ("Linux-6", 5),
        ("another", 1),
    ]
    assert (sessions[0]["first"], sessions[0]["last"]) == (SESSION["started"], later["started"])


STEPS = 30_720


@pytest.mark.parametrize(
    ("agent", "change"),
    [
        ("qrc", {}),
        ("qrc", {"h_scale": 0.1, "trace_cut": "watkins"}),
        ("qrc", {"exploration_steps": 0.3 * STEPS}),
        ("qrc", {"exploration_steps": STEPS / 3}),
        ("stream-q", {"kappa": 3.5, "exploration_steps": 0.07 * STEPS}),
        ("ppo", {"rollout": 1024, "clip": 0.1}),
        ("gradient-ppo", {"importance_sampling": True, "rule": "tdc"}),
    ],
)
def test_commands_train_the_same_configuration(agent, change):
    those = made(agents=(agent,), steps=STEPS, changes=[change], seeds=1)
    configuration = next(iter(those.configs.values()))["configuration"]
    found = commands(configuration, [7, 3, 4])
    parsed = [cli_train.parse(shlex.split(command)[2:]) for command in found]
    assert [(each.seed, each.seeds) for each in parsed] == [(3, 2), (7, 1)]
    for each in parsed:
        assert (each.agent, each.env, each.steps) == (agent, "MinAtar/Breakout-v1", STEPS)
        settings = dict(vars(each.settings))
        if "exploration_steps" in settings:
            settings["exploration_steps"] = each.exploration_fraction * STEPS
        assert settings == configuration["settings"]


def test_what_has_no_command():
    configuration = next(iter(made().configs.values()))["configuration"]
    for change in ({"agent": None}, {"env": None}, {"env_params": {"gravity": 5.0}}):
        assert commands(configuration | change, [0]) == []
    settings = configuration["settings"] | {"exploration_steps": 4.0 * configuration["steps"]}
    assert commands(configuration | {"settings": settings}, [0]) == []
    with_info = commands(configuration | {"info": ["speed", "force"]}, [0])[0]
    assert cli_train.parse(shlex.split(with_info)[2:]).info == ("speed", "force")
    with_limit = commands(configuration | {"max_episode_steps": 70}, [0])[0]
    assert cli_train.parse(shlex.split(with_limit)[2:]).max_episode_steps == 70


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"'&amp;`${hacked}\u2028",
]


def hostile() -> Made:
    """Every string of a run is an attack."""
    those = made(agents=("qrc",), envs=HOSTILE[:2], changes=[{"optimizer": t} for t in HOSTILE])
    for config in those.configs.values():
        config["configuration"]["settings"]["optimizer"] += HOSTILE[0]
        config["sessions"] = [
            SESSION | {"machine": HOSTILE[0], "versions": {HOSTILE[1]: HOSTILE[2]}}
        ]
    those.runs["title"] = HOSTILE[0]
    renamed = {run: f"{run}{HOSTILE[0]}" for run in those.runs["run"]}
    those.runs["run"] = those.runs["run"].map(renamed)
    those.episodes["run"] = those.episodes["run"].map(renamed)
    those.configs = {renamed[run]: config for run, config in those.configs.items()}
    return those


def test_strings_are_data_and_never_markup():
    page, harmless = page_of(hostile(), HOSTILE[2]), page_of(made())
    for tag in ("<script", "</script", "<img", "<!--"):
        assert page.count(tag) == harmless.count(tag), tag
    data = embedded(page)
    assert data["environments"] == HOSTILE[:2]
    assert [each["label"] for each in data["algorithms"]] == sorted(
        f"{HOSTILE[0]}, optimizer {text}" for text in HOSTILE
    )
    assert data["sessions"][0]["versions"] == {HOSTILE[1]: HOSTILE[2]}


def test_the_page_asks_nobody_for_anything():
    page = page_of(made())
    addresses = set(re.findall(r"https?://[^\"'\s]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"\bsrc=|@import|url\(|fetch\(|XMLHttpRequest|import\(", page)
    assert "default-src 'none'" in page


def test_runs_without_an_episode():
    those = made(return_last=np.nan, return_all=np.nan, return_area=np.nan)
    those.episodes = those.episodes.iloc[:0]
    data = embedded(page_of(those))
    assert data["statistics"][0]["last"] == {"mean": None, "error": None}
    assert set(data["curves"][0]["mean"]) == {None}
    assert data["curves"][0]["without_episode"] == 3
    assert data["aggregate"] == []


def test_a_report_of_trained_runs(tmp_path, quickest_compilation, capsys):
    out = tmp_path / "store" / "runs" / "a"
    train(tiny.agent(), tiny.ENV, steps=200, chunk=200, seeds=[0, 1, 5], out=out)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["report", str(tmp_path / "store"), "-o", str(tmp_path / "page.html")])
    assert leaving.value.code == 0
    assert str(tmp_path / "page.html") in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    data = embedded(page)
    assert "<h1>store</h1>" in page
    assert [run["seed"] for run in data["runs"]] == [0, 1, 5]
    assert len(data["curves"]) == 1
    assert data["curves"][0]["mean"][-1] is not None
    assert data["sessions"][0]["versions"]["python"] == sys.version.split()[0]
    assert [each["commands"] for each in data["configurations"]] == [[]]


def test_refusals(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    plan = next(iter(made().configs.values()))["configuration"] | {"seeds": [0]}
    (tmp_path / "begun" / "config.json").write_text(json.dumps({"plan": plan, "sessions": []}))
    for where, out, message in (
        (tmp_path / "empty", tmp_path / "a.html", "holds no runs"),
        (tmp_path / "absent", tmp_path / "a.html", "there is no folder"),
        (tmp_path / "begun", tmp_path / "a.html", "holds no metrics yet"),
        (tmp_path, tmp_path / "no" / "a.html", "there is no folder .* to write a.html"),
    ):
        with pytest.raises((ValueError, OSError), match=message):
            write_report(where, out)
        with pytest.raises(SystemExit) as leaving:
            cli.main(["report", str(where), "-o", str(out)])
        assert leaving.value.code == 2
        assert "eligrad report:" in capsys.readouterr().err
    assert {each.name for each in tmp_path.iterdir()} == {"empty", "begun"}


@pytest.fixture
def good_and_bad(tmp_path):
    """Two runs; the test spoils the second."""
    for name in ("good", "bad"):
        folder = RunFolder(write_run(tmp_path / name))
        plan = folder.config["plan"]
        if name == "bad":
            plan["settings"]["lam"] = 0.7
        folder.write_config({"plan": plan, "sessions": [SESSION]})
    return tmp_path


def reported(store: Path) -> set[str]:
    """The runs on the page, without seeds; a run that is not there is named in a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        page = write_report(store, store / "report.html").read_text(encoding="utf-8")
    found = {run["run"].partition("#")[0] for run in embedded(page)["runs"]}
    assert all(each.category is DamagedFileWarning for each in caught)
    told = " ".join(str(each.message) for each in caught)
    assert all(name in found or f"/{name}" in told for name in ("good", "bad"))
    return found


@pytest.mark.parametrize(
    ("file", "place", "value"),
    [
        ("config.json", ("plan", "settings", "lam"), math.nan),
        ("config.json", ("plan", "env"), "half \ud800 a pair"),
        ("config.json", ("plan", "steps"), 0),
        ("config.json", ("plan", "settings", "lam"), {"a": 1}),
        ("config.json", ("sessions", 0, "started"), 2026),
        ("config.json", ("sessions", 0, "versions"), ["jax"]),
        ("config.json", ("sessions",), {"started": ""}),
        ("summary.json", ("seeds", 0, "return_last"), "much"),
        ("summary.json", ("seeds", 1, "return_area"), math.inf),
        ("summary.json", ("seeds",), []),
        ("summary.json", ("steps",), True),
    ],
)
def test_a_bad_run_is_left_out_by_name(good_and_bad, file, place, value):
    content = read_json(good_and_bad / "bad" / file)
    *way, last = place
    functools.reduce(operator.getitem, way, content)[last] = value
    (good_and_bad / "bad" / file).write_text(json.dumps(content))
    assert reported(good_and_bad) == {"good"}


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_whatever_one_run_says_the_others_are_reported(good_and_bad, name):
    """Any value in the place of any other, in a file without a seal."""
    path = good_and_bad / "bad" / name
    right = read_json(path)
    places = [place for place, _ in leaves(right)]
    anything = st.sampled_from(
        [math.nan, -math.inf, "\ud800", None, [], {}, -1, 0, True, 2**70, 1e308, "x", [1, 2], [[]]]
    )

    @settings(max_examples=15, deadline=None)
    @given(place=st.sampled_from(places), value=anything)
    def check(place, value):
        content = copy.deepcopy(right)
        functools.reduce(operator.getitem, place[:-1], content)[place[-1]] = value
        path.write_text(json.dumps(content))
        assert "good" in reported(good_and_bad)

    check()


def leaves(content, place=()):
    """All places in nested lists and dictionaries, those of whole ones too."""
    if place:
        yield place, content
    keys = (
        content
        if isinstance(content, dict)
        else range(len(content))
        if isinstance(content, list)
        else ()
    )
    for key in keys:
        yield from leaves(content[key], (*place, key))


def test_a_return_beyond_all_squares_is_reported(good_and_bad):
    path = good_and_bad / "bad" / "summary.json"
    content = read_json(path)
    content["seeds"][0]["return_last"] = 1e308
    path.write_text(json.dumps(content))
    assert reported(good_and_bad) == {"good", "bad"}


def test_a_run_with_damaged_metrics_is_left_out_by_name(good_and_bad):
    """It has a summary, but no curve can be drawn: it is not shown as one without episodes."""
    part = next((good_and_bad / "bad" / "metrics" / "episodes").iterdir())
    part.write_bytes(part.read_bytes()[:-9])
    assert reported(good_and_bad) == {"good"}


def test_the_wheel_has_what_the_page_is_made_of(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = "eligrad/analysis/report"
    shipped = {Path(name).name for name in names if name.startswith(folder)}
    assert {path.name for path in (ROOT / folder).iterdir() if path.is_file()} == shipped
    assert {"page.html", "page.css", "page.js"} <= shipped
