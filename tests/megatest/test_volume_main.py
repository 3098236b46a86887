"""Life cycle of one volume, to the second."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from pytest_kscen.kube.api import ForwardingApi
from pytest_kscen.megatest.churn import Growth, VolumePlan
from pytest_kscen.megatest.volume import run_volume
from pytest_kscen.objects.errors import InternalError
from pytest_kscen.objects.storage import (
    HEALTH_SOURCES,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUMES,
)

DESTINY = VolumePlan("v", "availability", "8Mi", lifetime=100.0, patience=600.0)


def test_volume_without_actors_passes_its_phases(world):
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(200)
    assert world.requested_actions() == [
        (0, "create the volume", "done", 0),
        (3, "wait until the volume is ready", "done", 3),
        (103, "detach everywhere", "done", 0),
        (107, "delete the volume", "done", 4),
    ]
    assert [
        (at, what) for at, what, _ in world.notes() if what not in {"began", "ended", "wrote"}
    ] == [
        (0, "volume"),
        (3, "volume-placed"),
        (3, "volume-placed"),
        (3, "volume-placed"),
        (3, "ready"),
        (3, "checker-started"),
        (103, "checker-stopped"),
        (103, "volume-disappeared"),
        (107, "volume-placed"),
        (107, "volume-placed"),
        (107, "volume-placed"),
    ]
    assert world.left() == []


def test_volume_matches_its_plan_and_carries_the_run_label(world):
    world.start(
        run_volume(
            world.context, world.state, VolumePlan("v", "none", "12Mi", 100.0, attachments=2)
        )
    )
    world.advance(1)
    volume = world.ask(world.api.get(REPLICATED_VOLUMES, "v"))
    assert volume["spec"] == {"size": "12Mi", "replicatedStorageClassName": "none"}
    (_, _, data), (_, _, first) = world.notes("volume")[0], world.notes("wrote")[0]
    assert data["volume"] == first["name"] == "v"
    assert world.names(REPLICATED_VOLUME_ATTACHMENTS) == sorted(
        f"rva-v-{node}" for node in data["attach"]
    )
    for resource in (REPLICATED_VOLUMES, REPLICATED_VOLUME_ATTACHMENTS):
        for one in world.ask(world.api.list(resource)).items:
            assert one["metadata"]["labels"] == {"kscen.io/run": "run1"}


def test_newer_storage_gets_the_limit_of_two_attachments(world):
    world.start(
        run_volume(
            dataclasses.replace(world.context, health=HEALTH_SOURCES["ready"]),
            world.state,
            DESTINY,
        )
    )
    assert world.ask(world.api.get(REPLICATED_VOLUMES, "v"))["spec"]["maxAttachments"] == 2


def test_initial_attachments_are_removed_before_the_volume(world):
    world.start(
        run_volume(world.context, world.state, VolumePlan("v", "none", "8Mi", 100.0, attachments=2))
    )
    world.advance(200)
    assert world.requested_actions("detach everywhere", "delete the volume") == [
        (104, "detach everywhere", "done", 1),
        (108, "delete the volume", "done", 4),
    ]
    assert world.left() == []


def test_initial_attachments_are_reported_when_established(world):
    world.start(
        run_volume(world.context, world.state, VolumePlan("v", "none", "8Mi", 100.0, attachments=2))
    )
    world.advance(100)
    asked = [
        data["node"] for _, _, data in world.notes("began") if data["action"] == "attach at first"
    ]
    assert world.notes("attached") == [
        (2, "attached", {"volume": "v", "node": node}) for node in sorted(asked)
    ]


def test_actors_continue_during_deletion_and_end_with_the_volume(world):
    volume_plan = VolumePlan(
        "v",
        "none",
        "8Mi",
        10.0,
        replica_destroyer_period=(1.0, 1.0),
        replica_creator_period=(1.0, 1.0),
    )
    world.start(run_volume(world.context, world.state, volume_plan))
    world.advance(100)
    whens = [at for at, *_ in world.requested_actions("create a replica", "delete a replica")]
    assert min(whens) == 1
    assert max(whens) in {16, 17}
    assert world.requested_actions("delete the volume") == [(17, "delete the volume", "done", 4)]
    assert world.left() == []


def test_volume_not_ready_in_time_is_deleted_unchecked(world):
    world.storage.forms = False
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(700)
    assert [(at, data["waited"]) for at, _, data in world.notes("never-ready")] == [(600, 600)]
    assert world.notes("checker-started") == []
    assert world.left() == []


def test_volume_is_awaited_until_ready(world):
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(1)
    assert world.state.ready_deadlines == {"v": world.context.clock.now() + 599}
    world.advance(10)
    assert world.state.ready_deadlines == {}


def test_volume_without_limit_is_awaited_until_the_end_of_the_run(world):
    world.storage.forms = False
    world.start(run_volume(world.context, world.state, VolumePlan("v", "none", "8Mi")))
    world.advance(7200)
    world.state.counters_frozen.give()
    world.advance(100)
    assert world.names(REPLICATED_VOLUMES) == ["v"]
    world.state.cleanup_started.give()
    world.advance(20)
    assert world.notes("never-ready") == []
    assert world.requested_actions("wait until the volume is ready") == [
        (7300, "wait until the volume is ready", "stopped", 7300)
    ]
    assert world.left() == []


def test_end_of_the_run_ends_a_waiting_volume(world):
    world.storage.forms = False
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(50)
    world.state.cleanup_started.give()
    world.advance(20)
    assert world.requested_actions("wait until the volume is ready", "delete the volume") == [
        (50, "wait until the volume is ready", "stopped", 50),
        (54, "delete the volume", "done", 4),
    ]
    assert world.notes("never-ready") == []


def test_frozen_run_stops_the_checker_and_keeps_the_volume_to_the_end(world):
    destiny = VolumePlan(
        "v",
        "none",
        "8Mi",
        1000.0,
        attacher_period=(60.0, 60.0),
        replica_destroyer_period=(30.0, 30.0),
    )
    world.start(run_volume(world.context, world.state, destiny))
    world.advance(50)
    world.state.counters_frozen.give()
    world.advance(200)
    assert [at for at, *_ in world.notes("checker-stopped")] == [50]
    assert [at for at, *_ in world.requested_actions("delete a replica")] == [
        30
    ]  # nobody shakes what heals
    assert world.names(REPLICATED_VOLUMES) == ["v"]
    world.state.cleanup_started.give()
    world.advance(20)
    assert world.requested_actions("delete the volume") == [(254, "delete the volume", "done", 4)]


def test_volume_ready_after_the_freeze_is_not_checked(world):
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(1)
    world.state.counters_frozen.give()
    world.advance(10)
    assert [at for at, *_ in world.notes("ready")] == [3]
    assert world.notes("checker-started") == []


def test_abandoned_volume_is_kept(world):
    destiny = VolumePlan(
        "v",
        "none",
        "8Mi",
        1000.0,
        600.0,
        1,
        (30.0, 60.0),
        Growth((5.0, 5.0), ("4Ki", "4Ki"), "1Gi"),
        (9.0, 9.0),
        (9.0, 9.0),
    )
    world.start(run_volume(world.context, world.state, destiny))
    world.advance(100)
    world.state.volumes_abandoned.give()
    world.advance(0)
    written = len(world.notes("wrote"))
    world.advance(500)
    assert len(world.notes("wrote")) == written
    assert world.names(REPLICATED_VOLUMES) == ["v"]
    assert [at for at, *_ in world.notes("checker-stopped")] == [100]


def test_failed_deletion_is_reported_and_retried(world):
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(50)

    async def held(*_):
        await world.runner.clock.sleep(1000)

    world.storage.let_go, let_go = held, world.storage.let_go
    world.advance(700)
    assert world.notes("never-gone") == [
        (703, "never-gone", {"volume": "v", "waited": 600, "why": ""})
    ]
    world.ask(let_go(REPLICATED_VOLUMES, "v"))
    world.advance(100)
    assert world.requested_actions("delete the volume") == [(763, "delete the volume", "done", 660)]


def test_log_has_volume_action_parameters_result_and_duration(world, caplog):
    caplog.set_level(logging.INFO, "pytest_kscen.volume-main")
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(5)
    begins, ended = [record for record in caplog.records if record.action == "create the volume"]
    text = "action=create the volume volume=v storage_class=availability size=8Mi lifetime=100.0"
    assert begins.message == f"volume-main/v: begins {text}"
    assert ended.message == f"volume-main/v: ended {text} result=done took=0.0"
    assert (ended.name, ended.levelname, ended.volume, ended.result, ended.took) == (
        "pytest_kscen.volume-main",
        "INFO",
        "v",
        "done",
        0,
    )


class LosesResponses(ForwardingApi):
    """API that creates volumes, or lets others, and loses its responses; reads fail for a while."""

    def __init__(self, api, world):
        super().__init__(api)
        self.world = world

    async def create(self, resource, obj, namespace="", **options):
        if resource == REPLICATED_VOLUMES:
            if self.world.makes:
                await self._api.create(resource, obj, namespace, **options)
            raise InternalError("the answer was lost")
        return await self._api.create(resource, obj, namespace, **options)

    async def get(self, resource, name, namespace="", **options):
        if not self.world.knows:
            raise InternalError("nobody knows")
        return await self._api.get(resource, name, namespace, **options)

    async def delete(self, resource, name, namespace="", **options):
        return await self._api.delete(resource, name, namespace, **options)


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_volume_created_without_a_response_is_deleted_if_ours(build, whose):
    world = build(wrap=LosesResponses)
    world.knows, world.makes = False, whose == "ours"
    world.start(run_volume(world.context, world.state, DESTINY))
    if whose == "theirs":
        world.volume()
    world.advance(250)
    assert world.names(REPLICATED_VOLUMES) == ["v"]
    world.runner.loop.call_later(70, setattr, world, "knows", True)
    world.advance(400)
    assert world.names(REPLICATED_VOLUMES) == (["v"] if whose == "theirs" else [])


def test_volume_is_deleted_only_with_the_uid_that_was_found(build):
    """Another volume replaces it after the read."""

    class ReplacedVolume(LosesResponses):
        async def get(self, resource, name, namespace="", **options):
            found = await super().get(resource, name, namespace, **options)
            await self._api.patch(resource, name, {"metadata": {"finalizers": []}})
            await self._api.delete(resource, name)
            again = {key: found["metadata"][key] for key in ("name", "labels")}
            await self._api.create(resource, {**found, "metadata": again})
            return found

    world = build(wrap=ReplacedVolume)
    world.knows, world.makes = False, True
    world.runner.loop.call_later(320, setattr, world, "knows", True)
    world.start(run_volume(world.context, world.state, DESTINY))
    world.advance(700)
    assert world.names(REPLICATED_VOLUMES) == ["v"]
