"""Specs: what they expand to, and that a typo is refused before anything runs, by name."""

from __future__ import annotations

import math
import tomllib

import pytest

from eligrad._base.errors import UnknownName, messages_of
from eligrad.sweeps.resolve import resolve
from eligrad.sweeps.spec import Draws, Spec, SpecError, Sweep, parse, read_spec

PLAIN = """
steps = 1e3
seeds = 2
agents = ["qrc"]
envs = ["Probe/Trace-v0"]
"""


def runs_of(text: str):
    return resolve(parse(tomllib.loads(PLAIN + text)))


def test_grid_list_and_draws_meet_each_other():
    runs = runs_of("""
[fixed]
gamma = 0.9
[grid]
lam = [0.5, 0.9]
step_size = [1e-3, 1e-4, 1e-5]
[[list]]
rule = "tdc"
beta = 0
[[list]]
rule = "tdrc"
[random]
samples = 4
[random.draw]
h_scale = { log_uniform = [0.01, 1.0] }
""")
    assert len(runs) == 2 * 3 * 2 * 4 * 2
    assert len({run.name for run in runs}) == len(runs)
    settings = [run.configuration.settings for run in runs]
    assert {(s["lam"], s["step_size"], s["rule"], s["beta"]) for s in settings} == {
        (lam, size, *rule)
        for lam in (0.5, 0.9)
        for size in (1e-3, 1e-4, 1e-5)
        for rule in (("tdc", 0.0), ("tdrc", 1.0))
    }
    assert {s["gamma"] for s in settings} == {0.9}
    assert all(0.01 <= s["h_scale"] <= 1.0 for s in settings)
    assert {s["exploration_steps"] for s in settings} == {200.0}  # a fifth of the steps


def test_draws_are_the_same_everywhere_and_follow_their_distribution():
    draws = Draws({"step_size": {"log_uniform": [1e-6, 1e-2]}, "lam": {"uniform": [0, 1]}}, 4000)
    drawn = draws.combinations()
    # Written down once: another Python, machine or field must give the same ones.
    alone = Draws({"lam": {"uniform": [0, 1]}}, 1).combinations()
    assert alone[0]["lam"] == drawn[0]["lam"] == 0.01854960109069148
    logs = sorted(math.log10(each["step_size"]) for each in drawn)
    for share in (0.1, 0.5, 0.9):
        assert abs(logs[int(share * 4000)] - (-6 + 4 * share)) < 0.15
    assert Draws({"lam": {"uniform": [0, 1]}}, 3, seed=1).combinations() != draws.combinations()[:3]
    picked = Draws({"rule": {"choice": ["tdc", "td"]}}, 100).combinations()
    assert {each["rule"] for each in picked} == {"tdc", "td"}


def test_parts_share_what_is_above_them_and_no_run_is_there_twice():
    runs = runs_of("""
[fixed]
gamma = 0.9
[[part]]
agents = ["qrc", "qc"]
fixed = { lam = 0.5 }
[[part]]
agents = ["stream-q", "qrc"]
seeds = [1, 7]
fixed = { lam = 0.5 }
""")
    found = {(run.configuration.agent, run.seed) for run in runs}
    assert len(runs) == len(found)
    assert found == {
        ("qrc", 0), ("qrc", 1), ("qrc", 7), ("qc", 0), ("qc", 1), ("stream-q", 1), ("stream-q", 7),
    }  # fmt: skip
    assert {(r.configuration.settings["gamma"], r.configuration.settings["lam"]) for r in runs} == {
        (0.9, 0.5)
    }


def test_fields_of_the_run_and_of_the_environment_can_be_swept():
    runs = runs_of("""
[grid]
exploration_fraction = [0.1, 0.5]
max_episode_steps = [10, 20]
""")
    found = {
        (r.configuration.settings["exploration_steps"], r.configuration.max_episode_steps)
        for r in runs
    }
    assert found == {(100.0, 10), (100.0, 20), (500.0, 10), (500.0, 20)}
    runs = resolve(
        parse(
            tomllib.loads("""
steps = 10
agents = ["qrc"]
envs = ["MinAtar/Breakout-v1"]
[grid.env_params]
sticky_probability = [0.0, 0.25]
ramping = [true, false]
""")
        )
    )
    found = {tuple(r.configuration.env_params.items()) for r in runs}
    assert found == {
        (("sticky_probability", sticky), ("ramping", ramping))
        for sticky in (0.0, 0.25)
        for ramping in (True, False)
    }


def test_python_specs(tmp_path):
    path = tmp_path / "spec.py"
    path.write_text(
        "from eligrad.sweeps import Sweep\n"
        "sweep = Sweep(agents=['qrc'], envs=['Probe/Trace-v0'], steps=100, grid={'lam': [0, 1]})\n"
    )
    spec = read_spec(path)
    assert len(resolve(spec)) == 10
    assert (spec.name, spec.setup) == ("spec", path.resolve())
    assert resolve(
        Spec([Sweep(["qrc"], ["Probe/Trace-v0"], 100, grid={"lam": [0, 1]})])
    ) == resolve(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid]\nlamm = [0.5]", "unknown setting of qrc 'lamm'; did you mean 'lam'"),
        ("[grids]\nlam = [0.5]", "unknown field of a sweep 'grids'; did you mean 'grid'"),
        ("[grid]\nlam = []", "grid.lam is empty"),
        ("[grid]\nlam = 0.5", "grid.lam is 0.5; a list is accepted"),
        ("[grid]\nlam = [0.5, 0.5]", "grid.lam has 0.5 twice"),
        ("[grid]\nlam = ['high']", "lam is 'high'; a number is accepted"),
        ("[grid]\nlam = [true]", "lam is True; a number is accepted"),
        ("[grid]\nlam = [1.5]", "lam is 1.5; values in"),
        ("[fixed]\nrule = 3", "rule is 3; a name is accepted"),
        ("[fixed]\nrule = 'tdcr'", "tdcr"),
        ("[grid]\nlam = [0.5]\n[fixed]\nlam = 0.5", "lam is in fixed and in grid"),
        ("[random]\nsamples = 0\ndraw = {lam = {uniform = [0, 1]}}", "random.samples is 0"),
        ("[random]\nsample = 1\ndraw = {}", "did you mean 'samples'"),
        ("[random]\nsamples = 1\ndraw = {}", "random.draw is empty"),
        ("[random]\nsamples = 1\ndraw = {lam = {uniforn = [0, 1]}}", "did you mean 'uniform'"),
        ("[random]\nsamples = 1\ndraw = {lam = {uniform = [1, 0]}}", r"\[low, high\] is accepted"),
        ("[random]\nsamples = 1\ndraw = {lam = {log_uniform = [0, 1]}}", "numbers above 0"),
        ("[[part]]\nenvs = ['Probe/Trase-v0']", "did you mean 'Probe/Trace-v0'"),
        ("[[part]]\nenvs = ['Probe/Continuous-v0']", "continuous actions"),
        ("[[part]]\nenvs = []", "envs is empty"),
        ("[[part]]\nenvs = 'Probe/Trace-v0'", "a list is accepted"),
        ("[[part]]\nagents = ['qrcc']", "unknown agent 'qrcc'; did you mean 'qrc'"),
        ("[[part]]\nseeds = 0", "seeds is 0"),
        ("[[part]]\nseeds = [1, 1]", "seeds is"),
        ("[[part]]\nseeds = 'five'", "seeds is 'five'"),
        ("[[part]]\nsteps = 0.5", "steps is 0.5; a whole number"),
        ("[fixed]\nexploration_fraction = 2", "exploration_fraction is 2"),
        ("[fixed.env_params]\nspeed = 2", "unknown parameter of"),
        ("info = 'speed'", "info is 'speed'; a list is accepted"),
        ("info = [3]", r"info is \[3\]; a list of names is accepted"),
        ("info = ['speed']", "'Probe/Trace-v0' is a JAX environment, whose steps have no info"),
        ("[fixed]\ninfo = ['speed']", "info is no setting: write it above the tables"),
        ("[[list]]", "tables of settings are accepted"),
        ("[stage_two]\nseed = 3", "unknown field of stage_two 'seed'; did you mean 'seeds'"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, message):
    with pytest.raises((SpecError, UnknownName, ValueError), match=message):
        runs_of(text)


def test_files_that_are_no_specs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.toml"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match=r"\.toml and \.py are accepted"):
        read_spec(tmp_path / "none.yaml")
    (tmp_path / "bad.toml").write_text("steps = \n")
    with pytest.raises(SpecError, match=r"bad\.toml is no TOML"):
        read_spec(tmp_path / "bad.toml")
    (tmp_path / "other.py").write_text("swep = 1\n")
    with pytest.raises(SpecError, match="defines sweep as None"):
        read_spec(tmp_path / "other.py")
    with pytest.raises(SpecError, match="envs is missing"):
        resolve(parse({"steps": 1, "agents": ["qrc"]}))


def test_all_mistakes_are_reported_at_once():
    """Those in fields, in names and in values, each once, however many runs have it."""
    text = """
sedes = 4
steps = "1e3"
agents = ["qrcc", "qrc"]
envs = ["Probe/Trase-v0", "Probe/Trace-v0", "Probe/Reward-v0"]
[fixed]
rule = "tdx"
gamma = 7
[grid]
lamm = [0.5]
lam = [0.5, 1.5]
step_size = [0.1, -1]
"""
    with pytest.raises(ValueError, match="9 mistakes") as error:
        resolve(parse(tomllib.loads(text)))
    beginnings = [
        "unknown field of a sweep 'sedes'; did you mean 'seeds'",
        "steps is '1e3'; a number is accepted",
        "unknown environment 'Probe/Trase-v0'; did you mean 'Probe/Trace-v0'",
        "unknown agent 'qrcc'; did you mean 'qrc'",
        "unknown setting of qrc 'lamm'; did you mean 'lam'",
        "gamma is 7; values in [0, 1] are accepted",
        "rule is 'tdx'; one of td, gtd2, tdc, tdrc is accepted",
        "step_size is -1; values in",
        "lam is 1.5; values in",
    ]
    for message, beginning in zip(messages_of(error.value), beginnings, strict=True):
        assert message.startswith(beginning)


DEEP = 20_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", f"[fixed]\nlam = {'[' * DEEP}{']' * DEEP}", "nested too deeply"),
        ("", f"[fixed{'.a' * DEEP}]\nlam = 1", "nested too deeply"),
        ("", f"[fixed]\na = {'{a=' * DEEP}1{'}' * DEEP}", "nested too deeply"),
        ("seeds = 2", "seeds = 1000000000", "seeds is 1000000000; a number of seeds"),
        ("seeds = 2", f"seeds = [{2**70}]", "from 0 to 2³¹ - 1"),
        ("seeds = 2", f"seeds = {'9' * 5000}", "is no TOML: Exceeds the limit"),
        ("steps = 400", "steps = nan", "steps is nan"),
        ("steps = 400", "steps = 1e300", r"steps is 1e\+300"),
        ("steps = 400", "steps = true", "steps is True; a number is accepted"),
        ("steps = 400", "steps = 1979-05-27", "steps is datetime.date"),
        ("", f"[grid]\nlam = {list(range(60_000))}", "the sweep has 120000 runs; up to 100,000"),
        (
            "",
            "[grid]\n"
            + "".join(f"{name} = {list(range(400))}\n" for name in ("lam", "beta", "gamma")),
            r"the sweep has 1.28e\+08 runs",
        ),
        ("", "[random]\nsamples = 1000000000000\ndraw.lam = {uniform = [0, 1]}", "2e.12 runs"),
        ("", "[random]\nsamples = true\ndraw.lam = {uniform = [0, 1]}", "random.samples is True"),
        ("", "[random]\nsamples = 1\nseed = {}\ndraw.lam = {uniform = [0, 1]}", "random.seed is"),
        ("", "[random]\nsamples = 1\ndraw.env_params = 3", "env_params is 3; a table is accepted"),
        ("", "[random]\nsamples = 1\ndraw.lam = {uniform = [0, inf]}", "lam is inf"),
        ("", "[fixed]\nlam = 1979-05-27", "lam is datetime.date"),
        ("", f"[fixed]\nlam = {'9' * 400}", "lam is 9"),
        ("", "[grid]\nlam = [{a = 1}, {a = 1}]", "twice"),
        ("", "list = 3", "list is 3; a list of tables is accepted"),
        ("", "[list]\nlam = 1", "a list of tables is accepted"),
        ("", "part = []", "part is empty"),
        ("", "name = 3", "name is 3; a text is accepted"),
        ("OffPolicy-v0", "\\u001b[2J", r"unknown environment 'Probe/\\x1b\[2J'"),
        ("Probe/OffPolicy-v0", ":X-v0", "'' is no name of a module"),
        ("Probe/OffPolicy-v0", "../x:X-v0", r"'\.\./x' is no name of a module"),
        ("Probe/OffPolicy-v0", "\udcff", "is no TOML: 'utf-8' codec"),
    ],
)
def test_hostile_files(tmp_path, old, new, message):
    """Whatever a file holds: refused in a moment, with a reason, and without a traceback."""
    whole = 'steps = 400\nseeds = 2\nagents = ["qrc"]\nenvs = ["Probe/OffPolicy-v0"]\n'
    text = whole.replace(old, new) if old else whole + new
    (tmp_path / "spec.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    # What commands print without a traceback.
    with pytest.raises((ValueError, TypeError), match=message):
        resolve(read_spec(tmp_path / "spec.toml"))


def test_a_file_of_absurd_size_is_not_read(tmp_path):
    with (tmp_path / "spec.toml").open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(SpecError, match="has 10,737,418,240 bytes"):
        read_spec(tmp_path / "spec.toml")
