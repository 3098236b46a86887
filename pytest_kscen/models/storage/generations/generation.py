"""Generation of the storage: the interface for decisions and agents, and common functions.

A generation translates between the API's objects and the common terms of a volume's view. It must
not decide what a volume needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pytest_kscen.models.storage.volume_view import (
    AGENT_FINALIZER,
    CONTROLLER_FINALIZER,
    ConditionValue,
    VolumeReplica,
)
from pytest_kscen.objects.quantities import canonical, nanos, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kscen.models.storage.attachment_rules import AttachmentState
    from pytest_kscen.models.storage.drbd import QuorumRule, ResourceConfig, ResourceStatus
    from pytest_kscen.models.storage.volume_view import (
        PreviousDecisions,
        QuorumSettings,
        ReplicaAddress,
        VolumeAttachment,
        VolumeLayout,
        VolumeView,
    )
    from pytest_kscen.objects.resources import Obj

    ReportAnswer = tuple[str, ReplicaAddress, str, int, bool]

PORTS = range(7000, 8000)


class VolumeDecision(NamedTuple):
    """Decision of the controller about a volume in its present state. Each generation writes it
    where its agents look for it.
    """

    quorum: QuorumSettings
    minor: int
    secret: str
    size: int
    """Size in bytes that the kernels shall provide."""
    primaries: dict[str, bool]
    """Replicas that shall be Primary, by name."""
    two_primaries: bool
    all_addresses_known: bool
    """True if every replica with a working agent has an address."""
    io_ready: ConditionValue
    has_quorum: ConditionValue


class AgentOrders(NamedTuple):
    """Orders for one replica, as an agent reads them from the API and applies them to its
    kernel.
    """

    config: ResourceConfig | None
    """Configuration of the kernel; None until the peers are known."""
    primary: bool = False
    minor: int = 0
    initial: bool = False
    """True if no replica has data, and this one's shall become the volume's."""
    revision: int = 0


class AgentReport(NamedTuple):
    """Report of an agent about its replica: its address, the orders that it read, and the kernel's
    status if that is due.
    """

    address: ReplicaAddress
    orders: AgentOrders
    status: ResourceStatus | None
    replicas_by_node: dict[str, VolumeReplica]
    """Other replicas of the volume, by node."""
    refusal: str = ""
    """Reason for which the kernel refused an order."""

    def answer(self, replica: VolumeReplica) -> ReportAnswer:
        """Return the part that the controller waits for after new orders."""
        config = self.orders.config
        return (
            replica.type,
            self.address,
            self.refusal,
            self.orders.revision,
            bool(config and config.two_primaries),
        )


class Generation(ABC):
    """Translation between the API's objects and the common terms of a volume's view, for one
    generation of the storage. Implementations have no state; one instance serves all clusters.
    """

    name: str
    definitions: tuple[Obj, ...]
    classes: ClassVar[dict[str, str]]
    """Additional replication settings of this generation, by class name.
    """
    quorum_rule: QuorumRule
    forms_at_once: bool
    """True if all disks are created together, False if the first one gets the data before the
    others.
    """
    replaces_disks: bool
    """True if a deleted replica with a disk is replaced automatically."""

    @abstractmethod
    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout | None: ...

    @abstractmethod
    def tie_breakers(self, layout: VolumeLayout, diskful: int, access: int) -> int: ...

    @abstractmethod
    def quorum(self, layout: VolumeLayout, diskful: int, total: int) -> QuorumSettings: ...

    @abstractmethod
    def io_ready(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue: ...

    @abstractmethod
    def has_quorum(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue: ...

    @abstractmethod
    def status_of_pool(self, nodes: Sequence[str]) -> Obj: ...

    @abstractmethod
    def status_of_class(self, replication: str) -> Obj: ...

    @abstractmethod
    def read(self, obj: Obj, volume: Obj | None) -> VolumeReplica:
        """Return the common terms of a replica. The same object and volume part give the same
        result, which callers cache.
        """

    def volume_part(self, volume: Obj | None) -> object:  # noqa: ARG002  # for other generations
        """Return the part of the volume that a replica is also read from; None if there is none."""
        return None

    @abstractmethod
    def orders_in_status(self, status: Obj) -> object:
        """Return the part of a volume's or a replica's status that agents act on."""

    def has_same_orders(self, status: Obj, before: Obj) -> bool:
        return self.orders_in_status(status) == self.orders_in_status(before)

    @abstractmethod
    def previous_decisions(self, volume: Obj) -> PreviousDecisions: ...

    @abstractmethod
    def order_inputs(self, volume: Obj, replica: VolumeReplica) -> object:
        """Return everything that orders are made from, except what every replica has."""

    @abstractmethod
    def orders(self, volume: Obj, replica: VolumeReplica, *, initial: bool) -> AgentOrders: ...

    @abstractmethod
    def volume_status(self, view: VolumeView, decision: VolumeDecision, now: str) -> Obj:
        """Return the volume's new status: the controller's decision and its health, as this
        generation publishes them. `now` is the timestamp for changed conditions.
        """

    @abstractmethod
    def replica_status(
        self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision, now: str
    ) -> Obj:
        """Return a replica's status with the controller's part updated; the agent's part is kept as
        it is.
        """

    @abstractmethod
    def status_inputs(
        self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision
    ) -> object:
        """Return everything that the controller's part of a replica's status depends on, except the
        replica itself. Equal inputs let callers keep the previous result.
        """

    @abstractmethod
    def attachment_status(
        self,
        view: VolumeView | None,
        attachment: VolumeAttachment,
        attachment_state: AttachmentState,
        now: str,
    ) -> Obj: ...

    @abstractmethod
    def report(self, replica: VolumeReplica, report: AgentReport, now: str) -> Obj:
        """Return a replica's status with the agent's part updated; the controller's part is kept as
        it is.
        """


def common_fields(obj: Obj) -> tuple[Obj, str, str, str, bool, bool, bool]:
    """Return the first fields of a VolumeReplica, which all generations keep in the same
    places.
    """
    metadata, spec = obj["metadata"], obj["spec"]
    finalizers = metadata.get("finalizers", ())
    return (
        obj,
        metadata["name"],
        spec.get("nodeName", ""),
        spec["type"],
        "deletionTimestamp" in metadata,
        CONTROLLER_FINALIZER in finalizers,
        AGENT_FINALIZER in finalizers,
    )


def is_initial_replica(replica: VolumeReplica, others: Iterable[VolumeReplica]) -> bool:
    """Return True if no replica has data and this is the one that shall initialise the volume.

    A replica that is being deleted is not chosen, nor a second one if the first may have begun.
    """
    if replica.deleting or not replica.is_diskful:
        return False
    for other in others:
        has_begun = (
            other.number < replica.number or other.deleting or other.initialized or other.up_to_date
        )
        if has_begun and other.is_diskful and other.is_member:
            return False
    return True


def granted_size(view: VolumeView, before: str | None) -> str | None:
    """Return the size in the spec once every disk has it. A size is never reduced."""
    requested = view.volume["spec"]["size"]
    if requested == before:
        return before
    there = min((replica.size for replica in view.diskful if replica.size), default=0)
    grows = before is None or nanos(requested) > nanos(before)
    return canonical(str(requested)) if grows and there >= parse(requested).value else before


STATUSES = {True: "True", False: "False", None: "Unknown"}


def with_conditions(obj: Obj, findings: dict[str, ConditionValue], now: str) -> list[Obj]:
    """Return an object's conditions with these values. A condition keeps its transition time as
    long as its status stays; unchanged conditions stay the same objects, so that comparing them is
    quick.
    """
    metadata = obj["metadata"]
    # a deletion counts as a generation, and changes nothing in the spec
    generation = metadata["generation"] - ("deletionTimestamp" in metadata)
    before: list[Obj] = (obj.get("status") or {}).get("conditions") or []
    kept, is_new = {one["type"]: one for one in before}, False
    for type_, (holds, reason, message) in findings.items():
        old, status = kept.get(type_), STATUSES[holds]
        if old is None or old["status"] != status:
            since = now
        elif (
            old["reason"] == reason
            and old["message"] == message
            and old.get("observedGeneration") == generation
        ):
            continue  # an equal condition stays the same object, which is quick to compare
        else:
            since = old["lastTransitionTime"]
        kept[type_] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }
        is_new = True
    return list(kept.values()) if is_new else before
