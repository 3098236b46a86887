"""Conditions of volumes do not change without failures, during all user actions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from storage_cluster import RVR, StorageCluster

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.view import RunState
from pytest_kscen.megatest.volume import multivolume
from pytest_kscen.models.storage.generations import GENERATIONS
from pytest_kscen.models.storage.generations.datamesh import effective_layout
from pytest_kscen.models.storage.nodes import StorageNode
from pytest_kscen.models.storage.volume_view import QuorumSettings, VolumeReplica, VolumeView
from pytest_kscen.objects.storage import HEALTH_SOURCES

CLASSES = ("none", "availability", "consistency-and-availability")
MINUTES = 3


def lost_conditions(storage_cluster):
    """Collect condition changes of volumes that were ready once and are not being deleted."""
    whole, found = set(), []

    def look(new, _):
        if not new or "deletionTimestamp" in new["metadata"]:
            return
        name, conditions_of = (
            new["metadata"]["name"],
            (new.get("status") or {}).get("conditions") or [],
        )
        bad = [
            (one["type"], one["reason"], one["message"])
            for one in conditions_of
            if one["status"] != "True"
        ]
        if bad and name in whole:
            found.append((storage_cluster.now, name, bad))
        elif conditions_of and not bad:
            whole.add(name)

    storage_cluster.system.volumes.on_change(look)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("generation", ["conditions", "effectiveLayout", "ready"])
def test_conditions_hold_through_attachment_migration_and_growth(generation, seed):
    cluster = EmbeddedCluster(f"calm {seed}")
    storage_cluster, state = StorageCluster(cluster, generation), RunState()
    found = lost_conditions(storage_cluster)
    journal = Journal(cluster.runner.clock)
    stage = RunContext(
        cluster.api,
        cluster.runner.clock,
        cluster.chance,
        journal,
        "run1",
        health=HEALTH_SOURCES[generation],
    )
    churn = Churn(
        storage_classes=CLASSES,
        max_volumes=5,
        lifetime=(40.0, 80.0),
        attacher_period=(2.0, 10.0),
        resizer=True,
        replica_creator=True,
    )
    cluster.runner.start(multivolume(stage, churn, state), "multivolume")
    storage_cluster.advance(60 * MINUTES)
    entries = list(journal)
    cluster.close()
    journal.close()
    assert {"attach", "detach", "create a replica"} <= {
        one.data["action"] for one in entries if one.what == "ended"
    }
    assert [one for one in entries if one.what == "condition-changed"] == []
    assert found == []


def test_joining_replica_does_not_cost_quorum(storage_cluster):
    (disk,) = storage_cluster.ready_volume(storage_class="none")
    found = lost_conditions(storage_cluster)
    one, two = [node for node in storage_cluster.node_names if node != disk["spec"]["nodeName"]][:2]
    storage_cluster.attach(one)
    storage_cluster.attach(two)
    storage_cluster.until(
        lambda: all(
            storage_cluster.of_attachment(node).get("Ready") == ("True", "Ready")
            for node in (one, two)
        )
    )
    assert storage_cluster.kinds() == "1D2A"
    storage_cluster.detach(one)
    storage_cluster.until(
        lambda: (
            storage_cluster.kinds() == "1D1A1T"
            and all(
                storage_cluster.conditions_of(RVR, x["metadata"]["name"])
                for x in storage_cluster.replicas()
            )
        )
    )
    storage_cluster.advance(20)
    assert found == []


def member(number, type_, linked, *, joined=True):
    linked = tuple(f"v-{one}" for one in linked)
    facts = {"initialized": joined, "up_to_date": joined and type_ == "Diskful", "linked": linked}
    return VolumeReplica(
        {}, f"v-{number}", f"node-{number}", type_, deleting=False, held=True, **facts
    )


@pytest.mark.parametrize(("joined", "failures"), [(False, 0), (True, -1)])
def test_joining_replica_does_not_reduce_fault_tolerance(joined, failures):
    """One of two disks is absent, and the tie-breaker decides, alone or as one of two voters."""
    disks = [member(0, "Diskful", [2]), member(1, "Diskful", [])]
    others = [member(2, "TieBreaker", [0]), member(3, "Access", [], joined=joined)]
    storage_nodes = SimpleNamespace(host=lambda name: StorageNode(name, problem=""))
    layout = GENERATIONS["effectiveLayout"].layout(
        {"spec": {"replication": "Availability"}}, {"spec": {}}
    )
    view = VolumeView("v", {"metadata": {}}, layout, [*disks, *others], [], storage_nodes)
    assert effective_layout(view, QuorumSettings(2, 1)).failures == failures


def test_replica_without_a_disk_is_diskless_whatever_its_name():
    """A tie-breaker converted to Access decides until there is another one."""
    replicas = [
        member(0, "Diskful", [1, 2]),
        member(1, "Diskful", [0, 2]),
        member(2, "Access", [0, 1]),
    ]
    storage_nodes = SimpleNamespace(host=lambda name: StorageNode(name, problem=""))
    layout = GENERATIONS["effectiveLayout"].layout(
        {"spec": {"replication": "Availability"}}, {"spec": {}}
    )
    view = VolumeView(
        "v",
        {"metadata": {}},
        layout,
        [*replicas, member(3, "TieBreaker", [], joined=False)],
        [],
        storage_nodes,
    )
    assert effective_layout(view, QuorumSettings(2, 1)).failures == 1
