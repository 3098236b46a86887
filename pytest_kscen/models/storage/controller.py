"""Controller process of the storage: waits for the lease, and reconciles all volumes while it
holds it.

Started by the storage's image. Pure functions in `decisions` decide on a volume; this module reads
the caches, and performs or defers the writes.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.clock import epoch_of
from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.kube.leases import lease_spec
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
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.kube.api import Api
    from pytest_kscen.models.storage.system import StorageSystem
    from pytest_kscen.models.storage.volume_view import VolumeAttachment
    from pytest_kscen.objects.resources import Obj


# All times in seconds.
LEASE_NAME = "sds-replicated-volume-controller"
LEASE_DURATION = 25.0
RENEW_INTERVAL = 10.0
RETRY_RENEWAL = 2.0  # after a failed renewal
RETRY_ACQUIRE = 2.0  # after a lost race for the lease, or without an answer of the API


class LeaseLostError(Exception):
    """Loss of the lease: another controller leads, or may lead. It ends the controller's container,
    which starts again as a candidate.
    """


class ControllerLease:
    """Candidacy of one controller for the lease. Waiting for it is a background sleep, which does
    not keep simulated time running.
    """

    def __init__(self, api: Api, clock: Clock, holder: str) -> None:
        self._api = api
        self._clock = clock
        self._holder = holder
        self._lease: Obj = {}

    async def acquire(self) -> None:
        """Wait until the lease is free or has expired, and take it; at once if this controller held
        it before. Errors of the API are retried.
        """
        while (wait := await self._seconds_to_wait()) > 0:
            await self._clock.sleep(wait, background=True)

    async def keep(self) -> Never:
        """Renew the lease forever. Raises LeaseLostError when another controller has written it, or
        when renewals have failed for too long.
        """
        renewed = self._clock.now()
        while True:
            failed = self._clock.now() > renewed + RENEW_INTERVAL
            await self._clock.sleep(RETRY_RENEWAL if failed else RENEW_INTERVAL, background=True)
            try:
                await self._write(self._lease)
            except (Conflict, NotFound) as error:
                raise LeaseLostError("another controller has written the lease") from error
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
                "spec": lease_spec(self._holder, LEASE_DURATION, self._clock.now()),
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
            {**lease, "spec": lease_spec(self._holder, LEASE_DURATION, self._clock.now(), lease)},
        )


CONTROLLER_NAME = "replicated-volume-controller"
MINORS = 2**20
EVENT_DELAY = 0.05  # until related events have arrived
STATUS_DELAY = 1.0  # until statuses that are not urgent are written, combined

_by_number = attrgetter("number", "name")


class _DeferredWrites(NamedTuple):
    """Deferred status writes, and the volume for which they were decided."""

    volume: Obj
    writes: list[WriteStatus]


class StorageController:
    """Controller process. It has no state but the API's: it waits for the lease, and then
    reconciles every volume. Less urgent statuses are deferred and combined.
    """

    def __init__(self, system: StorageSystem, container: ContainerContext) -> None:
        self._system = system
        self._container = container
        self._context = ControllerContext.of(
            CONTROLLER_NAME, container.api, container.clock, system.informers
        )
        self._deferred_since: dict[str, float] = {}
        """Time since when status writes of a volume have been deferred."""
        self._deferred: dict[str, _DeferredWrites] = {}
        """Deferred writes of volumes without a change since."""

        def free_minor() -> int:
            taken = {system.parsed.previous(volume).minor for volume in system.volumes}
            return next(number for number in range(MINORS) if number not in taken)

        self._decision_context = DecisionContext(
            generation=system.generation,
            load=lambda node: len(system.replicas_by_node.of(node)),
            # no bound method: a reference cycle would keep the pod's objects alive
            free_minor=free_minor,
            chance=system.chance.stream(CONTROLLER_NAME),
            now=self._context.now,
            parsed=system.parsed,
        )

    async def run(self) -> None:
        lease = ControllerLease(
            self._container.api, self._container.clock, self._container.pod["metadata"]["name"]
        )
        await self._system.synced()
        await lease.acquire()
        self._container.write("became the leader\n")
        system = self._system
        controller = self._context.controller(
            self._reconcile, system.volumes, system.replicas, system.attachments, system.classes
        )
        known = [volume["metadata"]["name"] for volume in system.volumes]
        concerned = [
            one["spec"]["replicatedVolumeName"] for one in [*system.replicas, *system.attachments]
        ]
        for name in dict.fromkeys([*known, *concerned]):
            controller.enqueue(name)

        def volume_changed(volume: str) -> None:
            self._deferred.pop(volume, None)
            controller.enqueue_after(volume, EVENT_DELAY)

        remove_controller = self._system.add_controller(volume_changed)
        tasks = ChildTasks()
        tasks.start(lease.keep(), f"lease of {CONTROLLER_NAME}")
        tasks.start(controller.run(), CONTROLLER_NAME)
        try:
            await tasks.watch()
        finally:
            remove_controller()

    async def _reconcile(self, name: str) -> float | None:
        # includes the numbers and nodes of the last decisions
        await self._context.api.wait_until_visible()
        volume = self._system.volumes.get(name)
        if volume is None:
            self._deferred_since.pop(name, None)
            self._deferred.pop(name, None)
            await perform(self._context.api, self._without_volume(name))
            return None
        # Perform deferred writes that are due, unless an object was written since the decision.
        deferred = self._deferred.pop(name, None)
        if (
            deferred is None
            or deferred.volume is not volume
            or not all(
                self._system.informers.of(write.resource).get(write.obj["metadata"]["name"])
                is write.obj
                for write in deferred.writes
            )
        ):
            due: list[WriteStatus] = []
        elif self._deferred_since[name] + STATUS_DELAY > self._context.now():
            due = []
        else:
            del self._deferred_since[name]
            due = deferred.writes
        if due:
            await perform(self._context.api, due)
            return None
        view = self._view(volume)
        writes, wait = self._split_by_urgency(view, decide(view, self._decision_context))
        if is_about_to_change(view, self._context.now()):
            wait = min(wait, AGENT_RESPONSE_TIME)
        if view.terminating:
            wait = min(wait, attachment_rules.RECHECK_INTERVAL)
            self._deferred.pop(name, None)  # the recheck decides everything again
        try:
            await perform(self._context.api, writes)
        except BaseException:
            self._deferred.pop(name, None)  # the next reconciliation decides everything again
            raise
        return wait if wait < math.inf else None

    def _split_by_urgency(
        self, view: VolumeView, writes: list[ApiWrite]
    ) -> tuple[list[ApiWrite], float]:
        """Return the writes to perform now, and the seconds until the deferred rest is due."""
        name = view.name
        deferrable = [
            write for write in writes if isinstance(write, WriteStatus) and not write.is_urgent
        ]
        if deferrable:
            wait = (
                self._deferred_since.setdefault(name, self._context.now())
                + STATUS_DELAY
                - self._context.now()
            )
            if wait > 0:
                self._deferred[name] = _DeferredWrites(view.volume, deferrable)
                return [
                    write
                    for write in writes
                    if not isinstance(write, WriteStatus) or write.is_urgent
                ], wait
        self._deferred_since.pop(name, None)
        return writes, math.inf

    def _view(self, volume: Obj) -> VolumeView:
        system, name = self._system, volume["metadata"]["name"]
        storage_class = system.classes.get(volume["spec"].get("replicatedStorageClassName", ""))
        replicas = sorted(
            system.parsed.with_nodes(
                system.replicas_by_volume.of(name), volume, system.storage_nodes
            ),
            key=_by_number,
        )
        duplicates = duplicates_of(replicas)
        return VolumeView(
            name=name,
            volume=volume,
            layout=system.parsed.layout(storage_class, volume),
            replicas=[one for one in replicas if one not in duplicates] if duplicates else replicas,
            attachments=self._attachments(name),
            storage_nodes=system.storage_nodes,
            previous=system.parsed.previous(volume),
            duplicates=duplicates,
        )

    def _attachments(self, name: str) -> list[VolumeAttachment]:
        """Return a volume's attachments by creation time, then by name."""
        found = sorted(
            self._system.attachments_by_volume.of(name),
            key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]),
        )
        return [self._system.parsed.attachment(obj) for obj in found]

    def _without_volume(self, name: str) -> list[ApiWrite]:
        """Return writes for objects of a volume that does not exist: attachments wait for it, and
        remaining replicas are released.
        """
        generation, now = self._system.generation, self._context.timestamp()
        writes: list[ApiWrite] = []
        for attachment in self._attachments(name):
            if attachment.deleting and attachment.held:
                finalizers = attachment_rules.without_finalizer(
                    attachment.obj, CONTROLLER_FINALIZER
                )
                writes.append(
                    SetFinalizers(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, finalizers)
                )
            elif not attachment.deleting:
                status = generation.attachment_status(None, attachment, WAITING_FOR_VOLUME, now)
                if status != attachment.obj.get("status"):
                    writes.append(
                        WriteStatus(REPLICATED_VOLUME_ATTACHMENTS, attachment.obj, status)
                    )
        for obj in self._system.replicas_by_volume.of(name):
            replica = self._system.parsed.of(obj, None)
            if replica.deleting and replica.held:
                writes.append(
                    SetFinalizers(
                        REPLICATED_VOLUME_REPLICAS,
                        obj,
                        attachment_rules.without_finalizer(obj, CONTROLLER_FINALIZER),
                    )
                )
        return writes


_WAITING = ConditionValue(
    holds=False, reason="WaitingForReplicatedVolume", message="the volume does not exist"
)
WAITING_FOR_VOLUME = attachment_rules.AttachmentState(
    phase=attachment_rules.PENDING,
    attached=_WAITING,
    replica=_WAITING,
    ready=ConditionValue(holds=False, reason="NotAttached", message="the volume does not exist"),
)
