"""One stormy day, watched: every reason that conditions may have is given by somebody at some
time.
"""

from __future__ import annotations

from storage_yard import RV, RVA, RVR

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


def test_every_reason_occurs(yard):
    seen = _watch(yard)
    _attach_in_every_way(yard)
    _break_in_every_way(yard)
    missing = {
        (resource.kind, kind): sorted(reasons - seen.get((resource.kind, kind), set()))
        for resource, kinds in REASONS.items()
        for kind, reasons in kinds.items()
    }
    assert {what: reasons for what, reasons in missing.items() if reasons} == {}


def _watch(yard):
    seen = {}

    def look(new, _):
        for one in ((new or {}).get("status") or {}).get("conditions", ()):
            seen.setdefault((new["kind"], one["type"]), set()).add(one["reason"])

    for picture in (yard.system.volumes, yard.system.replicas, yard.system.attachments):
        picture.on_change(look)
    return seen


def _attach_in_every_way(yard):
    obj = storage_class("local", "None")
    yard.call(
        yard.api.create(
            REPLICATED_STORAGE_CLASSES, {**obj, "spec": {**obj["spec"], "volumeAccess": "Local"}}
        )
    )
    yard.attach("node-1", "a")
    yard.advance(1)
    yard.volume("a", "availability")
    yard.volume("l", "local")
    yard.attach("node-2", "l")
    yard.advance(20)
    for node in yard.node_names:
        yard.attach(node, "l") if node not in ("node-2", *yard.nodes("l")) else None
    ties = [one["spec"]["nodeName"] for one in yard.replicas("a", "TieBreaker")]
    yard.site.machines.power_off(ties[0])
    yard.attach(ties[0], "a")
    yard.advance(5)
    yard.site.machines.power_on(ties[0])
    yard.advance(120)
    for node in [
        *ties[1:],
        *(name for name in yard.node_names if name != "node-1" and name not in ties),
    ]:
        yard.attach(node, "a")
        yard.advance(1)
    yard.detach("node-1", "a")
    yard.advance(20)


def _break_in_every_way(yard):
    yard.ready_volume("b", size="1Gi")
    first, second, _ = yard.nodes("b")
    yard.cut_replication()
    yard.attach(first, "b")  # a kernel that gets no answer from its peers refuses
    yard.advance(2)
    yard.heal_replication()
    yard.advance(5)
    for node in (first, second):
        yard.kill(yard.pods("agent", node)[0])
    yard.advance(10)
    yard.site.machines.power_off(second)
    yard.advance(900)  # so that it misses more than it gets before it tells
    yard.site.machines.power_on(second)
    yard.advance(100)
    yard.cut_replication()
    yard.advance(60)
    yard.heal_replication()
    yard.advance(120)
    yard.site.machines.power_off(first)
    yard.site.machines.power_off(second)
    yard.advance(100)
    yard.site.machines.power_on(first)
    yard.site.machines.power_on(second)
    yard.advance(100)
    for node in yard.node_names:
        yard.call(yard.api.patch(NODES, node, {"metadata": {"labels": {NODE_LABEL: None}}}))
    yard.volume("c", "local")
    yard.attach("node-1", "c")
    yard.advance(10)
