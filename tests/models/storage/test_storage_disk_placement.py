"""Disks without a free node: an access replica or tie-breaker converts or makes room."""

from __future__ import annotations

import pytest
from storage_cluster import RVR

GENERATIONS = ["conditions", "effectiveLayout", "ready"]


def attached(storage_cluster, node):
    return lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")


def settled(storage_cluster, kinds, volume="v"):
    """As many as there should be, each on a node, and each well."""
    return lambda: (
        storage_cluster.is_whole(volume)
        and storage_cluster.kinds(volume) == kinds
        and len(storage_cluster.replicas(volume)) == len({*storage_cluster.nodes(volume)} - {""})
        and all(
            storage_cluster.conditions_of(RVR, one["metadata"]["name"])["IOReady"][0] == "True"
            for one in storage_cluster.replicas(volume)
        )
    )


def last_node(storage_cluster):
    (node,) = [
        node
        for node in storage_cluster.node_names
        if node not in storage_cluster.nodes(type_="Diskful")
    ]
    return node


def test_access_replica_in_use_gets_the_disk(build_storage_cluster):
    """The data comes to it while it is Primary; then who was to leave may."""
    storage_cluster = build_storage_cluster(nodes=4)
    storage_cluster.ready_volume()
    node = last_node(storage_cluster)
    storage_cluster.attach(node)
    storage_cluster.until(attached(storage_cluster, node))
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(settled(storage_cluster, "3D"))
    assert node in storage_cluster.nodes(type_="Diskful")
    storage_cluster.until(attached(storage_cluster, node), timeout=5)


def test_tie_breaker_gets_the_disk_and_is_replaced(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=3)
    storage_cluster.ready_volume(storage_class="availability")
    node = last_node(storage_cluster)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(settled(storage_cluster, "2D1T"))
    assert node in storage_cluster.nodes(type_="Diskful")


def test_unused_access_replica_makes_room(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=4)
    storage_cluster.ready_volume()
    node = last_node(storage_cluster)
    storage_cluster.attach(node)
    storage_cluster.until(attached(storage_cluster, node))
    storage_cluster.detach(node)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(settled(storage_cluster, "3D"))
    assert node in storage_cluster.nodes(type_="Diskful")


def test_deleted_tie_breaker_makes_room(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=3)
    storage_cluster.ready_volume(storage_class="availability")
    (tie,) = storage_cluster.replicas(type_="TieBreaker")
    storage_cluster.delete(RVR, tie["metadata"]["name"])
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(settled(storage_cluster, "2D1T"))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_disk_is_placed_on_the_only_node_left(build_storage_cluster, generation):
    """Two of four machines are out when a volume is made, and it is to be attached to one of
    those.
    """
    storage_cluster = build_storage_cluster(generation, nodes=4)
    for node in ("node-3", "node-4"):
        storage_cluster.site.machines.power_off(node)
    storage_cluster.advance(60)
    storage_cluster.volume()
    storage_cluster.attach("node-3")
    storage_cluster.advance(20)
    storage_cluster.site.machines.power_on("node-3")
    storage_cluster.until(
        lambda: sorted(storage_cluster.nodes(type_="Diskful")) == ["node-1", "node-2", "node-3"],
        timeout=120,
    )
    storage_cluster.until(attached(storage_cluster, "node-3"))
    assert len(storage_cluster.replicas()) == 3


def test_disk_beyond_the_class_requirement_waits(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=4)
    storage_cluster.ready_volume()
    node = last_node(storage_cluster)
    storage_cluster.attach(node)
    storage_cluster.until(attached(storage_cluster, node))
    storage_cluster.replica(9, type_="Diskful")
    storage_cluster.advance(20)
    assert storage_cluster.nodes(type_="Access") == [node]
    assert "nodeName" not in storage_cluster.get(RVR, "v-9")["spec"]
    assert storage_cluster.is_whole()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_replica_getting_a_disk_has_no_data_until_resynced(build_storage_cluster, generation):
    storage_cluster = build_storage_cluster(generation, nodes=3)
    storage_cluster.ready_volume(
        storage_class="availability"
    ) if generation != "effectiveLayout" else storage_cluster.volume(storage_class="availability")
    storage_cluster.advance(20)
    system = storage_cluster.system
    (tie,) = storage_cluster.replicas(type_="TieBreaker")
    name = tie["metadata"]["name"]

    def has_begun(type_):
        obj = system.replicas.get(name)
        return system.generation.read(
            {**obj, "spec": {**obj["spec"], "type": type_}}, system.volumes.get("v")
        ).initialized

    assert has_begun("TieBreaker")
    assert not has_begun("Diskful")
