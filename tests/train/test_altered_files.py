"""Files that were altered are read as they were, or refused by name; a long version runs at night.

Faults of every kind of file, drawn at random: see `tests/faults/test_fuzz.py` for many more.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.altered import KINDS, Altered, alterations


@pytest.mark.parametrize("kind", KINDS)
def test_altered_files(tmp_path, kind):
    file = Altered(kind, tmp_path)

    @settings(max_examples=40)
    @given(data=st.data())
    def check(data):
        file.check(data.draw(alterations(file.content)))

    check()
    file.check(file.content)
