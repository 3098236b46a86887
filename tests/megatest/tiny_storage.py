"""Minimal storage with exact times, and a run context on an API server without controllers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.informer import Informers
from pytest_kscen.megatest.subject import Subject
from pytest_kscen.megatest.view import RunState
from pytest_kscen.objects.errors import AlreadyExists, Invalid, NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES
from pytest_kscen.objects.storage import (
    DEFAULT_HEALTH,
    NODE_LABEL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

FORMING, ATTACHING, DETACHING, REMOVING, GROWING = 3, 2, 1, 4, 5  # seconds
FINALIZER = "tiny/storage"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ALL = (REPLICATED_VOLUMES, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUME_ATTACHMENTS)


def definition(resource):
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{**version, "schema": schema}],
        },
    }


def conditions(**statuses):
    return [
        {"type": name, "status": status, "reason": f"{name}Reason", "message": "so it is"}
        for name, status in statuses.items()
    ]


class TinyStorage:
    """Creates three replicas per volume on the first nodes, attaches, detaches, and rounds sizes up
    to 4Mi.
    """

    def __init__(self, api, clock):
        self.api, self.clock = api, clock
        self.attached = {}
        self.forms = self.attaches = self.sweeps = True

    async def run(self):
        informers = Informers(self.api, self.clock)
        async with asyncio.TaskGroup() as tasks:
            for resource, on_create, on_delete in (
                (REPLICATED_VOLUMES, self._form, self._remove),
                (REPLICATED_VOLUME_ATTACHMENTS, self._attach, self._detach),
            ):
                informers.of(resource).on_change(
                    self._follower(resource, on_create, on_delete, tasks)
                )
            await informers.run()

    def _follower(self, resource, on_create, on_delete, tasks):
        def follow(new, old):
            if new is None:
                return
            if old is None:
                tasks.create_task(self._quietly(self._hold(resource, new)))
                tasks.create_task(self._quietly(on_create(new)))
            elif new["metadata"].get("deletionTimestamp") and not old["metadata"].get(
                "deletionTimestamp"
            ):
                tasks.create_task(self._quietly(on_delete(new)))
            elif resource is REPLICATED_VOLUMES:
                tasks.create_task(self._quietly(self._grow(new)))

        return follow

    async def _hold(self, resource, obj):
        await self.api.patch(
            resource, obj["metadata"]["name"], {"metadata": {"finalizers": [FINALIZER]}}
        )

    @staticmethod
    async def _quietly(coroutine):
        with contextlib.suppress(NotFound, Invalid):  # nobody holds back what is going already
            await coroutine

    async def _form(self, volume):
        name = volume["metadata"]["name"]
        await self.clock.sleep(FORMING)
        for number in range(3):
            spec = {
                "replicatedVolumeName": name,
                "nodeName": f"node-{number + 1}",
                "type": "Diskful",
            }
            await self.replica(name, number, spec)
        if self.forms:
            await self.set_conditions(name, IOReady="True", Quorum="True")

    async def replica(self, volume, number, spec):
        obj = {"metadata": {"name": f"{volume}-{number}"}, "spec": spec}
        with contextlib.suppress(AlreadyExists):
            await self.api.create(REPLICATED_VOLUME_REPLICAS, obj)
        await self.set_replica_status(f"{volume}-{number}", Online="True", IOReady="True")

    async def set_conditions(self, volume, **statuses):
        await self.status(REPLICATED_VOLUMES, volume, {"conditions": conditions(**statuses)})

    async def set_replica_status(self, replica, **statuses):
        await self.status(
            REPLICATED_VOLUME_REPLICAS, replica, {"conditions": conditions(**statuses)}
        )

    async def status(self, resource, name, status):
        await self.api.patch(resource, name, {"status": status}, subresource="status")

    async def _grow(self, volume):
        wanted = volume["spec"]["size"]
        if wanted == volume.get("status", {}).get("asked"):
            return
        await self.status(REPLICATED_VOLUMES, volume["metadata"]["name"], {"asked": wanted})
        await self.clock.sleep(GROWING)
        from pytest_kscen.objects.quantities import parse

        extents = -(-parse(wanted).value // 2**22)
        await self.status(
            REPLICATED_VOLUMES, volume["metadata"]["name"], {"actualSize": f"{extents * 4}Mi"}
        )

    async def _attach(self, attachment):
        await self.clock.sleep(ATTACHING)
        if self.attaches:
            await self._attached(attachment["spec"], there=True)
            await self.status(
                REPLICATED_VOLUME_ATTACHMENTS,
                attachment["metadata"]["name"],
                {"conditions": conditions(Ready="True")},
            )

    async def _detach(self, attachment):
        await self.clock.sleep(DETACHING)
        await self._attached(attachment["spec"], there=False)
        await self.let_go(REPLICATED_VOLUME_ATTACHMENTS, attachment["metadata"]["name"])

    async def _attached(self, spec, *, there):
        volume, node = spec["replicatedVolumeName"], spec["nodeName"]
        nodes = self.attached.setdefault(volume, {})
        nodes.update({node: None}) if there else nodes.pop(node, None)
        await self._quietly(
            self.status(REPLICATED_VOLUMES, volume, {"actuallyAttachedTo": list(nodes)})
        )

    async def _remove(self, volume):
        name = volume["metadata"]["name"]
        await self.clock.sleep(REMOVING)
        for replica in (await self.api.list(REPLICATED_VOLUME_REPLICAS)).items:
            if replica["spec"]["replicatedVolumeName"] == name and (
                self.sweeps or replica["spec"]["type"] == "Diskful"
            ):
                await self._quietly(
                    self.api.delete(REPLICATED_VOLUME_REPLICAS, replica["metadata"]["name"])
                )
        await self.let_go(REPLICATED_VOLUMES, name)

    async def let_go(self, resource, name):
        await self.api.patch(resource, name, {"metadata": {"finalizers": []}})


class World:
    """Run context, its state and helpers; times are seconds since the start."""

    def __init__(self, seed="megatest", nodes=4, wrap=lambda api, world: api):
        self.runner = VirtualRunner()
        self.chance = Chance(seed)
        self.server = ApiServer(self.runner.clock, self.chance, Kinds(builtin_kinds()))
        self.api = InProcessApi(self.server)
        for resource in ALL:
            self.ask(self.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition(resource)))
        self.runner.advance(5)
        for number in range(nodes):
            self.ask(
                self.api.create(
                    NODES, {"metadata": {"name": f"node-{number + 1}", "labels": {NODE_LABEL: ""}}}
                )
            )
        self.storage = TinyStorage(self.api, self.runner.clock)
        self.runner.start(self.storage.run(), "the storage")
        self.runner.advance(0)
        self.journal = Journal(self.runner.clock)
        self.began = self.runner.clock.now()
        self.state = RunState()
        self.wrap = wrap
        self.context = RunContext(
            self._api_for, self.runner.clock, self.chance, self.journal, "run1"
        )

    def _api_for(self, agent):
        return self.wrap(InProcessApi(self.server, agent=agent), self)

    @property
    def now(self):
        return round(self.runner.clock.now() - self.began, 3)

    def close(self):
        self.runner.close()
        self.server.close()
        self.journal.close()

    def ask(self, coroutine):
        return self.runner.call(coroutine)

    def advance(self, seconds):
        self.runner.advance(seconds)
        self.runner.advance(0)

    def start(self, coroutine, name="actor"):
        self.runner.start(coroutine, name)
        self.runner.advance(0)

    def subject(self, name="v", health=DEFAULT_HEALTH):
        """Keep the view of a volume open for one actor."""
        view = self.state.watch(self.context)
        self.ask(view.__aenter__())
        return Subject(name, dataclasses.replace(self.context, health=health), self.state, view)

    def volume(self, name="v", size="8Mi"):
        obj = {
            "metadata": {"name": name},
            "spec": {"size": size, "replicatedStorageClassName": "availability"},
        }
        self.ask(self.api.create(REPLICATED_VOLUMES, obj))
        self.advance(0)

    def names(self, resource):
        return sorted(one["metadata"]["name"] for one in self.ask(self.api.list(resource)).items)

    def left(self):
        return [name for resource in ALL for name in self.names(resource)]

    def notes(self, *whats):
        """Return (when, what, data) of these journal entries, or of all."""
        return [
            (round(one.at, 3), one.what, one.data)
            for one in self.journal
            if not whats or one.what in whats
        ]

    def requested_actions(self, *actions):
        """Return (when, action, result, duration) of ended actions, without exception texts."""
        return [
            (at, data["action"], data["result"].partition(":")[0], data["took"])
            for at, _, data in self.notes("ended")
            if not actions or data["action"] in actions
        ]
