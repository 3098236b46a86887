"""Replicas added while their volume is deleted, to the second; the deletion is at 17 s."""

from __future__ import annotations

import pytest

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.megatest.churn import VolumePlan
from pytest_kscen.megatest.volume import run_volume
from pytest_kscen.objects.errors import Forbidden, ServiceUnavailable
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS

DESTINY = VolumePlan("v", "none", "8Mi", 10.0, replica_creator_period=(6.0, 6.0))
LOOK, DELETE = "look for replicas that were left", "delete a replica that was left"


class Refusing(ForwardingApi):
    """API with lists of errors for listing and deleting replicas."""

    def __init__(self, api, world):
        super().__init__(api)
        self.world = world

    async def create(self, resource, obj, namespace="", **options):
        return await self._api.create(resource, obj, namespace, **options)

    async def list(self, resource, namespace="", **options):
        if resource == REPLICATED_VOLUME_REPLICAS and options.get("labels") and self.world.unseen:
            raise self.world.unseen.pop()
        return await self._api.list(resource, namespace, **options)

    async def delete(self, resource, name, namespace="", **options):
        if resource == REPLICATED_VOLUME_REPLICAS and self.world.refused:
            raise self.world.refused.pop()
        return await self._api.delete(resource, name, namespace, **options)


@pytest.fixture
def world(build):
    world = build(wrap=Refusing)
    world.unseen, world.refused = [], []
    world.storage.sweeps = False
    world.start(run_volume(world.context, world.state, DESTINY))
    return world


def swept(world):
    return [deed[:3] for deed in world.requested_actions(LOOK, DELETE)]


def test_only_our_replicas_of_the_volume_are_swept(world):
    mine = {"replicatedVolumeName": "v", "type": "TieBreaker"}
    obj = {
        "metadata": {"name": "w-0", "labels": {"kscen.io/run": "run1"}},
        "spec": {**mine, "replicatedVolumeName": "w"},
    }
    world.advance(5)
    world.ask(world.api.create(REPLICATED_VOLUME_REPLICAS, obj))
    world.ask(world.storage.replica("v", 9, mine))
    world.advance(95)
    assert swept(world) == [(17, LOOK, "done"), (17, DELETE, "done")]
    assert world.left() == ["v-9", "w-0"]


@pytest.mark.parametrize(("what", "deed"), [("unseen", LOOK), ("refused", DELETE)])
def test_refused_sweep_is_retried_each_minute(world, what, deed):
    setattr(world, what, [Forbidden("not now")] * 2)
    world.advance(200)
    assert [one for one in swept(world) if one[1] == deed] == [
        (17, deed, "failed"),
        (77, deed, "failed"),
        (137, deed, "done"),
    ]
    assert world.left() == []


def test_undeletable_replica_does_not_block_others(world):
    world.advance(5)
    obj = {
        "metadata": {"name": "v-9", "labels": {"kscen.io/run": "run1"}},
        "spec": {"replicatedVolumeName": "v", "type": "TieBreaker"},
    }
    world.ask(world.api.create(REPLICATED_VOLUME_REPLICAS, obj))
    world.refused = [Forbidden("not now")]
    world.advance(50)
    assert [one[1:] for one in swept(world)] == [
        (LOOK, "done"),
        (DELETE, "failed"),
        (DELETE, "done"),
    ]
    assert len(world.left()) == 1


def test_failed_sweep_does_not_block_volume_creation(world):
    world.state.running["v"] = None
    world.unseen = [Forbidden("never")] * 100
    world.advance(50)
    assert world.state.running == {}


def test_refused_lists_for_six_minutes_end_no_actor(world):
    world.runner.loop.call_later(17 + 360, world.unseen.clear)
    world.unseen += [ServiceUnavailable("no leader")] * 1000
    world.advance(600)
    assert [(round(at), *rest) for at, *rest in swept(world)] == [
        (318, LOOK, "failed"),
        (378, LOOK, "done"),
        (378, DELETE, "done"),
    ]
    assert world.left() == []


def test_last_sweep_is_at_the_end_of_the_run(world):
    world.unseen = [Forbidden("never")] * 100
    world.advance(50)
    world.state.counters_frozen.give()
    world.state.cleanup_started.give()
    world.advance(200)
    assert swept(world) == [(17, LOOK, "failed"), (50, LOOK, "failed")]
    assert len(world.left()) == 1
    assert not [task for task in world.runner.loop.tasks() if task.get_name() == "actor"]
