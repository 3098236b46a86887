"""multivolume: number of volumes, their pace, and the end of the run."""

from __future__ import annotations

import pytest

from pytest_kscen.chaos.profiles import PodDestroy
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.megatest.volume import multivolume


def creation_times(world):
    return [at for at, *_ in world.notes("volume")]


def test_steps_until_enough_volumes_and_one_more(world):
    churn = Churn(max_volumes=5, step=(3, 3), step_period=(10.0, 10.0), lifetime=(500.0, 500.0))
    world.start(multivolume(world.context, churn, world.state))
    world.advance(100)
    assert creation_times(world) == [0, 0, 0, 10, 10, 10]


def test_deleted_volume_makes_room(world):
    churn = Churn(
        ("none",), max_volumes=1, step=(1, 1), step_period=(10.0, 10.0), lifetime=(20.0, 20.0)
    )
    world.start(multivolume(world.context, churn, world.state))
    world.advance(100)
    assert creation_times(world) == [0, 30, 60, 90]
    assert [at for at, *_ in world.requested_actions("delete the volume")] == [28, 58, 87]


def test_run_ends_in_two_steps(world):
    churn = Churn(max_volumes=3, step=(3, 3), step_period=(10.0, 10.0), lifetime=(500.0, 500.0))
    world.start(multivolume(world.context, churn, world.state))
    world.advance(60)
    world.state.counters_frozen.give()
    world.advance(100)
    assert {at for at, *_ in world.notes("checker-stopped")} == {60}
    assert len(creation_times(world)) == 3
    world.state.cleanup_started.give()
    world.advance(10)
    assert {at for at, *_ in world.requested_actions("delete the volume")} == {164}
    assert world.left() == []


def test_all_volumes_stop_at_once_when_abandoned(world):
    churn = Churn(max_volumes=3, step=(3, 3), lifetime=(500.0, 500.0))
    world.start(multivolume(world.context, churn, world.state))
    world.advance(60)
    for signal in (world.state.counters_frozen, world.state.volumes_abandoned):
        signal.give()
    world.advance(100)
    assert len([name for name in world.left() if name.startswith("mgt-")]) >= 3
    assert world.requested_actions("delete the volume") == []
    assert not [task for task in world.runner.loop.tasks() if "mgt-" in task.get_name()]


class RecordedPodDestroy(PodDestroy):
    """Pod destroyer that records its start and end."""

    async def run(self, context, stop):
        context.actor("noted").note("began-pods")
        await stop.wait()
        context.actor("noted").note("ended-pods")


def test_pod_destroyer_lasts_as_long_as_the_run(world, monkeypatch):
    monkeypatch.setattr("pytest_kscen.megatest.churn.POD_DESTROYER", RecordedPodDestroy())
    world.start(multivolume(world.context, Churn(max_volumes=1, pod_destroyer=True), world.state))
    world.advance(50)
    world.state.counters_frozen.give()
    world.advance(0)
    assert [(at, what) for at, what, _ in world.notes("began-pods", "ended-pods")] == [
        (0, "began-pods"),
        (50, "ended-pods"),
    ]


class WatchCounter:
    """Counts the opened watches."""

    opened = 0

    def __init__(self, api):
        self._api = api

    def __getattr__(self, name):
        return getattr(self._api, name)

    def watch(self, resource, namespace="", **options):
        WatchCounter.opened += 1
        return self._api.watch(resource, namespace, **options)


def test_ten_volumes_share_one_watch_of_each_resource(build):
    WatchCounter.opened = 0
    world = build(wrap=lambda api, _: WatchCounter(api))
    world.start(multivolume(world.context, Churn(), world.state))
    world.advance(600)
    assert len(creation_times(world)) > 10
    assert WatchCounter.opened == 4


def test_deleted_volume_leaves_nothing_in_memory(world):
    """Random streams are kept for later draws, and a deleted volume never draws again."""
    churn = Churn(
        max_volumes=3,
        lifetime=(10.0, 20.0),
        replica_destroyer=True,
        replica_creator=True,
        resizer=True,
    )
    world.start(multivolume(world.context, churn, world.state))
    world.advance(300)
    kept = len(world.chance._streams)
    world.advance(600)
    assert len(creation_times(world)) > 60
    assert len(world.chance._streams) == kept
    assert len(world.state._watch._listeners) <= 6


def test_no_volume_starts_in_an_abandoned_run(world):
    world.state.volumes_abandoned.give()
    world.start(multivolume(world.context, Churn(), world.state))
    world.advance(1)
    assert creation_times(world) == []


@pytest.mark.parametrize("seed", ["one", "two"])
def test_same_seed_gives_the_same_journal(build, seed):
    journals = []
    for _ in range(2):
        world = build(seed)
        churn = Churn(max_volumes=4, replica_destroyer=True, replica_creator=True, resizer=True)
        world.start(multivolume(world.context, churn, world.state))
        world.advance(400)
        journals.append(world.notes())
    assert journals[0] == journals[1]
    assert len(journals[0]) > 100
