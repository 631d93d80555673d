"""Benchmarks write their numbers to one file, with the machine and its versions."""

from __future__ import annotations

import functools
import importlib.metadata

from benchmarks.record import record as write
from eligrad._base.files import read_json


def test_a_number_replaces_the_earlier_one_of_its_name(tmp_path, capsys):
    path = tmp_path / "measured.json"
    record = functools.partial(write, file=path)
    record("step", "ours", 3.0, "µs", ratio=1.5, to="floor")
    record("step", "floor", 2.0, "µs")
    record("step", "ours", 5.0, "µs", ratio=2.5, to="floor")
    record("other", "ours", 7.0, "steps/s")
    rows = {(row["benchmark"], row["name"]): row for row in read_json(path)}
    assert len(rows) == len(read_json(path)) == 3
    assert rows["step", "ours"]["value"] == 5.0
    assert rows["step", "ours"]["ratio"] == 2.5
    assert rows["step", "floor"]["to"] is None
    assert rows["other", "ours"]["unit"] == "steps/s"
    for row in rows.values():
        assert row["versions"]["jax"] == importlib.metadata.version("jax")
        assert row["processor"]
        assert row["cores"] >= 1
    assert "2.50 × floor" in capsys.readouterr().out
