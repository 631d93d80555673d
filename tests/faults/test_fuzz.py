"""Many altered files of every kind, and files that were altered everywhere, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.altered import KINDS, Altered, alterations

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("kind", KINDS)
def test_altered_files(tmp_path, kind):
    file = Altered(kind, tmp_path)

    @settings(max_examples=1000)
    @given(data=st.data())
    def check(data):
        file.check(data.draw(alterations(file.content)))

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_every_single_byte_and_every_length(tmp_path, kind):
    """Up to a thousand places, evenly."""
    file = Altered(kind, tmp_path)
    for place in range(0, len(file.content), 1 + len(file.content) // 1000):
        file.check(file.content[:place])
        altered = bytearray(file.content)
        altered[place] ^= 1 << place % 8
        file.check(bytes(altered))
