"""Number of writes per volume life cycle, and none while idle."""

from __future__ import annotations

import pytest
from storage_cluster import RV, RVA, RVR

from pytest_kscen.objects.errors import ServiceUnavailable
from pytest_kscen.objects.storage import GROUP, HEALTH_SOURCES


@pytest.fixture
def writes(monkeypatch, build_storage_cluster):
    """Count writes of the storage and the test to storage objects."""
    counted = []

    def count(cluster):
        write = cluster.server.handle

        async def handle(request):
            if request.resource.group == GROUP and request.verb not in ("get", "list", "watch"):
                counted.append((request.verb, request.resource.kind))
            return await write(request)

        monkeypatch.setattr(cluster.server, "handle", handle)
        return counted

    return count


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_volume_lifecycle_needs_few_writes(build_storage_cluster, writes, generation):
    storage_cluster = build_storage_cluster(generation)
    counted = writes(storage_cluster.cluster)
    storage_cluster.volume()
    storage_cluster.until(lambda: HEALTH_SOURCES[generation].is_ready(storage_cluster.get(RV, "v")))
    storage_cluster.advance(30)
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    storage_cluster.advance(30)
    assert storage_cluster.of_attachment(node)["Ready"] == ("True", "Ready")
    storage_cluster.detach(node)
    storage_cluster.advance(30)
    assert storage_cluster.get(RVA, f"rva-v-{node}") is None
    storage_cluster.delete(RV, "v")
    storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None)
    assert 30 < len(counted) <= 48, counted


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_first_disk_on_the_attached_node_creates_no_unneeded_replica(
    build_storage_cluster, writes, generation
):
    storage_cluster = build_storage_cluster(generation)
    counted = writes(storage_cluster.cluster)
    storage_cluster.volume(storage_class="availability")
    storage_cluster.attach("node-2")
    storage_cluster.until(
        lambda: storage_cluster.of_attachment("node-2").get("Ready") == ("True", "Ready")
    )
    assert storage_cluster.kinds() == "2D1T"
    assert [kind for verb, kind in counted if verb == "create"].count(
        "ReplicatedVolumeReplica"
    ) == 3


def test_idle_storage_writes_nothing(storage_cluster, writes):
    storage_cluster.ready_volume()
    storage_cluster.attach(storage_cluster.nodes()[0])
    storage_cluster.advance(
        90
    )  # what a node knows of its peers is told with the next news, within a minute
    counted = writes(storage_cluster.cluster)
    storage_cluster.advance(3600)
    assert counted == []


@pytest.mark.parametrize("down", [0.5, 1.5, 3, 5])
def test_refused_leader_action_is_done_later(storage_cluster, monkeypatch, down):
    """Another pending notification does not prevent the retry."""
    node = storage_cluster.ready_volume()[0]["spec"]["nodeName"]
    until, write = storage_cluster.now + down, storage_cluster.cluster.server.handle

    async def handle(request):
        if (request.verb, request.resource, request.subresource) == (
            "update",
            RVR,
            "status",
        ) and storage_cluster.now < until:
            raise ServiceUnavailable("not now")
        return await write(request)

    monkeypatch.setattr(storage_cluster.cluster.server, "handle", handle)
    storage_cluster.attach(node)
    storage_cluster.advance(20)
    assert storage_cluster.of_attachment(node)["Ready"] == ("True", "Ready")
