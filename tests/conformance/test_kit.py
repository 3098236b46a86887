"""The kit against the embedded API: in this process, and over its own HTTPS port."""

from __future__ import annotations

import itertools

import pytest

from pytest_kscen.clusters.conformance import InProcess, load
from pytest_kscen.clusters.embedded import EmbeddedCluster

CASES = load()
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def road():
    cluster = EmbeddedCluster("conformance", nodes=0)
    yield InProcess(cluster)
    cluster.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_embedded_api_conforms(case, road):
    case.run(road, next(numbers))


def test_the_kit_is_large_enough():
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)
