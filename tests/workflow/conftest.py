"""What the tests of the engine are played on stands beside this, where those below find it."""

from __future__ import annotations

import pytest
from forest import Forest


@pytest.fixture(scope="module")
def forest():
    forest = Forest()
    yield forest
    forest.close()
