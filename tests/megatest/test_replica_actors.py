"""Destroyer, creator and resizer of replicas; only the resizer waits for the result."""

from __future__ import annotations

import itertools
import logging

import pytest
from tiny_storage import World

from pytest_kscen.megatest.actors import (
    actual_size,
    create_replicas,
    destroy_replicas,
    first_free,
    resize,
)
from pytest_kscen.megatest.churn import Growth
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES


@pytest.fixture
def rv(world):
    world.volume()
    subject = world.subject()
    world.advance(10)
    return subject


def done(world):
    return [(at, data) for at, _, data in world.notes("ended")]


def test_destroyer_deletes_any_replica_without_waiting(world, rv):
    world.ask(
        world.api.patch(
            REPLICATED_VOLUME_REPLICAS, "v-1", {"metadata": {"finalizers": ["held/back"]}}
        )
    )
    world.start(destroy_replicas(rv, (20.0, 20.0), 600.0))
    world.advance(100)
    assert [(at, data["action"], data["result"], data["took"]) for at, data in done(world)] == [
        (at, "delete a replica", "done", 0) for at in (30, 50, 70)
    ]
    assert sorted(data["replica"] for _, data in done(world)) == ["v-0", "v-1", "v-2"]
    assert {data["node"] for _, data in done(world)} == {"node-1", "node-2", "node-3"}
    assert world.names(REPLICATED_VOLUME_REPLICAS) == ["v-1"]


def test_missing_replica_stops_no_actor(world, rv, caplog):
    world.start(destroy_replicas(rv, (20.0, 20.0), 600.0))
    for number in range(3):
        world.ask(world.api.delete(REPLICATED_VOLUME_REPLICAS, f"v-{number}"))
    caplog.set_level(logging.INFO, "pytest_kscen.volume-replica-destroyer")
    world.advance(45)
    assert [record.message for record in caplog.records] == [
        "volume-replica-destroyer/v: no replica to delete volume=v"
    ] * 2


def test_creator_adds_access_where_missing_and_tie_breakers_anywhere(world, rv):
    world.start(create_replicas(rv, (20.0, 20.0)))
    world.advance(130)
    made = [(data["replica"], data["type"], data["node"]) for _, data in done(world)]
    assert {at % 20 for at, _ in done(world)} == {10}
    assert made[0][0] == "v-3"
    assert [node for _, kind, node in made if kind == "Access"] == ["node-4"]
    for name, kind, node in made:
        spec = world.ask(world.api.get(REPLICATED_VOLUME_REPLICAS, name))["spec"]
        assert spec == {
            "replicatedVolumeName": "v",
            "type": kind,
            **({"nodeName": node} if node else {}),
        }
    assert {kind for _, kind, _ in made} == {"Access", "TieBreaker"}


def test_first_free_of_32_names_is_used():
    assert first_free("v", []) == "v-0"
    assert first_free("v", ["v-0", "v-2"]) == "v-1"
    assert first_free("v", [f"v-{number}" for number in range(32)]) is None


def test_limit_of_32_replicas_holds(world, rv):
    for number in range(3, 32):
        world.ask(
            world.storage.replica("v", number, {"replicatedVolumeName": "v", "type": "TieBreaker"})
        )
    world.start(create_replicas(rv, (20.0, 20.0)))
    world.advance(100)
    assert done(world) == []


def test_resizer_grows_by_steps_to_the_maximum_size(world, rv):
    world.start(resize(rv, Growth((20.0, 20.0), ("2Mi", "2Mi"), "13Mi")))
    world.advance(100)
    assert [(at, data["size"], data["result"], data["took"]) for at, data in done(world)] == [
        (35, "10Mi", "done", 5),  # the storage makes 12Mi of it
        (55, "12Mi", "done", 0),
        (80, "13Mi", "done", 5),
    ]
    volume = world.ask(world.api.get(REPLICATED_VOLUMES, "v"))
    assert (volume["spec"]["size"], volume["status"]["actualSize"]) == ("13Mi", "16Mi")


def test_random_step_is_within_its_range(world, rv):
    world.start(resize(rv, Growth((20.0, 20.0), ("4Ki", "64Ki"), "1Gi")))
    world.advance(2000)
    sizes = [8 * 1024, *(int(data["size"].removesuffix("Ki")) for _, data in done(world))]
    steps = [new - old for old, new in itertools.pairwise(sizes)]
    assert len(steps) > 80
    assert min(steps) == 4
    assert max(steps) == 64


def test_failed_growth_is_reported_and_retried():
    world = World()
    world.storage._grow = lambda volume: world.runner.clock.sleep(0)
    world.volume()
    rv = world.subject()
    world.start(resize(rv, Growth((20.0, 20.0), ("2Mi", "2Mi"), "1Gi")))
    world.advance(400)
    assert [(at, data["result"].partition(":")[0]) for at, data in done(world)] == [(320, "failed")]
    world.advance(300)
    assert len(done(world)) == 2
    world.close()


@pytest.mark.parametrize(
    ("status", "size"),
    [
        (None, 0),
        ({}, 0),
        ({"actualSize": "4Mi"}, 2**22),
        ({"size": "8Mi"}, 2**23),
        ({"size": 4096}, 4096),
    ],
)
def test_each_generation_has_its_field(status, size):
    assert actual_size({"status": status}) == size
