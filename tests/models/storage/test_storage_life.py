"""The life of a volume, from its creation to its end, in each generation and class."""

from __future__ import annotations

import pytest
from storage_yard import RV, RVA, RVR, Yard

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
def test_volume_becomes_ready_is_attached_and_deleted(yard_of, generation, storage_class):
    yard = yard_of(generation)
    yard.volume(storage_class=storage_class)
    yard.until(lambda: HEALTH_SOURCES[generation].is_ready(yard.get(RV, "v")), timeout=15)
    yard.until(lambda: yard.kinds() == KINDS[storage_class])
    node = yard.nodes()[0]
    yard.attach(node)
    assert yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready")) <= 2
    assert yard.status(RV, "v")["actuallyAttachedTo"] == [node]
    yard.detach(node)
    assert yard.until(lambda: yard.get(RVA, f"rva-v-{node}") is None) <= 1
    yard.delete(RV, "v")
    assert yard.until(lambda: yard.get(RV, "v") is None) <= 2
    assert yard.replicas() == []
    assert all(yard.system.drbd.status(node, "v") is None for node in yard.node_names)


def test_consistency_condition_exists_only_in_the_newer_generation(yard_of):
    yard = yard_of("ready")
    yard.volume(storage_class="consistency")
    yard.until(yard.is_whole)
    assert yard.kinds() == KINDS["consistency"]
    assert yard.status(RV, "v")["effectiveLayout"]["failuresToTolerate"] == 0


def test_phases_of_volume_creation(yard):
    """The first disk has data before there are others."""
    yard.volume()
    yard.advance(0.06)
    assert yard.kinds() == "1D"
    assert yard.until(lambda: yard.kinds() == "3D") <= 0.5
    assert (
        yard.until(lambda: yard.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas"))
        <= 6
    )
    initialized = [
        one
        for one in yard.replicas()
        if yard.said(RVR, one["metadata"]["name"]).get("DataInitialized")
    ]
    assert initialized[0] == yard.replicas()[0]
    yard.until(yard.is_whole)
    volume, status = yard.get(RV, "v"), yard.status(RV, "v")
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


def test_status_of_a_replica(yard):
    first, *others = yard.ready_volume()
    assert first["metadata"]["finalizers"] == [CONTROLLER, AGENT]
    status = yard.status(RVR, "v-0")
    config = status["drbd"]["config"]
    assert config["address"] == {
        "ipv4": yard.site.machines[first["spec"]["nodeName"]].address,
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
        state == "True" for kind, (state, _) in yard.said(RVR, "v-0").items() if kind != "Attached"
    )
    assert yard.said(RVR, "v-0")["Attached"] == ("False", "Detached")


def test_ports_and_minors_are_unique(yard_of):
    yard = yard_of(nodes=3)
    for name in ("a", "b", "c"):
        yard.volume(name)
    for name in ("a", "b", "c"):
        yard.until(lambda name=name: yard.is_whole(name))
    told = [
        (one["spec"]["nodeName"], one["status"]["drbd"]["config"]["address"]["port"])
        for name in "abc"
        for one in yard.replicas(name)
    ]
    assert sorted(told) == [(node, port) for node in yard.node_names for port in (7000, 7001, 7002)]
    assert sorted(yard.status(RV, name)["drbd"]["config"]["deviceMinor"] for name in "abc") == [
        0,
        1,
        2,
    ]


def test_volume_grows_and_does_not_shrink(yard):
    yard.ready_volume()
    patch = {"spec": {"size": "200Mi"}}
    yard.call(yard.api.patch(RV, "v", patch))
    yard.until(lambda: yard.status(RV, "v")["actualSize"] == "200Mi", timeout=30)
    assert yard.status(RVR, "v-1")["drbd"]["status"]["devices"][0]["size"] == 204800
    yard.call(yard.api.patch(RV, "v", {"spec": {"size": "100Mi"}}))
    yard.advance(30)
    assert yard.status(RVR, "v-1")["drbd"]["status"]["devices"][0]["size"] == 204800
    assert yard.is_whole()


def test_volume_without_a_class_waits_and_can_be_deleted(yard):
    yard.volume(storage_class="no-such-class")
    yard.advance(5)
    assert yard.replicas() == []
    assert yard.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas")
    yard.delete(RV, "v")
    assert yard.until(lambda: yard.get(RV, "v") is None) <= 1


@pytest.mark.parametrize("generation", HEALTH_SOURCES)
def test_installed_generation_is_detected(yard_of, generation):
    yard = yard_of(generation, nodes=3)
    assert yard.call(is_installed(yard.api)) == generation
    patch = {"metadata": {"annotations": None}}
    yard.call(yard.api.patch(CUSTOM_RESOURCE_DEFINITIONS, RV.qualified, patch))
    assert yard.call(is_installed(yard.api)) == (
        "effectiveLayout" if generation == "ready" else generation
    )
    assert yard.call(yard.api.get(DAEMON_SETS, "agent", NAMESPACE))["status"]["numberReady"] == 3


def test_same_seed_gives_the_same_volumes(yard_of):
    one, other = yard_of(), yard_of()
    assert isinstance(one, Yard)
    for yard in (one, other):
        yard.ready_volume(storage_class="availability")
    assert one.replicas() == other.replicas()
