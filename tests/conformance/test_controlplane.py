"""The kit against the real control plane: several cases at once, since most of their time is
spent waiting.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_kscen.clusters.conformance import HttpsTransport, load

CASES = load()
AT_ONCE = 8
# while kinds come and go, the real controllers have no time for anything else: these are last
NEW_KINDS = "definitions."

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def runs(real, request):
    """What came of each case that was chosen."""
    transport = HttpsTransport(real.kubeconfig)
    chosen = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.function is test_the_real_server_conforms
    ]
    found = {}
    for defines in (False, True):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for case in chosen:
                if case.name.startswith(NEW_KINDS) == defines:
                    found[case.name] = pool.submit(case.run, transport, len(found))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_real_server_conforms(case, runs):
    runs[case.name].result()
