from __future__ import annotations

import pytest
from intime import in_time

from pytest_kscen.clusters import open_cluster
from pytest_kscen.clusters.conformance import InProcessTransport
from pytest_kscen.clusters.embedded import EmbeddedCluster

LONGEST = (
    300.0  # seconds for one test, or for what is made ready for it; a module may ask for another
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with in_time(getattr(item.module, "LONGEST", LONGEST)):
        return (yield)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


@pytest.fixture(scope="module")
def embedded():
    cluster = EmbeddedCluster("conformance", nodes=0)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def transport(embedded):
    return InProcessTransport(embedded)


@pytest.fixture(scope="session")
def real():
    """The real control plane, with no machines of ours."""
    cluster = open_cluster("controlplane", seed="conformance", nodes=0)
    yield cluster
    cluster.close()
