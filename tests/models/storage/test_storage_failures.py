"""Status conditions of a volume and its replicas during failures, and after recovery."""

from __future__ import annotations

import pytest
from storage_cluster import RV, RVR

from pytest_kscen.models.storage.controller import LEASE_DURATION
from pytest_kscen.objects.resources import LEASES, PODS
from pytest_kscen.objects.storage import NAMESPACE

LEASE = "sds-replicated-volume-controller"
HEALTHY = {"IOReady": ("True", "IOReady"), "Quorum": ("True", "QuorumReached")}


def leader(storage_cluster):
    return storage_cluster.call(storage_cluster.api.get(LEASES, LEASE, NAMESPACE))["spec"][
        "holderIdentity"
    ]


def test_new_leader_creates_replicas_after_the_lease_expires(storage_cluster):
    storage_cluster.advance(30)
    first = leader(storage_cluster)
    renewed = storage_cluster.call(storage_cluster.api.get(LEASES, LEASE, NAMESPACE))["spec"][
        "renewTime"
    ]
    storage_cluster.kill(storage_cluster.call(storage_cluster.api.get(PODS, first, NAMESPACE)))
    storage_cluster.volume()
    waited = storage_cluster.until(lambda: storage_cluster.replicas() != [])
    assert LEASE_DURATION - 10 <= waited <= LEASE_DURATION + 1
    assert renewed
    assert leader(storage_cluster) != first
    storage_cluster.until(storage_cluster.is_whole)


def test_live_leader_renews_its_lease(storage_cluster):
    first = leader(storage_cluster)
    storage_cluster.advance(300)
    assert leader(storage_cluster) == first
    assert (
        storage_cluster.call(storage_cluster.api.get(LEASES, LEASE, NAMESPACE))["spec"][
            "leaseTransitions"
        ]
        == 0
    )


def test_killed_agent_is_detected_and_restarts(storage_cluster):
    """The agent's own conditions stay; the controller sets `Online` to report the missing agent."""
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[1]
    before = storage_cluster.conditions_of(RVR, "v-1")
    seen = {}
    storage_cluster.system.replicas.on_change(
        lambda new, _: [
            seen.setdefault((one["type"], one["reason"]))
            for one in ((new or {}).get("status") or {}).get("conditions", ())
            if one["status"] == "False" and new["metadata"]["name"] == "v-1"
        ]
    )
    (pod,) = storage_cluster.pods("agent", node)
    storage_cluster.kill(pod)
    storage_cluster.until(
        lambda: storage_cluster.of_volume()["IOReady"] == ("False", "InsufficientIOReadyReplicas"),
        timeout=3,
    )
    assert storage_cluster.of_volume()["Quorum"] == ("True", "QuorumReached")
    assert {
        kind: reported
        for kind, reported in storage_cluster.conditions_of(RVR, "v-1").items()
        if kind in ("InQuorum", "InSync")
    } == {
        "InQuorum": before["InQuorum"],
        "InSync": before["InSync"],
    }
    assert storage_cluster.until(storage_cluster.is_whole) < 10
    assert {("Online", "AgentPodMissing"), ("Online", "AgentNotReady")} & set(seen)
    assert storage_cluster.conditions_of(RVR, "v-1") == before


def test_new_agent_starts_from_the_api_state(storage_cluster):
    """Attach a volume while its agent is down: the agent attaches it after the restart."""
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[0]
    (pod,) = storage_cluster.pods("agent", node)
    storage_cluster.kill(pod)
    storage_cluster.attach(node)
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready"), timeout=20
    )


def test_replica_is_not_ready_after_a_power_loss(storage_cluster):
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[2]
    storage_cluster.site.machines.power_off(node)
    storage_cluster.until(
        lambda: (
            storage_cluster.conditions_of(RVR, "v-0")["InSync"]
            and len(links(storage_cluster, "v-0")) == 1
        ),
        timeout=30,
    )
    assert storage_cluster.of_volume() == HEALTHY  # its node's lease has not expired yet
    storage_cluster.until(lambda: storage_cluster.of_volume()["IOReady"][0] == "False", timeout=60)
    assert (
        storage_cluster.conditions_of(RVR, "v-2")["Online"]
        == storage_cluster.conditions_of(RVR, "v-2")["IOReady"]
        == ("False", "NodeNotReady")
    )
    assert storage_cluster.conditions_of(RVR, "v-2")["InQuorum"] == (
        "True",
        "InQuorum",
    )  # the last value that its agent reported
    assert storage_cluster.of_volume()["Quorum"] == ("True", "QuorumReached")
    storage_cluster.advance(60)
    storage_cluster.site.machines.power_on(node)
    storage_cluster.until(storage_cluster.is_whole, timeout=120)
    storage_cluster.until(
        lambda: links(storage_cluster, "v-2") == sorted(storage_cluster.nodes()[:2])
    )


def links(storage_cluster, replica):
    kernel = storage_cluster.status(RVR, replica)["drbd"]["status"]
    return sorted(
        one["name"] for one in kernel["connections"] if one["connectionState"] == "Connected"
    )


def test_volume_is_not_ready_while_two_of_three_machines_are_off(storage_cluster):
    storage_cluster.ready_volume()
    first, second, _ = storage_cluster.nodes()
    storage_cluster.site.machines.power_off(first)
    storage_cluster.site.machines.power_off(second)
    storage_cluster.until(lambda: storage_cluster.of_volume()["IOReady"][0] == "False", timeout=60)
    storage_cluster.until(
        lambda: storage_cluster.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas"), timeout=60
    )
    assert storage_cluster.conditions_of(RVR, "v-2")["Online"] == ("False", "QuorumLost")
    for _ in range(24):
        storage_cluster.advance(5)
        assert storage_cluster.of_volume()["IOReady"] == ("False", "NoIOReadyReplicas")
    assert storage_cluster.kinds() == "3D"  # replicas are kept, their machines may return
    assert storage_cluster.of_volume()["Quorum"] == ("True", "QuorumDegraded")


def test_volume_loses_quorum_when_replication_is_cut(storage_cluster):
    """Cut the links between nodes; all nodes keep their connection to the API."""
    storage_cluster.ready_volume()
    storage_cluster.cut_replication()
    storage_cluster.until(
        lambda: storage_cluster.of_volume()["Quorum"] == ("False", "QuorumLost"), timeout=60
    )
    assert storage_cluster.conditions_of(RVR, "v-0")["InQuorum"] == ("False", "QuorumLost")
    storage_cluster.heal_replication()
    storage_cluster.until(lambda: storage_cluster.of_volume() == HEALTHY, timeout=180)


def test_disk_that_missed_writes_is_out_of_sync(storage_cluster):
    storage_cluster.ready_volume(size="2Gi")
    node, away = storage_cluster.nodes()[0], storage_cluster.nodes()[1]
    storage_cluster.attach(node)
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
    )
    storage_cluster.site.machines.power_off(away)
    storage_cluster.advance(1200)
    seen = {}
    storage_cluster.system.replicas.on_change(
        lambda new, _: [
            seen.setdefault((one["type"], one["reason"]))
            for one in ((new or {}).get("status") or {}).get("conditions", ())
            if new["metadata"]["name"] == "v-1"
        ]
    )
    storage_cluster.site.machines.power_on(away)
    storage_cluster.until(storage_cluster.is_whole, timeout=300)
    assert ("IOReady", "OutOfSync") in seen


def test_primary_is_promoted_again_after_a_power_loss(storage_cluster):
    storage_cluster.ready_volume()
    node = storage_cluster.nodes()[0]
    storage_cluster.attach(node)
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
    )
    storage_cluster.site.machines.power_off(node)
    storage_cluster.advance(90)
    assert storage_cluster.of_attachment(node)["Ready"] == ("False", "ReplicaNotReady")
    storage_cluster.site.machines.power_on(node)
    storage_cluster.until(
        lambda: storage_cluster.of_attachment(node)["Ready"] == ("True", "Ready"), timeout=180
    )


@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
def test_newer_storage_counts_present_replicas(build_storage_cluster, generation):
    storage_cluster = build_storage_cluster(generation)
    storage_cluster.volume()
    storage_cluster.until(
        lambda: (
            storage_cluster.status(RV, "v").get("effectiveLayout", {}).get("failuresToTolerate")
            == 1
        )
    )
    first, second, third = storage_cluster.nodes()
    storage_cluster.site.machines.power_off(first)
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["effectiveLayout"]["reachableVoters"] == 2,
        timeout=60,
    )
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["effectiveLayout"]["staleAgents"] == 1, timeout=60
    )
    layout = storage_cluster.status(RV, "v")["effectiveLayout"]
    assert (
        layout["failuresToTolerate"],
        layout["guaranteedMinimumDataRedundancy"],
        layout["staleAgents"],
    ) == (0, 1, 1)
    storage_cluster.site.machines.power_off(second)
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["effectiveLayout"]["failuresToTolerate"] == -1,
        timeout=60,
    )
    if generation == "ready":
        assert storage_cluster.of_volume()["Ready"] == ("False", "QuorumLost")
    storage_cluster.site.machines.power_off(third)
    storage_cluster.until(
        lambda: "failuresToTolerate" not in storage_cluster.status(RV, "v")["effectiveLayout"],
        timeout=420,
    )
    if generation == "ready":
        assert storage_cluster.of_volume()["Ready"] == ("Unknown", "StatusUnknown")
    for node in (first, second, third):
        storage_cluster.site.machines.power_on(node)
    storage_cluster.until(
        lambda: storage_cluster.status(RV, "v")["effectiveLayout"].get("failuresToTolerate") == 1,
        timeout=200,
    )


def test_ready_condition_has_reasons(build_storage_cluster):
    storage_cluster = build_storage_cluster("ready")
    seen = {}

    def record_reasons(new, _):
        for one in ((new or {}).get("status") or {}).get("conditions", ()):
            seen.setdefault((one["type"], one["status"], one["reason"]))

    storage_cluster.system.volumes.on_change(record_reasons)
    storage_cluster.volume()
    storage_cluster.until(storage_cluster.is_whole)
    storage_cluster.site.machines.power_off(storage_cluster.nodes()[0])
    storage_cluster.until(
        lambda: storage_cluster.of_volume()["Resilient"] == ("False", "Degraded"), timeout=90
    )
    assert storage_cluster.of_volume()["Ready"] == ("True", "Ready")
    storage_cluster.delete(RV, "v")
    storage_cluster.advance(2)
    ready = [(status, reason) for kind, status, reason in seen if kind == "Ready"]
    assert ready == [("False", "Forming"), ("True", "Ready"), ("False", "Terminating")]
