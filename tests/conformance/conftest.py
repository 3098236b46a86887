from __future__ import annotations

import pytest
from time_limit_alarm import time_limit

from pytest_kscen.clusters import open_cluster
from pytest_kscen.clusters.conformance import InProcessTransport
from pytest_kscen.clusters.embedded import EmbeddedCluster

MAX_SECONDS = 300.0  # for one test or the setup of its fixtures; a module may define another


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with time_limit(getattr(item.module, "MAX_SECONDS", MAX_SECONDS)):
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
def real_cluster():
    """Start the real control plane without simulated nodes."""
    cluster = open_cluster("controlplane", seed="conformance", nodes=0)
    yield cluster
    cluster.close()
