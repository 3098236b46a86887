"""What is over is gone at once: so much comes and goes in a long run that nobody is to search
for it.
"""

from __future__ import annotations

import gc

import pytest
from storage_yard import RV, RVR

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


def test_kernels_forget_a_deleted_volume(yard, living):
    for name in ("v", "w"):
        yard.ready_volume(name)
    yard.attach(yard.nodes()[0])
    yard.advance(10)
    assert (living(DrbdResource), living(PeerLink)) == (2, 6)
    yard.detach(yard.nodes()[0])
    yard.delete(RV, "v")
    yard.until(lambda: yard.get(RV, "v") is None)
    yard.advance(60)
    assert (living(DrbdResource), living(PeerLink)) == (1, 3)


def test_kernel_releases_a_replica_removed_past_its_finalizers(yard):
    yard.ready_volume()
    name, node = next((one["metadata"]["name"], one["spec"]["nodeName"]) for one in yard.replicas())
    yard.call(yard.api.patch(RVR, name, {"metadata": {"finalizers": None}}))
    yard.delete(RVR, name)
    assert yard.system.drbd.status(node, "v")
    yard.advance(0.2)
    assert yard.system.drbd.status(node, "v") is None


def test_killed_agents_leave_nothing(yard, living):
    yard.ready_volume()
    yard.advance(60)
    before = [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)]
    for agent in yard.pods("agent"):
        yard.kill(agent)
        yard.advance(60)
    assert [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)] == before


def test_machine_losing_power_leaves_nothing(yard, living):
    yard.ready_volume()
    yard.advance(60)
    before = [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)]
    for machine in list(yard.site.machines):
        yard.site.machines.power_off(machine.name)
        yard.advance(30)
        yard.site.machines.power_on(machine.name)
        yard.advance(120)
    assert [living(kind) for kind in (StorageAgent, PodWorker, ContainerWorker)] == before
