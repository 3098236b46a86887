"""The life of a controller's pod: it waits for the lease, and as long as it holds it, it looks
after every volume.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.kube.leases import claimed
from pytest_kscen.models.storage import attachment_rules
from pytest_kscen.models.storage.api_writes import ApiWrite, SetFinalizers, WriteStatus, perform
from pytest_kscen.models.storage.decisions import (
    AGENT_RESPONSE_TIME,
    DecisionContext,
    decide,
    is_about_to_change,
)
from pytest_kscen.models.storage.volume_view import (
    CONTROLLER_FINALIZER,
    ConditionValue,
    VolumeView,
    duplicates_of,
)
from pytest_kscen.objects.errors import AlreadyExists, ApiError, Conflict, NotFound
from pytest_kscen.objects.resources import LEASES
from pytest_kscen.objects.storage import (
    NAMESPACE,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
)

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.controller import Controller
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.models.storage.system import StorageSystem
    from pytest_kscen.models.storage.volume_view import VolumeAttachment
    from pytest_kscen.objects.resources import Obj


# Leader election: whoever holds the Lease leads; who does not renew it in time has lost it, and
# the others see it run out.


LEASE_NAME = "sds-replicated-volume-controller"
LEASE_DURATION = 25.0  # seconds for which a renewal holds
RENEW_INTERVAL = 10.0
RETRY_RENEWAL = 2.0  # after a renewal that failed
RETRY_ACQUIRE = 2.0  # where somebody else was quicker, or the API did not answer


class LeaseLostError(Exception):
    """Somebody else leads, or may lead."""


class ControllerLease:
    """One candidate's hold on it. Waiting for it is nothing that keeps a test alive."""

    def __init__(self, api: Api, clock: Clock, holder: str) -> None:
        self._api = api
        self._clock = clock
        self._holder = holder
        self._lease: Obj = {}

    async def acquire(self) -> None:
        """Wait until it is ours."""
        while (wait := await self._seconds_to_wait()) > 0:
            await self._clock.sleep(wait, background=True)

    async def keep(self) -> Never:
        """Renew it for ever; raises LostError when that has failed for too long."""
        renewed = self._clock.now()
        while True:
            failed = self._clock.now() > renewed + RENEW_INTERVAL
            await self._clock.sleep(RETRY_RENEWAL if failed else RENEW_INTERVAL, background=True)
            try:
                await self._write(self._lease)
            except (Conflict, NotFound) as error:
                raise LeaseLostError("somebody else has written the lease") from error
            except (ApiError, OSError) as error:
                if self._clock.now() >= renewed + LEASE_DURATION - RETRY_RENEWAL:
                    raise LeaseLostError("the lease could not be renewed in time") from error
            else:
                renewed = self._clock.now()

    async def _seconds_to_wait(self) -> float:
        try:
            lease = await self._api.get(LEASES, LEASE_NAME, NAMESPACE)
            spec = lease["spec"]
            runs_out: float = epoch_of(spec["renewTime"]) + spec["leaseDurationSeconds"]
            if spec["holderIdentity"] != self._holder and self._clock.now() < runs_out:
                return runs_out - self._clock.now()
            await self._write(lease)
        except NotFound:
            metadata = {"name": LEASE_NAME, "namespace": NAMESPACE}
            new = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": metadata,
                "spec": claimed(self._holder, LEASE_DURATION, self._clock.now()),
            }
            try:
                self._lease = await self._api.create(LEASES, new, NAMESPACE)
            except (AlreadyExists, ApiError, OSError):
                return RETRY_ACQUIRE
            return 0
        except (ApiError, OSError):
            return RETRY_ACQUIRE
        return 0

    async def _write(self, lease: Obj) -> None:
        self._lease = await self._api.update(
            LEASES,
            {**lease, "spec": claimed(self._holder, LEASE_DURATION, self._clock.now(), lease)},
        )


CONTROLLER_NAME = "replicated-volume-controller"
MINORS = 2**20
EVENT_DELAY = (
    0.05  # seconds within which what belongs together has come in, so that it is told together
)
STATUS_DELAY = 1.0  # seconds within which what nobody waits for is told, so that it is told once

_by_number = attrgetter("number", "name")


class _DeferredWrites(NamedTuple):
    """What may be told later, and the volume that it was decided for."""

    volume: Obj
    deeds: list[WriteStatus]


class StorageController:
    """One process. It begins with nothing but what the API shows."""

    def __init__(self, plant: StorageSystem, container: ContainerContext) -> None:
        self._plant = plant
        self._container = container
        self._context = ControllerContext.of(
            CONTROLLER_NAME, container.api, container.clock, plant.informers
        )
        self._news: dict[str, float] = {}
        """When what is untold of a volume came up."""
        self._untold: dict[str, _DeferredWrites] = {}
        """What that is, of volumes of which nothing else has been heard since."""
        self._means = DecisionContext(
            generation=plant.generation,
            load=lambda node: len(plant.replicas_by_node.of(node)),
            free_minor=lambda: _free_minor(plant),
            chance=plant.chance.stream(CONTROLLER_NAME),
            now=self._context.now,
            readings=plant.readings,
        )

    async def run(self) -> None:
        lease = ControllerLease(
            self._container.api, self._container.clock, self._container.pod["metadata"]["name"]
        )
        await self._plant.synced()
        await lease.acquire()
        self._container.write("became the leader\n")
        controller = self._controller()

        def hear(volume: str) -> None:
            self._untold.pop(volume, None)
            controller.enqueue_after(volume, EVENT_DELAY)

        leave = self._plant.join_leaders(hear)
        together = ChildTasks()
        together.start(lease.keep(), f"lease of {CONTROLLER_NAME}")
        together.start(controller.run(), CONTROLLER_NAME)
        try:
            await together.watch()
        finally:
            leave()

    def _controller(self) -> Controller[str]:
        """Everything that there is wants a look."""
        plant = self._plant
        controller = self._context.controller(
            self._reconcile, plant.volumes, plant.replicas, plant.attachments, plant.classes
        )
        known = [volume["metadata"]["name"] for volume in plant.volumes]
        concerned = [
            one["spec"]["replicatedVolumeName"] for one in [*plant.replicas, *plant.attachments]
        ]
        for name in dict.fromkeys([*known, *concerned]):
            controller.enqueue(name)
        return controller

    async def _reconcile(self, name: str) -> float | None:
        await (
            self._context.api.caught_up()
        )  # numbers and room that others were given just now are seen
        volume = self._plant.volumes.get(name)
        if volume is None:
            self._news.pop(name, None)
            self._untold.pop(name, None)
            await perform(self._context.api, self._without_volume(name))
            return None
        # What was to be told by now, if it stands as it was decided: nobody has been there
        # since.
        untold = self._untold.pop(name, None)
        if (
            untold is None
            or untold.volume is not volume
            or not all(map(self._is_latest, untold.deeds))
        ):
            due: list[WriteStatus] = []
        elif self._news[name] + STATUS_DELAY > self._context.now():
            due = []
        else:
            del self._news[name]
            due = untold.deeds
        if due:
            await perform(self._context.api, due)
            return None
        view = self._view(volume)
        deeds, wait = self._in_time(view, decide(view, self._means))
        if is_about_to_change(view, self._context.now()):
            wait = min(wait, AGENT_RESPONSE_TIME)
        if view.going:
            wait = min(wait, attachment_rules.RECHECK_INTERVAL)
            self._untold.pop(name, None)  # for that look is to be at all of it
        try:
            await perform(self._context.api, deeds)
        except BaseException:
            self._untold.pop(name, None)  # the next look decides it all again
            raise
        return wait if wait < math.inf else None

    def _is_latest(self, deed: WriteStatus) -> bool:
        return self._plant.informers.of(deed.resource).get(deed.obj["metadata"]["name"]) is deed.obj

    def _in_time(self, view: VolumeView, deeds: list[ApiWrite]) -> tuple[list[ApiWrite], float]:
        """What is to be done now, and the seconds until the rest is."""
        name = view.name
        later = [deed for deed in deeds if isinstance(deed, WriteStatus) and not deed.is_urgent]
        if later:
            wait = (
                self._news.setdefault(name, self._context.now())
                + STATUS_DELAY
                - self._context.now()
            )
            if wait > 0:
                self._untold[name] = _DeferredWrites(view.volume, later)
                return [
                    deed for deed in deeds if not isinstance(deed, WriteStatus) or deed.is_urgent
                ], wait
        self._news.pop(name, None)
        return deeds, math.inf

    def _view(self, volume: Obj) -> VolumeView:
        plant, name = self._plant, volume["metadata"]["name"]
        storage_class = plant.classes.get(volume["spec"].get("replicatedStorageClassName", ""))
        replicas = sorted(
            plant.readings.judged(plant.replicas_by_volume.of(name), volume, plant.fleet),
            key=_by_number,
        )
        doubles = duplicates_of(replicas)
        return VolumeView(
            name=name,
            volume=volume,
            layout=plant.readings.layout(storage_class, volume),
            replicas=[one for one in replicas if one not in doubles] if doubles else replicas,
            attachments=self._attachments(name),
            fleet=plant.fleet,
            past=plant.readings.past(volume),
            doubles=doubles,
        )

    def _attachments(self, name: str) -> list[VolumeAttachment]:
        found = sorted(self._plant.attachments_by_volume.of(name), key=_age)
        return [self._plant.readings.attachment(obj) for obj in found]

    def _without_volume(self, name: str) -> list[ApiWrite]:
        """Attachments of a volume that is not there wait for it; what is left of its replicas
        may go.
        """
        generation, now = self._plant.generation, self._context.timestamp()
        deeds: list[ApiWrite] = []
        for attachment in self._attachments(name):
            if attachment.leaving and attachment.held:
                finalizers = attachment_rules.without_finalizer(
                    attachment.obj, CONTROLLER_FINALIZER
                )
                deeds.append(
                    SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)
                )
            elif not attachment.leaving:
                status = generation.tell_attachment(None, attachment, WAITING_FOR_VOLUME, now)
                if status != attachment.obj.get("status"):
                    deeds.append(WriteStatus(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, status))
        for obj in self._plant.replicas_by_volume.of(name):
            replica = self._plant.readings.of(obj, None)
            if replica.leaving and replica.held:
                deeds.append(
                    SetFinalizers(
                        REPLICATED_VOLUME_REPLICAS,
                        obj,
                        attachment_rules.without_finalizer(obj, CONTROLLER_FINALIZER),
                    )
                )
        return deeds


_WAITING = ConditionValue(
    holds=False, reason="WaitingForReplicatedVolume", message="there is no such volume"
)
WAITING_FOR_VOLUME = attachment_rules.AttachmentState(
    phase=attachment_rules.PENDING,
    attached=_WAITING,
    replica=_WAITING,
    ready=ConditionValue(holds=False, reason="NotAttached", message="there is no such volume"),
)


def _free_minor(plant: StorageSystem) -> int:
    """The first number that no volume has."""
    taken = dict.fromkeys(plant.readings.past(volume).minor for volume in plant.volumes)
    return next(number for number in range(MINORS) if number not in taken)


def _age(attachment: Obj) -> tuple[str, str]:
    """Who came first; of those of one second, by name."""
    metadata = attachment["metadata"]
    return metadata["creationTimestamp"], metadata["name"]
