"""The figure of scaling curves is drawn from the numbers in benchmarks/scaling.json."""

from __future__ import annotations

from benchmarks import scaling
from eligrad._base.files import read_json


def test_the_figure_is_drawn_from_the_numbers_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "FIGURE", tmp_path / "scaling.png")
    scaling.draw()
    assert scaling.FIGURE.stat().st_size > 20_000


def test_every_number_says_where_it_was_measured():
    rows = read_json(scaling.DATA)
    scales = (scaling.HIDDEN, scaling.SEEDS, scaling.LENGTHS, scaling.AGENTS)
    assert len(rows) == sum(2 * len(scale) for scale in scales)
    assert all(row["value"] > 0 and row["versions"]["jax"] and row["processor"] for row in rows)
