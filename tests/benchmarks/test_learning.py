"""Studies of learning: what a variant is, and that pieces make the whole."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import learning
from eligrad.agents import PRESETS

ENV, STEPS, SEEDS = "Probe/Trace-v0", 300, range(3, 5)
VARIANTS = ["qrc-output:step_size=0.01", "qrc-output:step_size=0.01,beta=0.3", "stream-q"]
CLOCKS = {"wall_seconds", "steps_per_second_in_sum", "made_with"}

pytestmark = pytest.mark.usefixtures("quickest_compilation")


def test_a_variant_is_a_name_and_changes():
    config = learning.config_of("qrc-output-obgd:beta=0.3,h_scale=0.1", 1000)
    assert (config.regularize, config.optimizer, config.rule) == ("output", "obgd", "tdrc")
    assert (config.beta, config.h_scale, config.step_size) == (0.3, 0.1, 1.0)
    assert config.exploration_steps == 200
    assert learning.config_of("sarsa-lambda:target=expected", 10).target == "expected"
    for name in learning.VARIANTS:
        learning.config_of(name, 10)
    assert PRESETS["qrc"].beta == 1.0


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("qcr", "'qcr' begins with 'qcr'; one of qrc, "),
        ("ppo", "'ppo' begins with 'ppo'"),
        ("qrc:bta=1", "bta.*did you mean 'beta'"),
        ("qrc:beta", "could not convert"),
        ("qrc:beta=much", "could not convert"),
        ("qrc:beta=-1", r"beta is -1\.0"),
        ("qrc:rule=tdcr", "rule is 'tdcr'"),
    ],
)
def test_a_variant_that_makes_no_sense(variant, message):
    with pytest.raises(ValueError, match=message):
        learning.config_of(variant, 10)


def test_variants_that_differ_in_numbers_share_a_program():
    assert learning.programs(VARIANTS, STEPS) == [VARIANTS[:2], VARIANTS[2:]]


def measure(out: Path, variants: list[str] = VARIANTS, minutes: float = float("inf")) -> bool:
    return learning.measure([ENV], variants, {ENV: STEPS}, SEEDS, out, 150, minutes)


def read(out: Path) -> dict[str, dict]:
    results = [json.loads(path.read_text()) for path in out.glob("*.json")]
    return {r["variant"]: {k: v for k, v in r.items() if k not in CLOCKS} for r in results}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    assert measure(out)
    return out


def test_pieces_make_the_whole(whole, tmp_path, monkeypatch):
    """Stopped after a chunk and begun again from the file, all is as in one piece."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    advance = learning.Study._count

    def slow(study, records):
        advance(study, records)
        clock[0] += 60.0

    monkeypatch.setattr(learning.Study, "_count", slow)
    one_program = VARIANTS[:2]
    assert not measure(tmp_path, one_program, minutes=1.0)
    assert {result["steps"] for result in read(tmp_path).values()} == {150}
    assert len(list(tmp_path.glob("*.state.npz"))) == 1
    assert measure(tmp_path, one_program, minutes=1.0)
    assert not list(tmp_path.glob("*.state.npz"))
    assert read(tmp_path) == {variant: read(whole)[variant] for variant in one_program}
    # No time is left for another program.
    assert not measure(tmp_path, minutes=0.0)
    assert set(read(tmp_path)) == set(one_program)


def test_what_the_files_hold(whole):
    results = read(whole)
    assert set(results) == set(VARIANTS)
    one, other, td = (results[name] for name in VARIANTS)
    assert one["final_abs_h_per_seed"] != other["final_abs_h_per_seed"]
    assert (one["first_seed"], one["seeds"], one["steps"]) == (3, 2, STEPS)
    assert one["config"]["regularize"] == "output"
    assert [h > 0 for h in one["final_abs_h_per_seed"]] == [True, True]
    assert td["final_abs_h_per_seed"] == [0.0, 0.0]
    assert all(error > 0 for error in one["final_abs_td_error_per_seed"])
    # The last tenth is the last five points of the grid.
    final = np.array(one["final_per_seed"], float)
    curve = np.array(one["curve_per_seed"], float)[:, -5:]
    assert (
        (np.nanmin(curve, axis=1) <= final + 1e-3) & (final - 1e-3 <= np.nanmax(curve, axis=1))
    ).all()


def test_a_result_that_cannot_go_on_is_left_as_it_is(whole, tmp_path):
    """As when files were brought from another machine without the state."""
    for path in whole.glob("*.json"):
        result = json.loads(path.read_text()) | {"steps": STEPS - 1}
        (tmp_path / path.name).write_text(json.dumps(result))
    before = read(tmp_path)
    assert not measure(tmp_path)
    assert read(tmp_path) == before


@pytest.mark.parametrize(
    ("steps", "seeds", "message"),
    [
        (STEPS, range(4, 6), "first_seed of .* is 3, and 4 is asked for"),
        (STEPS, range(3, 6), "seeds of .* is 2, and 3 is asked for"),
        (STEPS + 1, SEEDS, "steps of .* is 300, and 301 is asked for"),
    ],
)
def test_other_runs_are_not_taken_for_those_asked_for(whole, steps, seeds, message):
    with pytest.raises(ValueError, match=message):
        learning.measure([ENV], VARIANTS, {ENV: steps}, seeds, whole)


def test_other_settings_are_not_either(whole, tmp_path):
    (path,) = whole.glob("*-stream-q.json")
    result = json.loads(path.read_text())
    changed = result | {"config": result["config"] | {"lam": 0.5}}
    (tmp_path / path.name).write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"lam of .* is 0\.5, and 0\.8 is asked for"):
        measure(tmp_path, ["stream-q"])


def test_files_that_are_there_are_skipped(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir()}
    assert measure(whole)
    assert {path: path.stat().st_mtime_ns for path in whole.iterdir()} == before


def test_nothing_but_what_a_bare_machine_has_is_imported():
    """No gymnasium, gymnax or tyro, which a machine with an accelerator may lack."""
    code = (
        "import sys\n"
        "for name in ('gymnasium', 'gymnax', 'tyro', 'scipy.stats'): sys.modules[name] = None\n"
        "from benchmarks import learning, minatar_learning\n"
        "from eligrad.envs import make\n"
        "make('MinAtar/Breakout-v1')\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
