"""A disk that finds no node: somebody who has one and needs no disk gets it, or goes and makes
room.
"""

from __future__ import annotations

import pytest
from storage_yard import RVR

GENERATIONS = ["conditions", "effectiveLayout", "ready"]


def attached(yard, node):
    return lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready")


def settled(yard, kinds, volume="v"):
    """As many as there should be, each on a node, and each well."""
    return lambda: (
        yard.is_whole(volume)
        and yard.kinds(volume) == kinds
        and len(yard.replicas(volume)) == len({*yard.nodes(volume)} - {""})
        and all(
            yard.said(RVR, one["metadata"]["name"])["IOReady"][0] == "True"
            for one in yard.replicas(volume)
        )
    )


def last_node(yard):
    (node,) = [node for node in yard.node_names if node not in yard.nodes(type_="Diskful")]
    return node


def test_access_replica_in_use_gets_the_disk(yard_of):
    """The data comes to it while it is Primary; then who was to leave may."""
    yard = yard_of(nodes=4)
    yard.ready_volume()
    node = last_node(yard)
    yard.attach(node)
    yard.until(attached(yard, node))
    yard.delete(RVR, "v-0")
    yard.until(settled(yard, "3D"))
    assert node in yard.nodes(type_="Diskful")
    yard.until(attached(yard, node), timeout=5)


def test_tie_breaker_gets_the_disk_and_is_replaced(yard_of):
    yard = yard_of(nodes=3)
    yard.ready_volume(storage_class="availability")
    node = last_node(yard)
    yard.delete(RVR, "v-0")
    yard.until(settled(yard, "2D1T"))
    assert node in yard.nodes(type_="Diskful")


def test_unused_access_replica_makes_room(yard_of):
    yard = yard_of(nodes=4)
    yard.ready_volume()
    node = last_node(yard)
    yard.attach(node)
    yard.until(attached(yard, node))
    yard.detach(node)
    yard.delete(RVR, "v-0")
    yard.until(settled(yard, "3D"))
    assert node in yard.nodes(type_="Diskful")


def test_deleted_tie_breaker_makes_room(yard_of):
    yard = yard_of(nodes=3)
    yard.ready_volume(storage_class="availability")
    (tie,) = yard.replicas(type_="TieBreaker")
    yard.delete(RVR, tie["metadata"]["name"])
    yard.delete(RVR, "v-0")
    yard.until(settled(yard, "2D1T"))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_disk_is_placed_on_the_only_node_left(yard_of, generation):
    """Two of four machines are out when a volume is made, and it is to be attached to one of
    those.
    """
    yard = yard_of(generation, nodes=4)
    for node in ("node-3", "node-4"):
        yard.site.machines.power_off(node)
    yard.advance(60)
    yard.volume()
    yard.attach("node-3")
    yard.advance(20)
    yard.site.machines.power_on("node-3")
    yard.until(
        lambda: sorted(yard.nodes(type_="Diskful")) == ["node-1", "node-2", "node-3"], timeout=120
    )
    yard.until(attached(yard, "node-3"))
    assert len(yard.replicas()) == 3


def test_disk_beyond_the_class_requirement_waits(yard_of):
    yard = yard_of(nodes=4)
    yard.ready_volume()
    node = last_node(yard)
    yard.attach(node)
    yard.until(attached(yard, node))
    yard.replica(9, type_="Diskful")
    yard.advance(20)
    assert yard.nodes(type_="Access") == [node]
    assert "nodeName" not in yard.get(RVR, "v-9")["spec"]
    assert yard.is_whole()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_replica_getting_a_disk_has_no_data_until_resynced(yard_of, generation):
    yard = yard_of(generation, nodes=3)
    yard.ready_volume(
        storage_class="availability"
    ) if generation != "effectiveLayout" else yard.volume(storage_class="availability")
    yard.advance(20)
    system = yard.system
    (tie,) = yard.replicas(type_="TieBreaker")
    name = tie["metadata"]["name"]

    def has_begun(type_):
        obj = system.replicas.get(name)
        return system.generation.read(
            {**obj, "spec": {**obj["spec"], "type": type_}}, system.volumes.get("v")
        ).initialized

    assert has_begun("TieBreaker")
    assert not has_begun("Diskful")
