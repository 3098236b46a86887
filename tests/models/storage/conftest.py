"""Fixtures for a cluster with a running storage."""

import pytest
from storage_cluster import StorageCluster

from pytest_kscen.clusters.embedded import EmbeddedCluster


@pytest.fixture
def build_storage_cluster(caplog):
    """Build clusters; afterwards no storage program may have crashed or had a write refused."""
    opened = []

    def make(generation="conditions", *, nodes=6, seed="storage"):
        cluster = EmbeddedCluster(seed, nodes=nodes)
        opened.append(cluster)
        return StorageCluster(cluster, generation)

    yield make
    for cluster in opened:
        cluster.close()
    assert [
        record.getMessage()
        for record in caplog.records
        if "replicated-volume" in record.getMessage()
    ] == []
    assert [
        record.getMessage() for record in caplog.records if "crashed" in record.getMessage()
    ] == []


@pytest.fixture
def storage_cluster(build_storage_cluster):
    return build_storage_cluster()
