"""What the storage says while pods, machines and leaders are gone, and when they are back."""

from __future__ import annotations

import pytest
from storage_yard import RV, RVR

from pytest_kscen.models.storage.controller import LEASE_DURATION
from pytest_kscen.objects.resources import LEASES, PODS
from pytest_kscen.objects.storage import NAMESPACE

LEASE = "sds-replicated-volume-controller"
HEALTHY = {"IOReady": ("True", "IOReady"), "Quorum": ("True", "QuorumReached")}


def leader(yard):
    return yard.call(yard.api.get(LEASES, LEASE, NAMESPACE))["spec"]["holderIdentity"]


def test_nothing_happens_without_a_leader_until_the_lease_expires(yard):
    yard.advance(30)
    first = leader(yard)
    renewed = yard.call(yard.api.get(LEASES, LEASE, NAMESPACE))["spec"]["renewTime"]
    yard.kill(yard.call(yard.api.get(PODS, first, NAMESPACE)))
    yard.volume()
    waited = yard.until(lambda: yard.replicas() != [])
    assert LEASE_DURATION - 10 <= waited <= LEASE_DURATION + 1
    assert renewed
    assert leader(yard) != first
    yard.until(yard.is_whole)


def test_live_leader_renews_its_lease(yard):
    first = leader(yard)
    yard.advance(300)
    assert leader(yard) == first
    assert yard.call(yard.api.get(LEASES, LEASE, NAMESPACE))["spec"]["leaseTransitions"] == 0


def test_killed_agent_is_detected_and_restarts(yard):
    """Its replica's own words stay; the controller's say that its agent does not report."""
    yard.ready_volume()
    node = yard.nodes()[1]
    before = yard.said(RVR, "v-1")
    seen = {}
    yard.system.replicas.on_change(
        lambda new, _: [
            seen.setdefault((one["type"], one["reason"]))
            for one in ((new or {}).get("status") or {}).get("conditions", ())
            if one["status"] == "False" and new["metadata"]["name"] == "v-1"
        ]
    )
    (pod,) = yard.pods("agent", node)
    yard.kill(pod)
    yard.until(
        lambda: yard.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas"), timeout=3
    )
    assert yard.of_volume()["Quorum"] == ("True", "QuorumReached")
    assert {
        kind: told for kind, told in yard.said(RVR, "v-1").items() if kind in ("InQuorum", "InSync")
    } == {
        "InQuorum": before["InQuorum"],
        "InSync": before["InSync"],
    }
    assert yard.until(yard.is_whole) < 10
    assert {("Online", "AgentPodMissing"), ("Online", "AgentNotReady")} & set(seen)
    assert yard.said(RVR, "v-1") == before


def test_new_agent_starts_from_the_api_state(yard):
    """What was asked for while it was away is done when it is back."""
    yard.ready_volume()
    node = yard.nodes()[0]
    (pod,) = yard.pods("agent", node)
    yard.kill(pod)
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"), timeout=20)


def test_power_loss_under_a_replica(yard):
    yard.ready_volume()
    node = yard.nodes()[2]
    yard.site.machines.power_off(node)
    yard.until(lambda: yard.said(RVR, "v-0")["InSync"] and len(links(yard, "v-0")) == 1, timeout=30)
    assert yard.of_volume() == HEALTHY  # nobody has missed its node yet
    yard.until(lambda: yard.of_volume()["IOReady"][0] == "False", timeout=60)
    assert (
        yard.said(RVR, "v-2")["Online"]
        == yard.said(RVR, "v-2")["IOReady"]
        == ("False", "NodeNotReady")
    )
    assert yard.said(RVR, "v-2")["InQuorum"] == ("True", "InQuorum")  # its last word
    assert yard.of_volume()["Quorum"] == ("True", "QuorumReached")
    yard.advance(60)
    yard.site.machines.power_on(node)
    yard.until(yard.is_whole, timeout=120)
    yard.until(lambda: links(yard, "v-2") == sorted(yard.nodes()[:2]))


def links(yard, replica):
    kernel = yard.status(RVR, replica)["drbd"]["status"]
    return sorted(
        one["name"] for one in kernel["connections"] if one["connectionState"] == "Connected"
    )


def test_two_stopped_machines_of_three_are_reported_until_they_return(yard):
    yard.ready_volume()
    first, second, _ = yard.nodes()
    yard.site.machines.power_off(first)
    yard.site.machines.power_off(second)
    yard.until(lambda: yard.of_volume()["IOReady"][0] == "False", timeout=60)
    yard.until(lambda: yard.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas"), timeout=60)
    assert yard.said(RVR, "v-2")["Online"] == ("False", "QuorumLost")
    for _ in range(24):
        yard.advance(5)
        assert yard.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas")
    assert yard.kinds() == "3D"  # nobody deletes what may come back
    assert yard.of_volume()["Quorum"] == ("True", "QuorumDegraded")


def test_quorum_of_a_volume_is_lost_when_its_agents_report_it(yard):
    """Cut from each other, not from the API."""
    yard.ready_volume()
    yard.cut_replication()
    yard.until(lambda: yard.of_volume()["Quorum"] == ("False", "QuorumLost"), timeout=60)
    assert yard.said(RVR, "v-0")["InQuorum"] == ("False", "QuorumLost")
    yard.heal_replication()
    yard.until(lambda: yard.of_volume() == HEALTHY, timeout=180)


def test_disk_that_missed_writes_is_out_of_sync(yard):
    yard.ready_volume(size="2Gi")
    node, away = yard.nodes()[0], yard.nodes()[1]
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"))
    yard.site.machines.power_off(away)
    yard.advance(1200)
    seen = {}
    yard.system.replicas.on_change(
        lambda new, _: [
            seen.setdefault((one["type"], one["reason"]))
            for one in ((new or {}).get("status") or {}).get("conditions", ())
            if new["metadata"]["name"] == "v-1"
        ]
    )
    yard.site.machines.power_on(away)
    yard.until(yard.is_whole, timeout=300)
    assert ("IOReady", "OutOfSync") in seen


def test_primary_is_promoted_again_after_a_power_loss(yard):
    yard.ready_volume()
    node = yard.nodes()[0]
    yard.attach(node)
    yard.until(lambda: yard.of_attachment(node).get("Ready") == ("True", "Ready"))
    yard.site.machines.power_off(node)
    yard.advance(90)
    assert yard.of_attachment(node)["Ready"] == ("False", "ReplicaNotReady")
    yard.site.machines.power_on(node)
    yard.until(lambda: yard.of_attachment(node)["Ready"] == ("True", "Ready"), timeout=180)


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
def test_newer_storage_counts_present_replicas(yard_of, generation):
    yard = yard_of(generation)
    yard.volume()
    yard.until(
        lambda: yard.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate") == 1
    )
    first, second, third = yard.nodes()
    yard.site.machines.power_off(first)
    yard.until(lambda: yard.status(RV, "v")["effectiveLayout"]["reachableVoters"] == 2, timeout=60)
    yard.until(lambda: yard.status(RV, "v")["effectiveLayout"]["staleAgents"] == 1, timeout=60)
    layout = yard.status(RV, "v")["effectiveLayout"]
    assert (
        layout["failuresToTolerate"],
        layout["guaranteedMinimumDataRedundancy"],
        layout["staleAgents"],
    ) == (0, 1, 1)
    yard.site.machines.power_off(second)
    yard.until(
        lambda: yard.status(RV, "v")["effectiveLayout"]["failuresToTolerate"] == -1, timeout=60
    )
    if generation == "ready":
        assert yard.of_volume()["Ready"] == ("False", "QuorumLost")
    yard.site.machines.power_off(third)
    yard.until(
        lambda: "failuresToTolerate" not in yard.status(RV, "v")["effectiveLayout"], timeout=420
    )
    if generation == "ready":
        assert yard.of_volume()["Ready"] == ("Unknown", "StatusUnknown")
    for node in (first, second, third):
        yard.site.machines.power_on(node)
    yard.until(
        lambda: yard.status(RV, "v")["effectiveLayout"].get("failuresToTolerate") == 1, timeout=200
    )


def test_ready_condition_has_reasons(yard_of):
    yard = yard_of("ready")
    seen = {}

    def look(new, _):
        for one in ((new or {}).get("status") or {}).get("conditions", ()):
            seen.setdefault((one["type"], one["status"], one["reason"]))

    yard.system.volumes.on_change(look)
    yard.volume()
    yard.until(yard.is_whole)
    yard.site.machines.power_off(yard.nodes()[0])
    yard.until(lambda: yard.of_volume()["Resilient"] == ("False", "Degraded"), timeout=90)
    assert yard.of_volume()["Ready"] == ("True", "Ready")
    yard.delete(RV, "v")
    yard.advance(2)
    ready = [(status, reason) for kind, status, reason in seen if kind == "Ready"]
    assert ready == [("False", "Forming"), ("True", "Ready"), ("False", "Terminating")]
