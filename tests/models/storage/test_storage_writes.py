"""What a volume costs: so many writes from its creation to its end, and none while nothing
happens.
"""

from __future__ import annotations

import pytest
from storage_yard import RV, RVA, RVR

from pytest_kscen.objects.errors import ServiceUnavailable
from pytest_kscen.objects.storage import GROUP, HEALTH_SOURCES


@pytest.fixture
def writes(monkeypatch, yard_of):
    """Of the storage and of the test, to the storage's objects."""
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
def test_volume_lifecycle_needs_few_writes(yard_of, writes, generation):
    yard = yard_of(generation)
    counted = writes(yard.cluster)
    yard.volume()
    yard.until(lambda: HEALTH_SOURCES[generation].is_ready(yard.get(RV, "v")))
    yard.advance(30)
    node = yard.nodes()[0]
    yard.attach(node)
    yard.advance(30)
    assert yard.of_attachment(node)["Ready"] == ("True", "Ready")
    yard.detach(node)
    yard.advance(30)
    assert yard.get(RVA, f"rva-v-{node}") is None
    yard.delete(RV, "v")
    yard.until(lambda: yard.get(RV, "v") is None)
    assert 30 < len(counted) <= 48, counted


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_first_disk_on_the_attached_node_creates_no_unneeded_replica(yard_of, writes, generation):
    yard = yard_of(generation)
    counted = writes(yard.cluster)
    yard.volume(storage_class="availability")
    yard.attach("node-2")
    yard.until(lambda: yard.of_attachment("node-2").get("Ready") == ("True", "Ready"))
    assert yard.kinds() == "2D1T"
    assert [kind for verb, kind in counted if verb == "create"].count(
        "ReplicatedVolumeReplica"
    ) == 3


def test_idle_storage_writes_nothing(yard, writes):
    yard.ready_volume()
    yard.attach(yard.nodes()[0])
    yard.advance(90)  # what a node knows of its peers is told with the next news, within a minute
    counted = writes(yard.cluster)
    yard.advance(3600)
    assert counted == []


@pytest.mark.parametrize("down", [0.5, 1.5, 3, 5])
def test_refused_leader_action_is_done_later(yard, monkeypatch, down):
    """Beside it there may be something that waits to be told, which is no reason to look no
    more.
    """
    node = yard.ready_volume()[0]["spec"]["nodeName"]
    until, write = yard.now + down, yard.cluster.server.handle

    async def handle(request):
        if (request.verb, request.resource, request.subresource) == (
            "update",
            RVR,
            "status",
        ) and yard.now < until:
            raise ServiceUnavailable("not now")
        return await write(request)

    monkeypatch.setattr(yard.cluster.server, "handle", handle)
    yard.attach(node)
    yard.advance(20)
    assert yard.of_attachment(node)["Ready"] == ("True", "Ready")
