"""Records of replaced replicas after deletions by the destroyer, in each generation."""

from __future__ import annotations

import pytest
from tiny_storage import conditions

from pytest_kscen.megatest.actors import destroy_replicas
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

UP_TO_DATE = {
    "conditions": "InSync",
    "effectiveLayout": "BackingVolumeUpToDate",
    "ready": "BackingVolumeUpToDate",
}
PATIENCE = 300.0


class ReplicaDeletedVolume:
    """Volume with a replica deleted at 110 s, which remains until it is released."""

    def __init__(self, world, generation="conditions", type_="Diskful"):
        self.world, self._up_to_date = world, UP_TO_DATE[generation]
        world.volume()
        self.rv = world.subject(health=HEALTH_SOURCES[generation])
        world.advance(10)
        for name in world.names(REPLICATED_VOLUME_REPLICAS):
            self.set_conditions(name)
            world.ask(
                world.api.patch(
                    REPLICATED_VOLUME_REPLICAS,
                    name,
                    {"spec": {"type": type_}, "metadata": {"finalizers": ["held/back"]}},
                )
            )
        world.start(destroy_replicas(self.rv, (100.0, 100.0), PATIENCE))
        world.advance(100)
        (self.deed,) = [data for _, _, data in world.notes("ended")]

    def set_conditions(self, replica, status="True"):
        self.world.ask(
            self.world.storage.status(
                REPLICATED_VOLUME_REPLICAS,
                replica,
                {"conditions": conditions(**{self._up_to_date: status})},
            )
        )

    def add(self, number, **more):
        spec = {
            "replicatedVolumeName": "v",
            "nodeName": f"node-{number + 1}",
            "type": "Diskful",
            **more,
        }
        self.world.ask(self.world.storage.replica("v", number, spec))

    def let_go(self):
        self.world.ask(self.world.storage.let_go(REPLICATED_VOLUME_REPLICAS, self.deed["replica"]))

    @property
    def left(self):
        return next(name for name in ("v-0", "v-1") if name != self.deed["replica"])

    def noted(self, until):
        self.world.advance(until - self.world.now)
        return [(at, data) for at, _, data in self.world.notes("replicas-restored")]


@pytest.mark.parametrize("goes", [True, False])
def test_disk_is_replaced_when_another_is_up_to_date(world, goes):
    replica_loss = ReplicaDeletedVolume(world)
    assert replica_loss.deed["patience"] == PATIENCE
    if goes:
        replica_loss.let_go()
    assert replica_loss.noted(125) == []
    replica_loss.add(3)
    assert replica_loss.noted(145) == []
    replica_loss.set_conditions("v-3")
    assert replica_loss.noted(205) == [(150, {"volume": "v"})]


def test_all_disks_must_be_up_to_date(world):
    replica_loss = ReplicaDeletedVolume(world)
    replica_loss.add(3)
    replica_loss.set_conditions("v-3")
    replica_loss.set_conditions(replica_loss.left, "False")
    assert replica_loss.noted(135) == []
    replica_loss.set_conditions(replica_loss.left)
    assert replica_loss.noted(205) == [(140, {"volume": "v"})]


def test_replica_without_data_does_not_replace_a_disk(world):
    replica_loss = ReplicaDeletedVolume(world)
    replica_loss.add(3, type="TieBreaker")
    replica_loss.set_conditions("v-3")
    assert replica_loss.noted(205) == []


def test_two_lost_disks_need_two_replacements(world):
    replica_loss = ReplicaDeletedVolume(world)
    world.advance(100)
    replica_loss.add(3)
    replica_loss.set_conditions("v-3")
    assert replica_loss.noted(245) == []
    replica_loss.add(4)
    replica_loss.set_conditions("v-4")
    assert replica_loss.noted(295) == [(250, {"volume": "v"})]


@pytest.mark.parametrize("goes", [True, False])
@pytest.mark.parametrize("generation", ["effectiveLayout", "ready"])
def test_newer_storage_replaces_no_disk(world, generation, goes):
    replica_loss = ReplicaDeletedVolume(world, generation)
    if goes:
        replica_loss.let_go()
    replica_loss.set_conditions(replica_loss.left, "False")
    assert replica_loss.noted(125) == []
    replica_loss.set_conditions(replica_loss.left)
    assert replica_loss.noted(205) == [(130, {"volume": "v"})]


def test_replica_without_data_is_not_awaited(world):
    replica_loss = ReplicaDeletedVolume(world, type_="TieBreaker")
    assert "patience" not in replica_loss.deed
    assert replica_loss.noted(205) == []
    assert world.state.repair_deadlines == {}


def test_volume_being_deleted_lacks_nothing(world):
    replica_loss = ReplicaDeletedVolume(world)
    assert world.state.deadline_of("v") == pytest.approx(world.began + 420)
    world.ask(world.api.delete(REPLICATED_VOLUMES, "v"))
    replica_loss.add(3)
    replica_loss.set_conditions("v-3")
    assert replica_loss.noted(125) == []
    assert world.state.deadline_of("v") == 0.0
