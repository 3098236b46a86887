from __future__ import annotations

import pytest

from pytest_kscen.clusters import open_cluster
from pytest_kscen.clusters.conformance import InProcess
from pytest_kscen.clusters.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def embedded():
    cluster = EmbeddedCluster("conformance", nodes=0)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def road(embedded):
    return InProcess(embedded)


@pytest.fixture(scope="session")
def real():
    """The real control plane, with no machines of ours."""
    cluster = open_cluster("controlplane", seed="conformance", nodes=0)
    yield cluster
    cluster.close()
