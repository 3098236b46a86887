"""Every documented reason of a condition occurs in one run with many failures."""

from __future__ import annotations

from storage_cluster import RV, RVA, RVR

from pytest_kscen.models.storage.manifests import storage_class
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.storage import NODE_LABEL, REPLICATED_STORAGE_CLASSES

REASONS = {
    RV: {
        "IOReady": {"IOReady", "InsufficientIOReadyReplicas", "NoIOReadyReplicas"},
        "Quorum": {"QuorumReached", "QuorumDegraded", "QuorumLost"},
    },
    RVR: {
        "Scheduled": {"Scheduled", "NoNodeFree"},
        "DataInitialized": {"DataInitialized", "WaitingForData", "NotNeeded"},
        "InQuorum": {"InQuorum", "QuorumLost"},
        "InSync": {"InSync", "Synchronizing", "Outdated", "Diskless"},
        "ConfigurationAdjusted": {"ConfigurationAdjusted"},
        "BackingVolumeCreated": {"BackingVolumeReady", "NotNeeded"},
        "Attached": {"Attached", "Detached"},
        "Online": {
            "Online",
            "Unscheduled",
            "Uninitialized",
            "QuorumLost",
            "NodeNotReady",
            "AgentNotReady",
            "AgentPodMissing",
        },
        "IOReady": {
            "IOReady",
            "Offline",
            "OutOfSync",
            "NodeNotReady",
            "AgentNotReady",
            "AgentPodMissing",
        },
    },
    RVA: {
        "Attached": {
            "Attached",
            "SettingPrimary",
            "WaitingForReplica",
            "WaitingForReplicatedVolume",
            "WaitingForReplicatedVolumeReady",
            "WaitingForActiveAttachmentsToDetach",
            "ConvertingTieBreakerToAccess",
            "LocalityNotSatisfied",
            "UnableToProvideLocalVolumeAccess",
        },
        "Ready": {"Ready", "NotAttached", "ReplicaNotReady"},
    },
}


def test_every_reason_occurs(storage_cluster):
    seen = _watch(storage_cluster)
    _attach_in_every_way(storage_cluster)
    _break_in_every_way(storage_cluster)
    missing = {
        (resource.kind, kind): sorted(reasons - seen.get((resource.kind, kind), set()))
        for resource, kinds in REASONS.items()
        for kind, reasons in kinds.items()
    }
    assert {what: reasons for what, reasons in missing.items() if reasons} == {}


def _watch(storage_cluster):
    seen = {}

    def look(new, _):
        for one in ((new or {}).get("status") or {}).get("conditions", ()):
            seen.setdefault((new["kind"], one["type"]), set()).add(one["reason"])

    for picture in (
        storage_cluster.system.volumes,
        storage_cluster.system.replicas,
        storage_cluster.system.attachments,
    ):
        picture.on_change(look)
    return seen


def _attach_in_every_way(storage_cluster):
    obj = storage_class("local", "None")
    storage_cluster.call(
        storage_cluster.api.create(
            REPLICATED_STORAGE_CLASSES, {**obj, "spec": {**obj["spec"], "volumeAccess": "Local"}}
        )
    )
    storage_cluster.attach("node-1", "a")
    storage_cluster.advance(1)
    storage_cluster.volume("a", "availability")
    storage_cluster.volume("l", "local")
    storage_cluster.attach("node-2", "l")
    storage_cluster.advance(20)
    for node in storage_cluster.node_names:
        storage_cluster.attach(node, "l") if node not in (
            "node-2",
            *storage_cluster.nodes("l"),
        ) else None
    ties = [one["spec"]["nodeName"] for one in storage_cluster.replicas("a", "TieBreaker")]
    storage_cluster.site.machines.power_off(ties[0])
    storage_cluster.attach(ties[0], "a")
    storage_cluster.advance(5)
    storage_cluster.site.machines.power_on(ties[0])
    storage_cluster.advance(120)
    for node in [
        *ties[1:],
        *(name for name in storage_cluster.node_names if name != "node-1" and name not in ties),
    ]:
        storage_cluster.attach(node, "a")
        storage_cluster.advance(1)
    storage_cluster.detach("node-1", "a")
    storage_cluster.advance(20)


def _break_in_every_way(storage_cluster):
    storage_cluster.ready_volume("b", size="1Gi")
    first, second, _ = storage_cluster.nodes("b")
    storage_cluster.cut_replication()
    storage_cluster.attach(first, "b")  # a kernel that gets no answer from its peers refuses
    storage_cluster.advance(2)
    storage_cluster.heal_replication()
    storage_cluster.advance(5)
    for node in (first, second):
        storage_cluster.kill(storage_cluster.pods("agent", node)[0])
    storage_cluster.advance(10)
    storage_cluster.site.machines.power_off(second)
    storage_cluster.advance(900)  # so that it misses more than it gets before it tells
    storage_cluster.site.machines.power_on(second)
    storage_cluster.advance(100)
    storage_cluster.cut_replication()
    storage_cluster.advance(60)
    storage_cluster.heal_replication()
    storage_cluster.advance(120)
    storage_cluster.site.machines.power_off(first)
    storage_cluster.site.machines.power_off(second)
    storage_cluster.advance(100)
    storage_cluster.site.machines.power_on(first)
    storage_cluster.site.machines.power_on(second)
    storage_cluster.advance(100)
    for node in storage_cluster.node_names:
        storage_cluster.call(
            storage_cluster.api.patch(NODES, node, {"metadata": {"labels": {NODE_LABEL: None}}})
        )
    storage_cluster.volume("c", "local")
    storage_cluster.attach("node-1", "c")
    storage_cluster.advance(10)
