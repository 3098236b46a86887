"""Conformance kit on the embedded API: in this process and over its HTTPS port."""

from __future__ import annotations

import itertools

import pytest

from pytest_kscen.clusters.conformance import HttpsTransport, load

CASES = load()
namespace_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def https(embedded):
    return HttpsTransport(embedded.kubeconfig, embedded.advance)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_embedded_api_conforms(case, transport):
    case.run(transport, next(namespace_numbers))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_embedded_https_port_conforms(case, https):
    case.run(https, next(namespace_numbers))


def test_kit_has_at_least_300_unique_cases():
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)
