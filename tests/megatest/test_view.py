"""Shared view of a run's actors: kept while in use; a crash reaches all waiters."""

from __future__ import annotations

import pytest

from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES


def test_view_is_kept_while_it_is_used(world):
    view = world.state.watch(world.context)
    assert world.state.watch(world.context) is view

    async def both():
        async with view:
            async with view:
                pass
            assert not view._informers_task.done()
            assert await view.storage_nodes() == ["node-1", "node-2", "node-3", "node-4"]
        assert view._informers_task.done()

    world.ask(both())
    world.ask(both())  # and again


def test_waiter_is_notified_at_the_same_instant(world):
    rv = world.subject()
    world.volume()

    async def wait():
        await rv.watch.until(
            "v", lambda: rv.watch.replicas("v"), timeout=10, awaited="no replica came"
        )
        return world.now

    assert world.ask(wait()) == 3
    with pytest.raises(TimeoutError, match=r"^v stayed within 5 s$"):
        world.ask(rv.watch.until("v", lambda: rv.volume is None, timeout=5, awaited="v stayed"))
    assert rv.watch._listeners == {}


def test_change_of_a_replica_status_wakes_no_waiter(world):
    rv = world.subject()
    world.volume()
    called = []

    async def listen():
        async with rv.watch:
            await rv.watch.until(
                "v", lambda: rv.health.is_ready(rv.volume), timeout=60, awaited="v was not ready"
            )
            with rv.watch.listening("v", lambda: called.append(world.now)):
                (replica, *_) = rv.watch.replicas("v")
                before = world.now
                await world.storage.set_replica_status(
                    replica["metadata"]["name"], InQuorum="False"
                )
                await rv.context.clock.sleep(1)
                reported = next(
                    one
                    for one in rv.watch.replicas("v")
                    if one["metadata"]["name"] == replica["metadata"]["name"]
                )
                assert reported["status"] != replica.get("status")
                assert called == []
                await world.api.delete(REPLICATED_VOLUME_REPLICAS, replica["metadata"]["name"])
                await rv.context.clock.sleep(1)
        return before + 1

    gone = world.ask(listen())
    assert called[:1] == [gone]


def test_volume_created_and_deleted_between_observations_is_lost(world):
    view = world.state.watch(world.context)
    world.storage.sweeps = True
    world.volume()
    made = world.ask(world.api.get(REPLICATED_VOLUMES, "v"))["metadata"]["resourceVersion"]
    world.ask(world.api.delete(REPLICATED_VOLUMES, "v"))
    world.advance(10)

    async def lost():
        async with view:
            await view.wait_until_deleted("v", made, timeout=5)
        return world.now

    assert world.ask(lost()) == 10


def test_volume_not_yet_observed_is_not_lost(world):
    view = world.state.watch(world.context)
    world.volume()
    made = world.ask(world.api.get(REPLICATED_VOLUMES, "v"))["metadata"]["resourceVersion"]

    async def lost():
        async with view:
            await view.wait_until_deleted("v", made, timeout=5)

    with pytest.raises(TimeoutError, match=r"^v was not gone within 5 s$"):
        world.ask(lost())
    assert world.now == 5


def test_crash_reaches_every_waiter(world):
    rv = world.subject()

    def crashing_handler():
        raise KeyError("lost")

    async def wait():
        with rv.watch.listening("v", crashing_handler):
            await world.api.create(
                REPLICATED_VOLUMES, {"metadata": {"name": "v"}, "spec": {"size": "1Mi"}}
            )
            await rv.watch.until("w", lambda: False, timeout=5, awaited="nothing")

    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"^the watch of volumes has crashed: KeyError\('lost'\)$"
        ):
            world.ask(wait())
        wait = lambda: rv.watch.until("w", lambda: False, timeout=5, awaited="nothing")  # noqa: E731
