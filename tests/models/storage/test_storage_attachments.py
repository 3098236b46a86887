"""Who is attached where: in what order, how many at once, and what is said of those who wait."""

from __future__ import annotations

import pytest
from storage_yard import RV, RVA, RVR

from pytest_kscen.models.storage.manifests import storage_class
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import REPLICATED_STORAGE_CLASSES

ATTACHED = ("True", "Attached")


def others(yard, volume="v"):
    return [node for node in yard.node_names if node not in yard.nodes(volume)]


def is_attached(yard, node):
    return lambda: yard.of_attachment(node).get("Attached") == ATTACHED


def test_third_attachment_waits_for_one_of_the_first_two(yard):
    yard.ready_volume()
    one, two, three = yard.nodes()
    for node in (one, two, three):
        yard.attach(node)
        yard.advance(1)  # creation times are whole seconds
    yard.until(is_attached(yard, one))
    yard.until(is_attached(yard, two))
    assert (
        yard.status(RV, "v")["actuallyAttachedTo"]
        == yard.status(RV, "v")["desiredAttachTo"]
        == [one, two]
    )
    assert yard.of_attachment(three)["Attached"] == ("False", "WaitingForActiveAttachmentsToDetach")
    assert yard.of_attachment(three)["Ready"] == ("False", "NotAttached")
    assert yard.status(RVA, f"rva-v-{three}")["phase"] == "Pending"
    yard.detach(one)
    yard.until(is_attached(yard, three))
    assert yard.get(RVA, f"rva-v-{one}") is None
    assert yard.status(RV, "v")["actuallyAttachedTo"] == [two, three]


def test_second_primary_waits_until_every_kernel_allows_two(yard):
    """It is asked for only after all replicas have told so."""
    yard.ready_volume()
    one, two, _ = yard.nodes()
    asked, allowed = [], []

    def look(new, _):
        if new:
            drbd = new["status"].get("drbd", {}) if "status" in new else {}
            if drbd.get("actual", {}).get("allowTwoPrimaries"):
                allowed.append(new["metadata"]["name"])
            if drbd.get("config", {}).get("primary") and new["spec"]["nodeName"] == two:
                asked.append(sorted(set(allowed)))

    yard.system.replicas.on_change(look)
    yard.attach(one)
    yard.until(is_attached(yard, one))
    assert allowed == []
    yard.attach(two)
    yard.until(is_attached(yard, two))
    assert asked[0] == ["v-0", "v-1", "v-2"]
    yard.detach(one)
    yard.until(lambda: yard.status(RV, "v")["drbd"]["config"]["allowTwoPrimaries"] is False)


def test_attachment_passes_its_phases(yard):
    """Those that are over at once are not told of."""
    yard.ready_volume()
    node = others(yard)[0]
    seen = []
    yard.system.attachments.on_change(
        lambda new, _: seen.append((new or {}).get("status", {}).get("phase"))
    )
    yard.attach(node)
    yard.until(is_attached(yard, node))
    yard.site.machines.power_off(node)
    yard.detach(node)
    yard.advance(5)
    yard.site.machines.power_on(node)
    yard.until(lambda: yard.get(RVA, f"rva-v-{node}") is None, timeout=180)
    assert list(dict.fromkeys(seen)) == [None, "Attaching", "Attached", "Detaching"]


def test_access_replica_is_created_and_deleted_with_its_attachment(yard):
    yard.ready_volume()
    node = others(yard)[0]
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Attached") == ("False", "WaitingForReplica"))
    yard.until(is_attached(yard, node))
    assert yard.kinds() == "3D1A1T"
    assert yard.of_attachment(node)["ReplicaIOReady"] == ("True", "IOReady")
    yard.detach(node)
    yard.until(lambda: yard.kinds() == "3D", timeout=30)
    yard.until(lambda: len(yard.replicas()) == 3, timeout=30)
    yard.until(yard.is_whole)


def test_tie_breaker_becomes_access_before_promotion(yard):
    yard.ready_volume(storage_class="availability")
    (tie,) = yard.replicas(type_="TieBreaker")
    node = tie["spec"]["nodeName"]
    yard.until(lambda: yard.status(RVR, tie["metadata"]["name"]).get("actualType") == "TieBreaker")
    yard.advance(1)
    seen = []
    yard.system.attachments.on_change(
        lambda new, _: seen.extend(
            one["reason"]
            for one in (new or {}).get("status", {}).get("conditions", ())
            if one["type"] == "Attached"
        )
    )
    yard.site.machines.power_off(node)
    yard.attach(node)
    yard.advance(5)
    yard.site.machines.power_on(node)
    yard.until(is_attached(yard, node), timeout=180)
    assert (seen[0], seen[-1]) == ("ConvertingTieBreakerToAccess", "Attached")
    assert yard.get(RVR, tie["metadata"]["name"])["spec"]["type"] == "Access"
    assert yard.kinds() == "2D1A"


def test_attachment_may_exist_before_its_volume(yard):
    yard.attach("node-3")
    yard.advance(1)
    assert yard.of_attachment("node-3")["Attached"] == ("False", "WaitingForReplicatedVolume")
    assert yard.status(RVA, "rva-v-node-3")["phase"] == "Pending"
    yard.volume()
    yard.until(
        lambda: (
            yard.of_attachment("node-3")["Attached"] == ("False", "WaitingForReplicatedVolumeReady")
        )
    )
    yard.until(is_attached(yard, "node-3"), timeout=30)
    assert "node-3" in [one["spec"]["nodeName"] for one in yard.replicas(type_="Diskful")]


def test_attachment_without_a_volume_is_deleted_at_once(yard):
    yard.attach("node-3")
    yard.advance(1)
    yard.detach("node-3")
    assert yard.until(lambda: yard.get(RVA, "rva-v-node-3") is None) <= 0.5


def test_attached_volume_is_deleted_after_detachment(yard):
    yard.ready_volume()
    node = yard.nodes()[0]
    yard.attach(node)
    yard.until(is_attached(yard, node))
    yard.delete(RV, "v")
    yard.advance(30)
    assert len(yard.replicas()) == 3
    assert yard.status(RV, "v")["phase"] == "Terminating"
    assert is_attached(yard, node)()
    yard.detach(node)
    yard.until(lambda: yard.get(RV, "v") is None)


def local_class(yard):
    obj = storage_class("local", "None")
    yard.call(
        yard.api.create(
            REPLICATED_STORAGE_CLASSES, {**obj, "spec": {**obj["spec"], "volumeAccess": "Local"}}
        )
    )


def test_local_volume_is_attached_where_its_disk_is(yard):
    local_class(yard)
    yard.ready_volume(storage_class="local")
    here, elsewhere = yard.nodes()[0], others(yard)[0]
    yard.attach(elsewhere)
    yard.attach(here)
    yard.until(is_attached(yard, here))
    assert yard.of_attachment(elsewhere)["Attached"] == (
        "False",
        "UnableToProvideLocalVolumeAccess",
    )
    assert yard.kinds() == "1D"


def test_local_volume_without_a_disk_waits(yard_of):
    yard = yard_of(nodes=3)
    for node in yard.node_names:
        yard.call(
            yard.api.patch(
                NODES,
                node,
                {"metadata": {"labels": {"storage.deckhouse.io/sds-replicated-volume-node": None}}},
            )
        )
    yard.advance(1)
    local_class(yard)
    yard.volume(storage_class="local")
    yard.attach("node-1")
    yard.until(
        lambda: yard.of_attachment("node-1").get("Attached") == ("False", "LocalityNotSatisfied")
    )


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
def test_newer_storage_attaches_up_to_the_volume_limit(yard_of, generation):
    yard = yard_of(generation)
    yard.volume(maxAttachments=2)
    yard.until(
        lambda: yard.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate") == 1
    )
    one, two, _ = yard.nodes()
    yard.volume("w")
    yard.until(
        lambda: yard.status(RV, "w").get("effectiveLayout", {}).get("failuresToTolerate") == 1
    )
    for volume in ("v", "w"):
        for node in yard.nodes(volume)[:2]:
            yard.attach(node, volume)
            yard.advance(2)
    assert yard.status(RV, "v")["actuallyAttachedTo"] == [one, two]
    assert yard.status(RV, "v")["datamesh"]["multiattach"] is True
    assert len(yard.status(RV, "w")["actuallyAttachedTo"]) == 1
    status = yard.status(RVA, f"rva-v-{one}")
    assert (status["phase"], status["inUse"], status["devicePath"]) == (
        "Attached",
        True,
        "/dev/drbd/by-res/v/0",
    )
