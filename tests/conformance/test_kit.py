"""The kit against the embedded API: in this process, and over its own HTTPS port."""

from __future__ import annotations

import itertools

import pytest

from pytest_kscen.clusters.conformance import HttpsTransport, load

CASES = load()
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def https(embedded):
    return HttpsTransport(embedded.kubeconfig, embedded.advance)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_embedded_api_conforms(case, transport):
    case.run(transport, next(numbers))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_so_does_its_port(case, https):
    case.run(https, next(numbers))


def test_the_kit_is_large_enough():
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)
