"""Records about volumes that are not ready yet."""

from __future__ import annotations

from pytest_kscen.megatest.churn import VolumePlan
from pytest_kscen.megatest.volume import run_volume
from pytest_kscen.objects.storage import REPLICATED_VOLUMES

DESTINY = VolumePlan("v", "none", "8Mi", 100.0, 600.0)


def says(world, status, message):
    """The storage gives the volume this word."""
    conditions = [{"type": "IOReady", "status": status, "reason": "NoDisk", "message": message}]
    world.ask(world.storage.status(REPLICATED_VOLUMES, "v", {"conditions": conditions}))


def reported(world):
    return [
        (at, {name: " ".join(seen.values()) for name, seen in data["conditions"].items()})
        for at, _, data in world.notes("not-ready")
    ]


def test_missing_conditions_are_recorded_on_change_and_at_the_end(world):
    world.storage.forms = False
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(15)
    says(world, "False", "0 of 2")
    world.advance(30)
    says(world, "False", "1 of 2")
    world.advance(600)
    absent = {"IOReady": "absent  ", "Quorum": "absent  "}
    assert reported(world) == [
        (10, absent),
        (20, absent | {"IOReady": "False NoDisk 0 of 2"}),
        (600, absent | {"IOReady": "False NoDisk 1 of 2"}),
    ]


def test_volume_ready_at_once_records_nothing(world):
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(100)
    assert reported(world) == []


def test_interrupted_user_sees_the_pending_conditions(world):
    world.storage.forms = False
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(5)
    world.state.cleanup_started.give()
    world.advance(20)
    assert [at for at, _ in reported(world)] == [5]
