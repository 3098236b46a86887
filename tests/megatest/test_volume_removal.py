"""Volumes whose deletion is refused, to the second."""

from __future__ import annotations

import pytest

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.megatest.churn import VolumePlan
from pytest_kscen.megatest.volume import run_volume
from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

DESTINY = VolumePlan("v", "availability", "8Mi", lifetime=100.0)


class Refusing(ForwardingApi):
    """API with a list of errors for the deletion of a volume."""

    def __init__(self, api, world):
        super().__init__(api)
        self.world = world

    async def create(self, resource, obj, namespace="", **options):
        return await self._api.create(resource, obj, namespace, **options)

    async def delete(self, resource, name, namespace="", **options):
        if resource == REPLICATED_VOLUMES and self.world.refusals:
            raise self.world.refusals.pop()
        return await self._api.delete(resource, name, namespace, **options)


@pytest.fixture
def world(build):
    world = build(wrap=Refusing)
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(100)
    return world


def tried(world):
    return [(at, what) for at, what, _ in world.notes("not-deleted", "never-gone")]


def test_refusal_is_not_a_stuck_deletion(world):
    world.refusals = [Forbidden("not now")]
    world.advance(100)
    assert tried(world) == [(103, "not-deleted")]
    assert world.requested_actions("delete the volume") == [(167, "delete the volume", "done", 64)]


def test_ten_minutes_of_refusals_are_a_stuck_deletion(world):
    world.refusals = [Forbidden("not now")] * 12
    world.advance(1000)
    assert tried(world) == [
        (103 + 60 * n, "not-deleted" if n < 10 else "never-gone") for n in range(12)
    ]
    assert world.requested_actions("delete the volume") == [(827, "delete the volume", "done", 724)]


def test_refusals_leave_the_rest_of_ten_minutes_to_the_storage(world):
    async def held(*_):
        await world.runner.clock.sleep(1000)

    world.refusals, world.storage.let_go = [Forbidden("not now")] * 9, held
    world.advance(700)
    assert tried(world)[-1] == (703, "never-gone")


@pytest.mark.parametrize(
    ("refusals", "result", "took"),
    [([Forbidden("not now")] * 3, "done", 19), ([Forbidden("never")] * 100, "failed", 30)],
)
def test_deletion_after_the_run_is_tried_for_half_a_minute(world, refusals, result, took):
    world.refusals = refusals
    world.state.cleanup_started.give()
    world.state.counters_frozen.give()
    world.advance(200)
    assert world.requested_actions("delete the volume") == [
        (100 + took, "delete the volume", result, took)
    ]
    assert world.names(REPLICATED_VOLUMES) == ([] if result == "done" else ["v"])


@pytest.mark.parametrize(("number", "left"), [(40, []), (400, ["v"])])
def test_temporary_errors_after_the_run_are_retried_for_ten_minutes(world, number, left):
    """One attempt on an API that does not answer takes about thirty requests in five minutes."""
    world.refusals = [ConnectionResetError("gone")] * number
    world.state.cleanup_started.give()
    world.state.counters_frozen.give()
    world.advance(600)
    assert world.names(REPLICATED_VOLUMES) == left
    world.advance(400)
    assert [result for _, _, result, _ in world.requested_actions("delete the volume")] == [
        "failed" if left else "done"
    ]
