"""A cluster with a storage at work in it."""

import pytest
from storage_yard import Yard

from pytest_kscen.clusters.embedded import EmbeddedCluster


@pytest.fixture
def yard_of():
    opened = []

    def make(generation="conditions", *, nodes=6, seed="storage"):
        cluster = EmbeddedCluster(seed, nodes=nodes)
        opened.append(cluster)
        return Yard(cluster, generation)

    yield make
    for cluster in opened:
        cluster.close()


@pytest.fixture
def yard(yard_of):
    return yard_of()
