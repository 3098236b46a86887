"""Replicas that somebody makes or deletes: kept, placed, removed and replaced as the storage
would.
"""

from __future__ import annotations

import pytest
from storage_yard import RV, RVR

from pytest_kscen.models.storage.generations import GENERATIONS
from pytest_kscen.models.storage.generations.conditions import LAYOUTS
from pytest_kscen.models.storage.volume_view import free_number
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.storage import HEALTH_SOURCES

ERA_A, MAIN = GENERATIONS["conditions"], GENERATIONS["effectiveLayout"]


@pytest.mark.parametrize(
    ("replication", "diskful", "total", "quorum"),
    [
        ("None", 1, 1, (0, 1)),
        ("None", 1, 3, (0, 1)),
        ("Availability", 2, 3, (2, 1)),
        ("Availability", 2, 5, (3, 1)),
        ("ConsistencyAndAvailability", 1, 1, (0, 1)),
        ("ConsistencyAndAvailability", 3, 3, (2, 2)),
        ("ConsistencyAndAvailability", 4, 5, (3, 3)),
    ],
)
def test_quorum_of_era_a(replication, diskful, total, quorum):
    assert ERA_A.quorum(LAYOUTS[replication], diskful, total) == quorum


@pytest.mark.parametrize(
    ("replication", "diskful", "ties", "quorum"),
    [
        ("None", 1, 0, (1, 1)),
        ("Availability", 2, 1, (2, 1)),
        ("Consistency", 2, 0, (2, 2)),
        ("ConsistencyAndAvailability", 3, 0, (2, 2)),
    ],
)
def test_layouts_of_main(replication, diskful, ties, quorum):
    layout = MAIN.layout(
        {"spec": {"replication": replication, "topology": "Ignored"}}, {"spec": {"size": "1Gi"}}
    )
    assert layout.diskful == diskful
    assert MAIN.tie_breakers(layout, diskful, 2) == ties
    assert MAIN.quorum(layout, diskful, diskful + ties) == quorum


@pytest.mark.parametrize(
    ("diskful", "access", "ties"),
    [(1, 0, 0), (2, 0, 1), (3, 0, 0), (1, 1, 1), (2, 1, 0), (3, 2, 0), (3, 1, 1)],
)
def test_tie_breakers_of_era_a_keep_the_total_odd(diskful, access, ties):
    assert ERA_A.tie_breakers(LAYOUTS["None"], diskful, access) == ties


def test_replica_numbers():
    assert [free_number([]), free_number([0, 2]), free_number(range(32))] == [0, 1, None]


@pytest.mark.parametrize("type_", ["Access", "TieBreaker"])
def test_unneeded_replica_is_removed(yard, type_):
    yard.ready_volume()
    yard.replica(17, type_=type_)
    yard.until(lambda: yard.get(RVR, "v-17") is None, timeout=20)
    yard.advance(10)
    assert yard.kinds() == "3D"
    assert yard.is_whole()


def test_disk_added_by_others_is_placed_and_kept(yard):
    yard.ready_volume()
    yard.replica(9, type_="Diskful")
    yard.until(lambda: yard.said(RVR, "v-9").get("IOReady", ("", ""))[0] == "True")
    assert yard.kinds() == "4D1T"
    assert len(set(yard.nodes())) == 5


@pytest.mark.parametrize("number", [0, 1, 2])
def test_disk_deleted_by_others_is_kept_until_replaced(yard, number):
    before = yard.ready_volume()
    yard.delete(RVR, f"v-{number}")
    assert yard.until(lambda: yard.kinds() == "3D" and len(yard.replicas()) == 4) <= 1
    gone = yard.until(lambda: yard.get(RVR, f"v-{number}") is None)
    assert 2 < gone < 15
    assert len(set(yard.nodes()) & {one["spec"]["nodeName"] for one in before}) == 2
    yard.until(yard.is_whole)


def test_only_disk_hands_its_data_over(yard):
    yard.ready_volume(storage_class="none")
    node = yard.nodes()[0]
    yard.delete(RVR, "v-0")
    yard.until(lambda: yard.get(RVR, "v-0") is None)
    assert yard.kinds() == "1D"
    assert yard.nodes() != [node]
    yard.until(yard.is_whole)


def test_tie_breaker_deleted_by_others_is_replaced(yard):
    yard.ready_volume(storage_class="availability")
    (tie,) = yard.replicas(type_="TieBreaker")
    yard.delete(RVR, tie["metadata"]["name"])
    yard.until(lambda: yard.get(RVR, tie["metadata"]["name"]) is None)
    assert yard.kinds() == "2D1T"
    yard.until(yard.is_whole)


def test_attached_replica_is_kept_until_detached(yard):
    yard.ready_volume()
    node = yard.nodes()[0]
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"))
    yard.delete(RVR, "v-0")
    yard.advance(60)
    assert yard.get(RVR, "v-0") is not None
    yard.detach(node)
    yard.until(lambda: yard.get(RVR, "v-0") is None, timeout=15)


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
@pytest.mark.parametrize("at", [1.5, 1.8, 2.1])
def test_first_disk_with_data_is_kept_until_another_has_the_data(yard_of, generation, at):
    yard = yard_of(generation)
    yard.volume()
    yard.advance(at)
    yard.delete(RVR, "v-0")
    yard.until(lambda: HEALTH_SOURCES[generation].is_ready(yard.get(RV, "v")))


def test_replica_moved_to_an_occupied_node_is_rejected(yard):
    """Nothing in that generation's definition forbids it."""
    yard.ready_volume()
    yard.call(yard.api.patch(RVR, "v-0", {"spec": {"nodeName": yard.nodes()[-1]}}))
    yard.until(lambda: yard.is_whole() and len(set(yard.nodes())) == len(yard.nodes()) == 3)


def test_node_has_no_link_to_itself():
    """Whoever was there before may still be a member."""
    members = [
        {
            "name": f"v-{number}",
            "nodeName": "node-1",
            "type": "Diskful",
            "attached": False,
            "addresses": [{"address": {"port": 7000}}],
        }
        for number in range(2)
    ]
    mesh = {"members": members, "size": "1Gi", "quorum": 1, "quorumMinimumRedundancy": 1}
    volume = {"status": {"datamesh": mesh, "datameshRevision": 1}}
    addresses = [{"address": {"ipv4": "10.0.0.1", "port": 7000}}]
    obj = {
        "metadata": {"name": "v-1", "finalizers": []},
        "spec": {"replicatedVolumeName": "v", "nodeName": "node-1", "type": "Diskful"},
        "status": {"addresses": addresses},
    }
    assert MAIN.orders(volume, MAIN.read(obj, volume), initial=False).config.peers == {}


def third_disk(yard):
    """Two others are enough for a volume of this class."""
    yard.ready_volume(storage_class="availability")
    yard.replica(9, type_="Diskful")
    yard.until(lambda: len(yard.replicas()) == 3 and yard.kinds() == "3D" and yard.is_whole())
    yard.advance(10)


def test_replica_ordered_to_become_primary_is_kept(yard):
    """Its agent dies in that moment, so that nobody can tell for a while whether it did."""
    third_disk(yard)
    node = yard.nodes()[0]
    yard.attach(node)
    while not yard.status(RVR, "v-0")["drbd"]["config"].get("primary"):
        yard.advance(0.01)
    (agent,) = yard.pods("agent", node)
    yard.kill(agent)
    yard.delete(RVR, "v-0")
    yard.advance(1)
    assert yard.get(RVR, "v-0") is not None
    assert yard.status(RVR, "v-0")["drbd"]["status"]["role"] == "Secondary"
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"), timeout=5)
    yard.detach(node)
    yard.until(lambda: yard.get(RVR, "v-0") is None, timeout=15)


def test_deleted_disk_is_kept_while_too_few_are_online(yard):
    third_disk(yard)
    disks = yard.nodes()
    remote = [node for node in yard.node_names if node not in disks]
    for node in remote[:2]:
        yard.attach(node)
    yard.until(
        lambda: all(
            yard.of_attachment(node).get("Ready") == ("True", "Ready") for node in remote[:2]
        )
    )
    assert yard.kinds() == "3D2A"
    for node in remote:
        yard.site.machines.power_off(node)
    yard.advance(60)
    yard.delete(RVR, "v-0")
    yard.advance(60)
    assert yard.get(RVR, "v-0") is not None
    assert [yard.said(RVR, name)["IOReady"][0] for name in ("v-1", "v-9")] == ["True", "True"]
    assert yard.of_volume()["Quorum"][0] == "True"
    yard.site.machines.power_on(remote[0])
    yard.until(lambda: yard.get(RVR, "v-0") is None, timeout=180)


def test_deleted_disk_is_kept_while_the_others_do_not_suffice(yard):
    """Its node's agent lives, but two others are out."""
    yard.ready_volume()
    _, second, third = yard.nodes()
    yard.site.machines.power_off(second)
    yard.site.machines.power_off(third)
    yard.advance(60)
    yard.delete(RVR, "v-0")
    yard.advance(60)
    assert yard.get(RVR, "v-0") is not None
    yard.site.machines.power_on(second)
    yard.site.machines.power_on(third)
    yard.until(lambda: yard.get(RVR, "v-0") is None, timeout=180)


def test_lost_disk_of_main_is_not_replaced_but_its_tie_breaker_is(yard_of):
    yard = yard_of("effectiveLayout")
    yard.volume(storage_class="availability")
    yard.until(
        lambda: yard.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate") == 1
    )
    yard.delete(RVR, "v-0")
    yard.delete(RVR, yard.replicas(type_="TieBreaker")[0]["metadata"]["name"])
    yard.advance(60)
    assert yard.kinds() == "1D1T" or yard.kinds() == "1D"
    assert yard.get(RVR, "v-0") is not None
    assert [one["type"] for one in yard.status(RV, "v")["datameshTransitions"]] == ["RemoveReplica"]


def test_replica_waits_without_nodes(yard_of):
    yard = yard_of(nodes=2)
    yard.volume()
    yard.until(lambda: yard.kinds() == "3D")
    (waiting,) = [one for one in yard.replicas() if "nodeName" not in one["spec"]]
    yard.until(lambda: yard.said(RVR, waiting["metadata"]["name"]).get("Scheduled"))
    said = yard.said(RVR, waiting["metadata"]["name"])
    assert said == {
        "Scheduled": ("False", "NoNodeFree"),
        "Online": ("False", "Unscheduled"),
        "IOReady": ("False", "Offline"),
    }
    yard.until(lambda: yard.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas"))
    yard.add_node("node-9")
    yard.until(yard.is_whole, timeout=30)
    assert "node-9" in yard.nodes()


def test_disk_is_not_placed_on_a_down_or_foreign_node(yard_of):
    yard = yard_of(nodes=4)
    yard.site.machines.power_off("node-1")
    yard.advance(60)
    yard.ready_volume()
    assert sorted(yard.nodes()) == ["node-2", "node-3", "node-4"]


def test_names_are_validated(yard):
    yard.ready_volume()
    for number in ("x", 32):
        with pytest.raises(ApiError):
            yard.replica(number)


def test_replicas_spread_over_nodes(yard):
    for number in range(8):
        yard.volume(f"v{number}", "none")
    yard.advance(10)
    counts = [
        sum(yard.nodes(f"v{number}") == [node] for number in range(8)) for node in yard.node_names
    ]
    assert sorted(counts) == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("wait", [0.05, 2])
def test_second_replica_on_a_node_is_rejected(yard, wait):
    yard.volume(storage_class="availability")
    yard.advance(wait)
    (first,) = [one for one in yard.replicas() if one["metadata"]["name"] == "v-0"]
    yard.replica(7, nodeName=first["spec"]["nodeName"])
    yard.advance(0.3)
    assert yard.get(RVR, "v-7") is None
    yard.until(yard.is_whole)
    assert yard.kinds() == "2D1T"
    assert first["spec"]["nodeName"] in yard.nodes(type_="Diskful")


def test_first_replica_deleted_before_it_has_data_leaves_one_copy_of_the_truth(yard):
    yard.replica(1, nodeName="node-3")
    yard.volume()
    yard.advance(0.15)
    yard.delete(RVR, "v-0")
    yard.until(yard.is_whole)
    assert yard.kinds() == "3D"
