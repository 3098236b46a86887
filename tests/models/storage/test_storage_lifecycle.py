"""Life cycle of a volume in each generation and class."""

from __future__ import annotations

import pytest
from storage_cluster import RV, RVA, RVR, StorageCluster

from pytest_kscen.models.storage import is_installed
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS
from pytest_kscen.objects.storage import HEALTH_SOURCES, NAMESPACE

CONTROLLER, AGENT = (
    f"sds-replicated-volume.deckhouse.io/{name}" for name in ("controller", "agent")
)
KINDS = {
    "none": "1D",
    "availability": "2D1T",
    "consistency-and-availability": "3D",
    "consistency": "2D",
}


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
@pytest.mark.parametrize("storage_class", list(KINDS)[:3])
def test_volume_becomes_ready_is_attached_and_deleted(
    build_storage_cluster, generation, storage_class
):
    storage_cluster = build_storage_cluster(generation)
    storage_cluster.volume(storage_class=storage_class)
    storage_cluster.until(
        lambda: HEALTH_SOURCES[generation].is_ready(storage_cluster.get(RV, "v")), timeout=15
    )
    storage_cluster.until(lambda: storage_cluster.kinds() == KINDS[storage_class])
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    assert (
        storage_cluster.until(
            lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
        )
        <= 2
    )
    assert storage_cluster.status(RV, "v")["actuallyAttachedTo"] == [node]
    storage_cluster.detach(node)
    assert storage_cluster.until(lambda: storage_cluster.get(RVA, f"rva-v-{node}") is None) <= 1
    storage_cluster.delete(RV, "v")
    assert storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None) <= 2
    assert storage_cluster.replicas() == []
    assert all(
        storage_cluster.system.drbd.status(node, "v") is None for node in storage_cluster.node_names
    )


def test_consistency_condition_exists_only_in_the_newer_generation(build_storage_cluster):
    storage_cluster = build_storage_cluster("ready")
    storage_cluster.volume(storage_class="consistency")
    storage_cluster.until(storage_cluster.is_whole)
    assert storage_cluster.kinds() == KINDS["consistency"]
    assert storage_cluster.status(RV, "v")["effectiveLayout"]["failuresToTolerate"] == 0


def test_phases_of_volume_creation(storage_cluster):
    """The first disk has data before others exist."""
    storage_cluster.volume()
    storage_cluster.advance(0.06)
    assert storage_cluster.kinds() == "1D"
    assert storage_cluster.until(lambda: storage_cluster.kinds() == "3D") <= 0.5
    assert (
        storage_cluster.until(
            lambda: (
                storage_cluster.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas")
            )
        )
        <= 6
    )
    initialized = [
        one
        for one in storage_cluster.replicas()
        if storage_cluster.conditions_of(RVR, one["metadata"]["name"]).get("DataInitialized")
    ]
    assert initialized[0] == storage_cluster.replicas()[0]
    storage_cluster.until(storage_cluster.is_whole)
    volume, status = storage_cluster.get(RV, "v"), storage_cluster.status(RV, "v")
    assert volume["metadata"]["finalizers"] == [CONTROLLER]
    config = status["drbd"]["config"]
    assert (config["quorum"], config["quorumMinimumRedundancy"], config["deviceMinor"]) == (2, 2, 0)
    assert config["allowTwoPrimaries"] is False
    assert status["diskfulReplicaCount"] == status["diskfulReplicasInSync"] == "3/3"
    assert (status["phase"], status["actualSize"], status["attachedAndIOReadyCount"]) == (
        "Ready",
        "100Mi",
        "0/0",
    )


def test_status_of_a_replica(storage_cluster):
    first, *others = storage_cluster.ready_volume()
    assert first["metadata"]["finalizers"] == [CONTROLLER, AGENT]
    status = storage_cluster.status(RVR, "v-0")
    config = status["drbd"]["config"]
    assert config["address"] == {
        "ipv4": storage_cluster.site.machines[first["spec"]["nodeName"]].address,
        "port": 7000,
    }
    assert sorted(config["peers"]) == sorted(one["spec"]["nodeName"] for one in others)
    kernel = status["drbd"]["status"]
    assert (kernel["role"], kernel["nodeId"], kernel["suspended"]) == ("Secondary", 0, False)
    assert kernel["devices"][0] | {"minor": 0} == {
        "volume": 0,
        "minor": 0,
        "diskState": "UpToDate",
        "client": False,
        "open": False,
        "quorum": True,
        "size": 102400,
    }
    assert [one["connectionState"] for one in kernel["connections"]] == ["Connected", "Connected"]
    assert status["syncProgress"] == "100%"
    assert all(
        state == "True"
        for kind, (state, _) in storage_cluster.conditions_of(RVR, "v-0").items()
        if kind != "Attached"
    )
    assert storage_cluster.conditions_of(RVR, "v-0")["Attached"] == ("False", "Detached")


def test_ports_and_minors_are_unique(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=3)
    for name in ("a", "b", "c"):
        storage_cluster.volume(name)
    for name in ("a", "b", "c"):
        storage_cluster.until(lambda name=name: storage_cluster.is_whole(name))
    reported = [
        (one["spec"]["nodeName"], one["status"]["drbd"]["config"]["address"]["port"])
        for name in "abc"
        for one in storage_cluster.replicas(name)
    ]
    assert sorted(reported) == [
        (node, port) for node in storage_cluster.node_names for port in (7000, 7001, 7002)
    ]
    assert sorted(
        storage_cluster.status(RV, name)["drbd"]["config"]["deviceMinor"] for name in "abc"
    ) == [
        0,
        1,
        2,
    ]


def test_volume_grows_and_does_not_shrink(storage_cluster):
    storage_cluster.ready_volume()
    patch = {"spec": {"size": "200Mi"}}
    storage_cluster.call(storage_cluster.api.patch(RV, "v", patch))
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["actualSize"] == "200Mi", timeout=30
    )
    assert storage_cluster.status(RVR, "v-1")["drbd"]["status"]["devices"][0]["size"] == 204800
    storage_cluster.call(storage_cluster.api.patch(RV, "v", {"spec": {"size": "100Mi"}}))
    storage_cluster.advance(30)
    assert storage_cluster.status(RVR, "v-1")["drbd"]["status"]["devices"][0]["size"] == 204800
    assert storage_cluster.is_whole()


def test_volume_without_a_class_waits_and_can_be_deleted(storage_cluster):
    storage_cluster.volume(storage_class="no-such-class")
    storage_cluster.advance(5)
    assert storage_cluster.replicas() == []
    assert storage_cluster.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas")
    storage_cluster.delete(RV, "v")
    assert storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None) <= 1


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_installed_generation_is_detected(build_storage_cluster, generation):
    storage_cluster = build_storage_cluster(generation, nodes=3)
    assert storage_cluster.call(is_installed(storage_cluster.api)) == generation
    patch = {"metadata": {"annotations": None}}
    storage_cluster.call(
        storage_cluster.api.patch(CUSTOM_RESOURCE_DEFINITIONS, RV.qualified, patch)
    )
    assert storage_cluster.call(is_installed(storage_cluster.api)) == (
        "effectiveLayout" if generation == "ready" else generation
    )
    assert (
        storage_cluster.call(storage_cluster.api.get(DAEMON_SETS, "agent", NAMESPACE))["status"][
            "numberReady"
        ]
        == 3
    )


def test_same_seed_gives_the_same_volumes(build_storage_cluster):
    one, other = build_storage_cluster(), build_storage_cluster()
    assert isinstance(one, StorageCluster)
    for storage_cluster in (one, other):
        storage_cluster.ready_volume(storage_class="availability")
    assert one.replicas() == other.replicas()
