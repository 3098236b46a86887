"""What every generation of the storage answers, and what all answer alike."""

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
    """What the controller has decided for a volume as it is."""

    quorum: QuorumSettings
    minor: int
    secret: str
    size: int
    """Bytes that the kernels shall make of it."""
    primaries: dict[str, bool]
    """By the replicas' names."""
    two_primaries: bool
    complete: bool
    """Whether everybody who can has told an address."""
    io_ready: ConditionValue
    has_quorum: ConditionValue


class AgentOrders(NamedTuple):
    """What an agent reads out of the API for its kernel."""

    config: ResourceConfig | None
    """None until the peers are known."""
    primary: bool = False
    minor: int = 0
    first: bool = False
    """Nobody has data: this replica's shall be the volume's."""
    revision: int = 0


class AgentReport(NamedTuple):
    """What an agent tells of its replica."""

    address: ReplicaAddress
    orders: AgentOrders
    status: ResourceStatus | None
    names: dict[str, VolumeReplica]
    """The other replicas of the volume by their nodes."""
    refusal: str = ""
    """Why the kernel did not do what was asked."""

    def answer(self, replica: VolumeReplica) -> ReportAnswer:
        """What whoever gave the orders waits for."""
        config = self.orders.config
        return (
            replica.type,
            self.address,
            self.refusal,
            self.orders.revision,
            bool(config and config.two_primaries),
        )


class Generation(ABC):
    """Stateless."""

    name: str
    definitions: tuple[Obj, ...]
    classes: ClassVar[dict[str, str]]
    """Replications that have a class of their own, besides those that all generations know."""
    quorum_rule: QuorumRule
    forms_at_once: bool
    """Whether all disks are made together, or the first one before the others."""
    replaces_disks: bool
    """Whether a replica with a disk that was deleted gets a successor by itself."""

    @abstractmethod
    def layout(self, storage_class: Obj | None, volume: Obj) -> VolumeLayout | None: ...

    @abstractmethod
    def tie_breakers(self, layout: VolumeLayout, diskful: int, access: int) -> int: ...

    @abstractmethod
    def quorum(self, layout: VolumeLayout, diskful: int, total: int) -> QuorumSettings: ...

    @abstractmethod
    def io_ready(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue:
        """Whether the volume can be used."""

    @abstractmethod
    def has_quorum(self, view: VolumeView, quorum: QuorumSettings) -> ConditionValue: ...

    @abstractmethod
    def status_of_pool(self, nodes: Sequence[str]) -> Obj:
        """What a pool says when it is installed."""

    @abstractmethod
    def status_of_class(self, replication: str) -> Obj: ...

    # --- reading ---

    @abstractmethod
    def read(self, obj: Obj, volume: Obj | None) -> VolumeReplica:
        """A replica as it says it is."""

    # most replicas say all themselves
    def read_beside(self, volume: Obj | None) -> object:  # noqa: ARG002
        """The part of the volume that a replica is read from, too."""
        return None

    @abstractmethod
    def orders_in(self, status: Obj) -> object:
        """The part of a volume's or a replica's status that agents go by."""

    def has_same_orders(self, status: Obj, before: Obj) -> bool:
        """Whether agents have nothing else to go by."""
        return self.orders_in(status) == self.orders_in(before)

    @abstractmethod
    def before(self, volume: Obj) -> PreviousDecisions: ...

    @abstractmethod
    def orders_by(self, volume: Obj, replica: VolumeReplica) -> object:
        """All that orders are made of, beside what every replica has."""

    @abstractmethod
    def orders(self, volume: Obj, replica: VolumeReplica, *, first: bool) -> AgentOrders: ...

    # --- writing ---

    @abstractmethod
    def tell_volume(self, view: VolumeView, decision: VolumeDecision, now: str) -> Obj:
        """The volume's status."""

    @abstractmethod
    def tell_replica(
        self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision, now: str
    ) -> Obj:
        """A replica's status with what the controller has to say."""

    @abstractmethod
    def grounds(self, view: VolumeView, replica: VolumeReplica, decision: VolumeDecision) -> object:
        """All that the controller says of a replica by, beside the replica itself."""

    @abstractmethod
    def tell_attachment(
        self,
        view: VolumeView | None,
        attachment: VolumeAttachment,
        standing: AttachmentState,
        now: str,
    ) -> Obj: ...

    @abstractmethod
    def report(self, replica: VolumeReplica, report: AgentReport, now: str) -> Obj:
        """A replica's status with what its agent has to say."""


def common_fields(obj: Obj) -> tuple[Obj, str, str, str, bool, bool, bool]:
    """The first fields of a Replica, which every generation has in the same places."""
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
    """Whether nobody has data, and it is this replica that shall: one that leaves, or may have
    begun before it left, is not it.
    """
    if replica.leaving or not replica.is_diskful:
        return False
    for other in others:
        has_begun = (
            other.number < replica.number or other.leaving or other.initialized or other.up_to_date
        )
        if has_begun and other.is_diskful and other.in_mesh:
            return False
    return True


def granted_size(view: VolumeView, before: str | None) -> str | None:
    """What the volume has, as it was asked for: every disk has it, and none gives anything back."""
    asked = view.volume["spec"]["size"]
    if asked == before:
        return before
    there = min((replica.size for replica in view.diskful if replica.size), default=0)
    grows = before is None or nanos(asked) > nanos(before)
    return canonical(str(asked)) if grows and there >= parse(asked).value else before


STATUSES = {True: "True", False: "False", None: "Unknown"}


def with_conditions(obj: Obj, findings: dict[str, ConditionValue], now: str) -> list[Obj]:
    """An object's conditions with these in their places; each keeps its time while its status
    stays.
    """
    metadata = obj["metadata"]
    asked = metadata["generation"] - (
        "deletionTimestamp" in metadata
    )  # which counts as a generation, and asks for nothing else
    before: list[Obj] = (obj.get("status") or {}).get("conditions") or []
    kept, is_new = {one["type"]: one for one in before}, False
    for type_, (holds, reason, message) in findings.items():
        old, status = kept.get(type_), STATUSES[holds]
        if old is None or old["status"] != status:
            since = now
        elif (
            old["reason"] == reason
            and old["message"] == message
            and old.get("observedGeneration") == asked
        ):
            continue  # what is the same is the same object: nobody compares it again
        else:
            since = old["lastTransitionTime"]
        kept[type_] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
            "observedGeneration": asked,
        }
        is_new = True
    return list(kept.values()) if is_new else before
