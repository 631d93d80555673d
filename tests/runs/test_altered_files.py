"""Files that were altered are read as they were, or refused by name; a long version runs at night.

Faults of every kind of file, drawn at random: see `tests/faults/test_fuzz.py` for many more.
"""

from __future__ import annotations

import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eligrad._base.errors import DamagedFileError, DamagedFileWarning
from eligrad._base.files import read_json
from eligrad.analysis import load_runs
from eligrad.runs.plan import plan_in_file
from eligrad.sweeps.store import Store
from tests.runs.altered import JOB, KINDS, Altered, alterations, write_run, write_store


@pytest.mark.parametrize("kind", KINDS)
def test_altered_files(tmp_path, kind):
    file = Altered(kind, tmp_path)

    @settings(max_examples=40)
    @given(data=st.data())
    def check(data):
        file.check(data.draw(alterations(file.content)))

    check()
    file.check(file.content)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_sound_files_that_make_no_sense(tmp_path, name):
    """Written by anyone, with something else in the place of any value or name."""
    run = write_run(tmp_path / "run")
    right = read_json(run / name)

    @settings(max_examples=50)
    @given(data=st.data())
    def check(data):
        content = place = {"all": right}
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            place[key] = copied = dict(place[key]) if isinstance(place[key], dict) else place[key]
            if not copied or not isinstance(copied, dict) or data.draw(st.booleans()):
                break
            place = copied
        place[key] = data.draw(ANYTHING)
        (run / name).write_text(json.dumps(content["all"]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runs = load_runs(run)
        assert len(runs) or [each.category for each in caught] == [DamagedFileWarning]
        if name == "config.json" and isinstance(content["all"], dict):
            try:
                plan_in_file(content["all"].get("plan"), run / name)
            except DamagedFileError as error:
                refusal = str(error)
            else:
                return
            assert name in refusal

    check()


@pytest.mark.parametrize(
    ("name", "old"), [("config.json", "max_episode_steps"), ("summary.json", "diverged_step")]
)
def test_numbers_that_no_table_holds(tmp_path, name, old):
    run = write_run(tmp_path / "run")
    text = json.dumps(read_json(run / name))
    assert f'"{old}": null' in text
    (run / name).write_text(text.replace(f'"{old}": null', f'"{old}": {2**63}'))
    with pytest.warns(DamagedFileWarning, match=f"{old} is 9223372036854775808"):
        assert load_runs(run).empty


def test_links_in_a_circle(tmp_path):
    """Two in each folder would be followed for ever."""
    write_run(tmp_path / "runs" / "one")
    for name in ("a", "b", "c"):
        (tmp_path / "runs" / name).symlink_to(tmp_path / "runs")
    assert list(load_runs(tmp_path / "runs")["run"]) == ["one#0", "one#1"]


@pytest.mark.parametrize(
    "content", ['[{"seed": 3}]', "[3]", '{"a": 1}', "3", "[]", '[{"seed": 1e999}]']
)
def test_jobs_that_make_no_sense(tmp_path, content):
    job = write_store(tmp_path / "store") / "jobs" / JOB.id / "job.json"
    job.write_text(content)
    with pytest.warns(DamagedFileWarning, match=r"job\.json is damaged: .*; the job is left out"):
        assert Store(tmp_path / "store").jobs() == {}
