from __future__ import annotations

import pytest

from tests import contract


@pytest.fixture(autouse=True, scope="package")
def own_agents():
    with contract.registered():
        yield
