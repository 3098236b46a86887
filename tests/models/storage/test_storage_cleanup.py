"""Deleted objects leave no state, so that long runs do not slow down."""

from __future__ import annotations

import gc

import pytest
from storage_cluster import RV, RVR

from pytest_kscen.embedded.kubelet.container import ContainerWorker
from pytest_kscen.embedded.kubelet.pod import PodWorker
from pytest_kscen.models.storage.agent import StorageAgent
from pytest_kscen.models.storage.drbd.connections import PeerLink
from pytest_kscen.models.storage.drbd.resource import DrbdResource


@pytest.fixture
def living():
    """How many objects of a class there are, while no garbage collector is at work."""
    gc.collect()
    gc.disable()
    yield lambda kind: sum(type(one) is kind for one in gc.get_objects())
    gc.enable()


def test_kernels_forget_a_deleted_volume(storage_cluster, living):
    for name in ("v", "w"):
        storage_cluster.ready_volume(name)
    storage_cluster.attach(storage_cluster.nodes()[0])
    storage_cluster.advance(10)
    assert (living(DrbdResource), living(PeerLink)) == (2, 6)
    storage_cluster.detach(storage_cluster.nodes()[0])
    storage_cluster.delete(RV, "v")
    storage_cluster.until(lambda: storage_cluster.get(RV, "v") is None)
    storage_cluster.advance(60)
    assert (living(DrbdResource), living(PeerLink)) == (1, 3)


def test_kernel_releases_a_replica_removed_past_its_finalizers(storage_cluster):
    storage_cluster.ready_volume()
    name, node = next(
        (one["metadata"]["name"], one["spec"]["nodeName"]) for one in storage_cluster.replicas()
    )
    storage_cluster.call(storage_cluster.api.patch(RVR, name, {"metadata": {"finalizers": None}}))
    storage_cluster.delete(RVR, name)
    assert storage_cluster.system.drbd.status(node, "v")
    storage_cluster.advance(0.2)
    assert storage_cluster.system.drbd.status(node, "v") is None


def test_killed_agents_leave_nothing(storage_cluster, living):
    storage_cluster.ready_volume()
    storage_cluster.advance(60)
    before = [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)]
    for agent in storage_cluster.pods("agent"):
        storage_cluster.kill(agent)
        storage_cluster.advance(60)
    assert [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)] == before


def test_machine_losing_power_leaves_nothing(storage_cluster, living):
    storage_cluster.ready_volume()
    storage_cluster.advance(60)
    before = [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)]
    for machine in list(storage_cluster.site.machines):
        storage_cluster.site.machines.power_off(machine.name)
        storage_cluster.advance(30)
        storage_cluster.site.machines.power_on(machine.name)
        storage_cluster.advance(120)
    assert [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)] == before
