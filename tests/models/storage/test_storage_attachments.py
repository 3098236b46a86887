"""Attachments: order, concurrency, and conditions of waiting ones."""

from __future__ import annotations

import pytest
from storage_cluster import RV, RVA, RVR

from pytest_kscen.models.storage.manifests import storage_class
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES

ATTACHED = ("True", "Attached")


def others(storage_cluster, volume="v"):
    return [
        node for node in storage_cluster.node_names if node not in storage_cluster.nodes(volume)
    ]


def is_attached(storage_cluster, node):
    return lambda: storage_cluster.of_attachment(node).get("Attached") == ATTACHED


def test_third_attachment_waits_for_one_of_the_first_two(storage_cluster):
    storage_cluster.ready_volume()
    one, two, three = storage_cluster.nodes()
    for node in (one, two, three):
        storage_cluster.attach(node)
        storage_cluster.advance(1)  # creation times are whole seconds
    storage_cluster.until(is_attached(storage_cluster, one))
    storage_cluster.until(is_attached(storage_cluster, two))
    assert (
        storage_cluster.status(RV, "v")["actuallyAttachedTo"]
        == storage_cluster.status(RV, "v")["desiredAttachTo"]
        == [one, two]
    )
    assert storage_cluster.of_attachment(three)["Attached"] == (
        "False",
        "WaitingForActiveAttachmentsToDetach",
    )
    assert storage_cluster.of_attachment(three)["Ready"] == ("False", "NotAttached")
    assert storage_cluster.status(RVA, f"rva-v-{three}")["phase"] == "Pending"
    storage_cluster.detach(one)
    storage_cluster.until(is_attached(storage_cluster, three))
    assert storage_cluster.get(RVA, f"rva-v-{one}") is None
    assert storage_cluster.status(RV, "v")["actuallyAttachedTo"] == [two, three]


def test_second_primary_waits_until_every_kernel_allows_two(storage_cluster):
    """It is asked for only after all replicas have told so."""
    storage_cluster.ready_volume()
    one, two, _ = storage_cluster.nodes()
    asked, allowed = [], []

    def look(new, _):
        if new:
            drbd = new["status"].get("drbd", {}) if "status" in new else {}
            if drbd.get("actual", {}).get("allowTwoPrimaries"):
                allowed.append(new["metadata"]["name"])
            if drbd.get("config", {}).get("primary") and new["spec"]["nodeName"] == two:
                asked.append(sorted(set(allowed)))

    storage_cluster.system.replicas.on_change(look)
    storage_cluster.attach(one)
    storage_cluster.until(is_attached(storage_cluster, one))
    assert allowed == []
    storage_cluster.attach(two)
    storage_cluster.until(is_attached(storage_cluster, two))
    assert asked[0] == ["v-0", "v-1", "v-2"]
    storage_cluster.detach(one)
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["drbd"]["config"]["allowTwoPrimaries"] is False
    )


def test_attachment_passes_its_phases(storage_cluster):
    """Those that are over at once are not told of."""
    storage_cluster.ready_volume()
    node = others(storage_cluster)[0]
    seen = []
    storage_cluster.system.attachments.on_change(
        lambda new, _: seen.append((new or {}).get("status", {}).get("phase"))
    )
    storage_cluster.attach(node)
    storage_cluster.until(is_attached(storage_cluster, node))
    storage_cluster.site.machines.power_off(node)
    storage_cluster.detach(node)
    storage_cluster.advance(5)
    storage_cluster.site.machines.power_on(node)
    storage_cluster.until(lambda: storage_cluster.get(RVA, f"rva-v-{node}") is None, timeout=180)
    assert list(dict.fromkeys(seen)) == [None, "Attaching", "Attached", "Detaching"]


def test_access_replica_is_created_and_deleted_with_its_attachment(storage_cluster):
    storage_cluster.ready_volume()
    node = others(storage_cluster)[0]
    storage_cluster.attach(node)
    storage_cluster.until(
        lambda: (
            storage_cluster.of_attachment(node).get("Attached") == ("False", "WaitingForReplica")
        )
    )
    storage_cluster.until(is_attached(storage_cluster, node))
    assert storage_cluster.kinds() == "3D1A1T"
    assert storage_cluster.of_attachment(node)["ReplicaIOReady"] == ("True", "IOReady")
    storage_cluster.detach(node)
    storage_cluster.until(lambda: storage_cluster.kinds() == "3D", timeout=30)
    storage_cluster.until(lambda: len(storage_cluster.replicas()) == 3, timeout=30)
    storage_cluster.until(storage_cluster.is_whole)


def test_tie_breaker_becomes_access_before_promotion(storage_cluster):
    storage_cluster.ready_volume(storage_class="availability")
    (tie,) = storage_cluster.replicas(type_="TieBreaker")
    node = tie["spec"]["nodeName"]
    storage_cluster.until(
        lambda: (
            storage_cluster.status(RVR, tie["metadata"]["name"]).get("actualType") == "TieBreaker"
        )
    )
    storage_cluster.advance(1)
    seen = []
    storage_cluster.system.attachments.on_change(
        lambda new, _: seen.extend(
            one["reason"]
            for one in (new or {}).get("status", {}).get("conditions", ())
            if one["type"] == "Attached"
        )
    )
    storage_cluster.site.machines.power_off(node)
    storage_cluster.attach(node)
    storage_cluster.advance(5)
    storage_cluster.site.machines.power_on(node)
    storage_cluster.until(is_attached(storage_cluster, node), timeout=180)
    assert (seen[0], seen[-1]) == ("ConvertingTieBreakerToAccess", "Attached")
    assert storage_cluster.get(RVR, tie["metadata"]["name"])["spec"]["type"] == "Access"
    assert storage_cluster.kinds() == "2D1A"


def test_attachment_may_exist_before_its_volume(storage_cluster):
    storage_cluster.attach("node-3")
    storage_cluster.advance(1)
    assert storage_cluster.of_attachment("node-3")["Attached"] == (
        "False",
        "WaitingForReplicatedVolume",
    )
    assert storage_cluster.status(RVA, "rva-v-node-3")["phase"] == "Pending"
    storage_cluster.volume()
    storage_cluster.until(
        lambda: (
            storage_cluster.of_attachment("node-3")["Attached"]
            == ("False", "WaitingForReplicatedVolumeReady")
        )
    )
    storage_cluster.until(is_attached(storage_cluster, "node-3"), timeout=30)
    assert "node-3" in [
        one["spec"]["nodeName"] for one in storage_cluster.replicas(type_="Diskful")
    ]


def test_attachment_without_a_volume_is_deleted_at_once(storage_cluster):
    storage_cluster.attach("node-3")
    storage_cluster.advance(1)
    storage_cluster.detach("node-3")
    assert storage_cluster.until(lambda: storage_cluster.get(RVA, "rva-v-node-3") is None) <= 0.5


def test_attached_volume_is_deleted_after_detachment(storage_cluster):
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    storage_cluster.until(is_attached(storage_cluster, node))
    storage_cluster.delete(RV, "v")
    storage_cluster.advance(30)
    assert len(storage_cluster.replicas()) == 3
    assert storage_cluster.status(RV, "v")["phase"] == "Terminating"
    assert is_attached(storage_cluster, node)()
    storage_cluster.detach(node)
    storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None)


def local_class(storage_cluster):
    obj = storage_class("local", "None")
    storage_cluster.call(
        storage_cluster.api.create(
            REPLICATED_STORAGE_CLASSES, {**obj, "spec": {**obj["spec"], "volumeAccess": "Local"}}
        )
    )


def test_local_volume_is_attached_where_its_disk_is(storage_cluster):
    local_class(storage_cluster)
    storage_cluster.ready_volume(storage_class="local")
    here, elsewhere = storage_cluster.nodes()[0], others(storage_cluster)[0]
    storage_cluster.attach(elsewhere)
    storage_cluster.attach(here)
    storage_cluster.until(is_attached(storage_cluster, here))
    assert storage_cluster.of_attachment(elsewhere)["Attached"] == (
        "False",
        "UnableToProvideLocalVolumeAccess",
    )
    assert storage_cluster.kinds() == "1D"


def test_local_volume_without_a_disk_waits(build_storage_cluster):
    storage_cluster = build_storage_cluster(nodes=3)
    for node in storage_cluster.node_names:
        storage_cluster.call(
            storage_cluster.api.patch(
                NODES,
                node,
                {"metadata": {"labels": {"storage.deckhouse.io/sds-replicated-volume-node": None}}},
            )
        )
    storage_cluster.advance(1)
    local_class(storage_cluster)
    storage_cluster.volume(storage_class="local")
    storage_cluster.attach("node-1")
    storage_cluster.until(
        lambda: (
            storage_cluster.of_attachment("node-1").get("Attached")
            == ("False", "LocalityNotSatisfied")
        )
    )


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
def test_newer_storage_attaches_up_to_the_volume_limit(build_storage_cluster, generation):
    storage_cluster = build_storage_cluster(generation)
    storage_cluster.volume(maxAttachments=2)
    storage_cluster.until(
        lambda: (
            storage_cluster.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate")
            == 1
        )
    )
    one, two, _ = storage_cluster.nodes()
    storage_cluster.volume("w")
    storage_cluster.until(
        lambda: (
            storage_cluster.status(RV, "w").get("effectiveLayout", {}).get("failuresToTolerate")
            == 1
        )
    )
    for volume in ("v", "w"):
        for node in storage_cluster.nodes(volume)[:2]:
            storage_cluster.attach(node, volume)
            storage_cluster.advance(2)
    assert storage_cluster.status(RV, "v")["actuallyAttachedTo"] == [one, two]
    assert storage_cluster.status(RV, "v")["datamesh"]["multiattach"] is True
    assert len(storage_cluster.status(RV, "w")["actuallyAttachedTo"]) == 1
    status = storage_cluster.status(RVA, f"rva-v-{one}")
    assert (status["phase"], status["inUse"], status["devicePath"]) == (
        "Attached",
        True,
        "/dev/drbd/by-res/v/0",
    )
