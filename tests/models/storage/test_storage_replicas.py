"""Replicas created or deleted by others: kept, placed, removed and replaced."""

from __future__ import annotations

import pytest
from storage_cluster import RV, RVR

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
def test_unneeded_replica_is_removed(storage_cluster, type_):
    storage_cluster.ready_volume()
    storage_cluster.replica(17, type_=type_)
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-17") is None, timeout=20)
    storage_cluster.advance(10)
    assert storage_cluster.kinds() == "3D"
    assert storage_cluster.is_whole()


def test_disk_added_by_others_is_placed_and_kept(storage_cluster):
    storage_cluster.ready_volume()
    storage_cluster.replica(9, type_="Diskful")
    storage_cluster.until(
        lambda: storage_cluster.conditions_of(RVR, "v-9").get("IOReady", ("", ""))[0] == "True"
    )
    assert storage_cluster.kinds() == "4D1T"
    assert len(set(storage_cluster.nodes())) == 5


@pytest.mark.parametrize("number", [0, 1, 2])
def test_disk_deleted_by_others_is_kept_until_replaced(storage_cluster, number):
    before = storage_cluster.ready_volume()
    storage_cluster.delete(RVR, f"v-{number}")
    assert (
        storage_cluster.until(
            lambda: storage_cluster.kinds() == "3D" and len(storage_cluster.replicas()) == 4
        )
        <= 1
    )
    gone = storage_cluster.until(lambda: storage_cluster.get(RVR, f"v-{number}") is None)
    assert 2 < gone < 15
    assert len(set(storage_cluster.nodes()) & {one["spec"]["nodeName"] for one in before}) == 2
    storage_cluster.until(storage_cluster.is_whole)


def test_only_disk_hands_its_data_over(storage_cluster):
    storage_cluster.ready_volume(storage_class="none")
    node = storage_cluster.nodes()[0]
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-0") is None)
    assert storage_cluster.kinds() == "1D"
    assert storage_cluster.nodes() != [node]
    storage_cluster.until(storage_cluster.is_whole)


def test_tie_breaker_deleted_by_others_is_replaced(storage_cluster):
    storage_cluster.ready_volume(storage_class="availability")
    (tie,) = storage_cluster.replicas(type_="TieBreaker")
    storage_cluster.delete(RVR, tie["metadata"]["name"])
    storage_cluster.until(lambda: storage_cluster.get(RVR, tie["metadata"]["name"]) is None)
    assert storage_cluster.kinds() == "2D1T"
    storage_cluster.until(storage_cluster.is_whole)


def test_attached_replica_is_kept_until_detached(storage_cluster):
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
    )
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.advance(60)
    assert storage_cluster.get(RVR, "v-0") is not None
    storage_cluster.detach(node)
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-0") is None, timeout=15)


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
@pytest.mark.parametrize("at", [1.5, 1.8, 2.1])
def test_first_disk_with_data_is_kept_until_another_has_the_data(
    build_storage_cluster, generation, at
):
    storage_cluster = build_storage_cluster(generation)
    storage_cluster.volume()
    storage_cluster.advance(at)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(lambda: HEALTH_SOURCES[generation].is_ready(storage_cluster.get(RV, "v")))


def test_replica_moved_to_an_occupied_node_is_rejected(storage_cluster):
    """The definition of this generation does not forbid it."""
    storage_cluster.ready_volume()
    storage_cluster.call(
        storage_cluster.api.patch(RVR, "v-0", {"spec": {"nodeName": storage_cluster.nodes()[-1]}})
    )
    storage_cluster.until(
        lambda: (
            storage_cluster.is_whole()
            and len(set(storage_cluster.nodes())) == len(storage_cluster.nodes()) == 3
        )
    )


def test_node_has_no_link_to_itself():
    """The earlier replica may still be a member."""
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


def add_third_disk(storage_cluster):
    """Add a third disk; two others are enough for a volume of this class."""
    storage_cluster.ready_volume(storage_class="availability")
    storage_cluster.replica(9, type_="Diskful")
    storage_cluster.until(
        lambda: (
            len(storage_cluster.replicas()) == 3
            and storage_cluster.kinds() == "3D"
            and storage_cluster.is_whole()
        )
    )
    storage_cluster.advance(10)


def test_replica_ordered_to_become_primary_is_kept(storage_cluster):
    """Its agent dies at that instant, so the result is unknown for a while."""
    add_third_disk(storage_cluster)
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    while not storage_cluster.status(RVR, "v-0")["drbd"]["config"].get("primary"):
        storage_cluster.advance(0.01)
    (agent,) = storage_cluster.pods("agent", node)
    storage_cluster.kill(agent)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.advance(1)
    assert storage_cluster.get(RVR, "v-0") is not None
    assert storage_cluster.status(RVR, "v-0")["drbd"]["status"]["role"] == "Secondary"
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready"), timeout=5
    )
    storage_cluster.detach(node)
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-0") is None, timeout=15)


def test_deleted_disk_is_kept_while_too_few_are_online(storage_cluster):
    add_third_disk(storage_cluster)
    disks = storage_cluster.nodes()
    remote = [node for node in storage_cluster.node_names if node not in disks]
    for node in remote[:2]:
        storage_cluster.attach(node)
    storage_cluster.until(
        lambda: all(
            storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
            for node in remote[:2]
        )
    )
    assert storage_cluster.kinds() == "3D2A"
    for node in remote:
        storage_cluster.site.machines.power_off(node)
    storage_cluster.advance(60)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.advance(60)
    assert storage_cluster.get(RVR, "v-0") is not None
    assert [storage_cluster.conditions_of(RVR, name)["IOReady"][0] for name in ("v-1", "v-9")] == [
        "True",
        "True",
    ]
    assert storage_cluster.of_volume()["Quorum"][0] == "True"
    storage_cluster.site.machines.power_on(remote[0])
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-0") is None, timeout=180)


def test_deleted_disk_is_kept_while_the_others_do_not_suffice(storage_cluster):
    """The agent of its node runs, and two others are down."""
    storage_cluster.ready_volume()
    _, second, third = storage_cluster.nodes()
    storage_cluster.site.machines.power_off(second)
    storage_cluster.site.machines.power_off(third)
    storage_cluster.advance(60)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.advance(60)
    assert storage_cluster.get(RVR, "v-0") is not None
    storage_cluster.site.machines.power_on(second)
    storage_cluster.site.machines.power_on(third)
    storage_cluster.until(lambda: storage_cluster.get(RVR, "v-0") is None, timeout=180)


def test_lost_disk_of_main_is_not_replaced_but_its_tie_breaker_is(build_storage_cluster):
    storage_cluster = build_storage_cluster("effectiveLayout")
    storage_cluster.volume(storage_class="availability")
    storage_cluster.until(
        lambda: (
            storage_cluster.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate")
            == 1
        )
    )
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.delete(RVR, storage_cluster.replicas(type_="TieBreaker")[0]["metadata"]["name"])
    storage_cluster.advance(60)
    assert storage_cluster.kinds() == "1D1T" or storage_cluster.kinds() == "1D"
    assert storage_cluster.get(RVR, "v-0") is not None
    assert [one["type"] for one in storage_cluster.status(RV, "v")["datameshTransitions"]] == [
        "RemoveReplica"
    ]


def test_replica_waits_without_nodes(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=2)
    storage_cluster.volume()
    storage_cluster.until(lambda: storage_cluster.kinds() == "3D")
    (waiting,) = [one for one in storage_cluster.replicas() if "nodeName" not in one["spec"]]
    storage_cluster.until(
        lambda: storage_cluster.conditions_of(RVR, waiting["metadata"]["name"]).get("Scheduled")
    )
    conditions_of = storage_cluster.conditions_of(RVR, waiting["metadata"]["name"])
    assert conditions_of == {
        "Scheduled": ("False", "NoNodeFree"),
        "Online": ("False", "Unscheduled"),
        "IOReady": ("False", "Offline"),
    }
    storage_cluster.until(
        lambda: storage_cluster.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas")
    )
    storage_cluster.add_node("node-9")
    storage_cluster.until(storage_cluster.is_whole, timeout=30)
    assert "node-9" in storage_cluster.nodes()


def test_disk_is_not_placed_on_a_down_or_foreign_node(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=4)
    storage_cluster.site.machines.power_off("node-1")
    storage_cluster.advance(60)
    storage_cluster.ready_volume()
    assert sorted(storage_cluster.nodes()) == ["node-2", "node-3", "node-4"]


def test_names_are_validated(storage_cluster):
    storage_cluster.ready_volume()
    for number in ("x", 32):
        with pytest.raises(ApiError):
            storage_cluster.replica(number)


def test_replicas_spread_over_nodes(storage_cluster):
    for number in range(8):
        storage_cluster.volume(f"v{number}", "none")
    storage_cluster.advance(10)
    counts = [
        sum(storage_cluster.nodes(f"v{number}") == [node] for number in range(8))
        for node in storage_cluster.node_names
    ]
    assert sorted(counts) == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("wait", [0.05, 2])
def test_second_replica_on_a_node_is_rejected(storage_cluster, wait):
    storage_cluster.volume(storage_class="availability")
    storage_cluster.advance(wait)
    (first,) = [one for one in storage_cluster.replicas() if one["metadata"]["name"] == "v-0"]
    storage_cluster.replica(7, nodeName=first["spec"]["nodeName"])
    storage_cluster.advance(0.3)
    assert storage_cluster.get(RVR, "v-7") is None
    storage_cluster.until(storage_cluster.is_whole)
    assert storage_cluster.kinds() == "2D1T"
    assert first["spec"]["nodeName"] in storage_cluster.nodes(type_="Diskful")


def test_first_replica_deleted_before_it_has_data_leaves_one_copy_of_the_truth(storage_cluster):
    storage_cluster.replica(1, nodeName="node-3")
    storage_cluster.volume()
    storage_cluster.advance(0.15)
    storage_cluster.delete(RVR, "v-0")
    storage_cluster.until(storage_cluster.is_whole)
    assert storage_cluster.kinds() == "3D"
