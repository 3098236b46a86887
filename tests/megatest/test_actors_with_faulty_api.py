"""Actors on a faulty API: none stops, no false transition counts, everything is deleted."""

from __future__ import annotations

import pytest
from faulty_api import FaultyApi

from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.volume import multivolume
from pytest_kscen.objects.errors import InternalError
from pytest_kscen.objects.storage import REPLICATED_VOLUME_ATTACHMENTS, REPLICATED_VOLUMES


@pytest.fixture
def world(build):
    world = build(wrap=FaultyApi)
    world.faults = {}
    return world


@pytest.mark.parametrize("seed", ["one", "two"])
def test_actors_survive_an_hour_of_refusals(build, seed):
    world = build(seed, wrap=FaultyApi)
    world.faults = {}
    churn = Churn(max_volumes=5, resizer=True, replica_destroyer=True, replica_creator=True)
    world.start(multivolume(world.context, churn, world.state), "multivolume")
    world.advance(3600)
    world.state.counters_frozen.give()
    world.advance(60)
    world.state.cleanup_started.give()
    world.advance(900)
    assert min(world.faults[verb] for verb in ("list", "create", "delete", "watch")) >= 5, (
        world.faults
    )
    assert len(world.notes("volume")) >= 50
    assert (
        world.notes("condition-changed")
        == world.notes("check-crashed")
        == world.notes("never-ready")
        == []
    )
    assert world.left() == []
    assert not [task for task in world.runner.loop.tasks() if "mgt-" in task.get_name()]


def test_attacher_survives_every_failure(world):
    churn = Churn(max_volumes=1, step=(1, 1), lifetime=(7200.0, 7200.0))
    world.start(multivolume(world.context, churn, world.state), "multivolume")
    world.advance(7200)
    cycles = [at for at, *_ in world.notes("cycle")]
    assert len(cycles) > 60
    assert cycles[-1] > 7000


def test_request_refused_longer_than_its_timeout_ends_only_the_action(world, monkeypatch):
    """All writes fail for half an hour."""
    down = {"now": False}
    disturb = FaultyApi._disturb

    async def failing_api(self, verb, request):
        if down["now"] and verb != "list":
            request.close()
            raise InternalError("no leader")
        return await disturb(self, verb, request)

    monkeypatch.setattr(FaultyApi, "_disturb", failing_api)
    world.start(
        multivolume(world.context, Churn(max_volumes=3, replica_destroyer=True), world.state),
        "multivolume",
    )
    world.advance(100)
    down["now"] = True
    world.advance(1800)
    failed = [
        data["action"] for *_, data in world.notes("ended") if data["result"].startswith("failed")
    ]
    assert {"detach everywhere", "delete a replica"} <= set(failed)
    assert world.notes("never-gone")
    down["now"] = False
    world.advance(600)
    assert [at for at, *_ in world.notes("ready") if at > 1900]
    world.state.counters_frozen.give()
    world.state.cleanup_started.give()
    world.advance(900)
    assert world.names(REPLICATED_VOLUMES) == world.names(REPLICATED_VOLUME_ATTACHMENTS) == []


def test_broken_watch_and_equal_list_are_no_transition(world):
    churn = Churn(
        max_volumes=1, step=(1, 1), lifetime=(3000.0, 3000.0), attacher_period=(20.0, 20.0)
    )
    world.start(multivolume(world.context, churn, world.state), "multivolume")
    world.advance(2000)
    assert world.faults["watch"] > 20
    assert world.notes("condition-changed") == []
    (volume,) = world.names(REPLICATED_VOLUMES)
    world.ask(world.storage.set_conditions(volume, IOReady="False", Quorum="True"))
    world.advance(60)
    assert [
        (data["condition"], data["observed"]) for *_, data in world.notes("condition-changed")
    ] == [("IOReady", "False")]
