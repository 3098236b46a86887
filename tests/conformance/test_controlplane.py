"""Conformance kit on the real control plane. Cases run concurrently, as they mostly wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_kscen.clusters.conformance import HttpsTransport, load

CASES = load()
MAX_CONCURRENT = 8
# These run last: while kinds are added and removed, the real controllers are busy.
DEFINITIONS_PREFIX = "definitions."

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def case_results(real_cluster, request):
    """Run the selected cases and return their futures by name."""
    transport = HttpsTransport(real_cluster.kubeconfig)
    selected_cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.function is test_real_server_conforms
    ]
    found = {}
    for runs_definitions in (False, True):
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for case in selected_cases:
                if case.name.startswith(DEFINITIONS_PREFIX) == runs_definitions:
                    found[case.name] = pool.submit(case.run, transport, len(found))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_server_conforms(case, case_results):
    case_results[case.name].result()
