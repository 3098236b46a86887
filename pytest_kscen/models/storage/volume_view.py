"""View of one volume at one instant: the volume, its replicas and attachments, and the nodes.

Built by the controller for each reconciliation, from the API's objects. Also the rules for how many
replicas of which type there are, and where they go. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.models.storage.nodes import NODE_NOT_READY
from pytest_kscen.objects.storage import ACCESS, DISKFUL, REPLICAS, TIE_BREAKER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kscen.chance import Stream
    from pytest_kscen.models.storage.nodes import StorageNode, StorageNodes
    from pytest_kscen.objects.resources import Obj


CONTROLLER_FINALIZER = "sds-replicated-volume.deckhouse.io/controller"
AGENT_FINALIZER = "sds-replicated-volume.deckhouse.io/agent"


class ConditionValue(NamedTuple):
    """Value of a condition as the rules compute it, with its reason and a message. Conditions
    compare by value, so equal ones are never written twice.
    """

    holds: bool | None
    """Unknown if None."""
    reason: str
    message: str = ""


ONLINE = ConditionValue(holds=True, reason="Online")
IO_READY = ConditionValue(holds=True, reason="IOReady")
OUT_OF_SYNC = ConditionValue(holds=False, reason="OutOfSync", message="its data is not up to date")


def _offline(reason: str, message: str) -> tuple[ConditionValue, ConditionValue]:
    """Return the conditions Online and IOReady of a replica that is neither."""
    return ConditionValue(False, reason, message), ConditionValue(
        False, "Offline", f"it is not online: {reason}"
    )


UNSCHEDULED = _offline("Unscheduled", "no suitable node was found")
UNINITIALIZED = _offline("Uninitialized", "it has never had the volume's data")
QUORUM_LOST = _offline("QuorumLost", "its kernel has no quorum")


class ReplicaAddress(NamedTuple):
    ipv4: str
    port: int


@dataclass(slots=True)
class VolumeReplica:
    """A ReplicatedVolumeReplica, in terms common to all generations.

    Must not be changed; it is not frozen only because many are made.
    """

    obj: Obj = field(compare=False)
    name: str
    node: str
    type: str
    deleting: bool
    """Deletion was requested."""
    held: bool
    """The controller's finalizer is present."""
    agent_held: bool = field(default=False, compare=False)
    """The agent's finalizer is present."""
    address: ReplicaAddress | None = None
    initialized: bool = False
    in_quorum: bool = False
    in_sync: bool = False
    primary: bool = False
    """Primary in the agent's latest report."""
    ordered_primary: bool = field(default=False, compare=False)
    """Ordered by the controller, which needs no notification of it."""
    two_primaries: bool = False
    """The kernel allows two primaries."""
    actual_type: str = ""
    size: int = 0
    """Bytes, as reported by the kernel."""
    linked: tuple[str, ...] = ()
    """Connected peers, as named by the generation; empty where the generation does not use
    them.
    """
    revision: int = 0
    """Revision of the orders that the agent has read."""
    up_to_date: bool = False
    """UpToDate in the agent's latest report."""
    online: ConditionValue = field(init=False)
    io_ready: ConditionValue = field(init=False)
    number: int = field(init=False, compare=False)
    is_diskful: bool = field(init=False, compare=False)
    is_member: bool = field(init=False, compare=False)
    """Placed on a node, and not yet released."""

    def __post_init__(self) -> None:
        self.number = int(self.name.rpartition("-")[2])
        self.is_diskful = self.type == DISKFUL
        self.is_member = bool(self.node) and (self.held or not self.deleting)
        # Conditions that follow from the agent's report.
        if not self.node:
            self.online, self.io_ready = UNSCHEDULED
        elif not self.initialized:
            self.online, self.io_ready = UNINITIALIZED
        elif not self.in_quorum:
            self.online, self.io_ready = QUORUM_LOST
        else:
            self.online, self.io_ready = ONLINE, IO_READY if self.in_sync else OUT_OF_SYNC

    def with_problem(self, problem: str) -> VolumeReplica:
        """Return a copy for a node whose agent does not work: neither online nor ready is known to
        hold.
        """
        with_problem = VolumeReplica(*_init_values(self))
        with_problem.online = with_problem.io_ready = ConditionValue(
            holds=False, reason=problem, message=f"the agent on {self.node} does not report"
        )
        return with_problem

    @property
    def is_tie_breaker(self) -> bool:
        return self.type == TIE_BREAKER


_init_values = attrgetter(*[each.name for each in fields(VolumeReplica) if each.init])
"""Values of all fields of the constructor, in its order."""


@dataclass(slots=True)
class VolumeAttachment:
    """A ReplicatedVolumeAttachment. It must not be changed; it is not frozen only because many are
    made.
    """

    obj: Obj = field(compare=False)
    name: str
    node: str
    deleting: bool
    held: bool

    @classmethod
    def of(cls, obj: Obj) -> VolumeAttachment:
        metadata = obj["metadata"]
        held = CONTROLLER_FINALIZER in metadata.get("finalizers", ())
        return cls(
            obj, metadata["name"], obj["spec"]["nodeName"], "deletionTimestamp" in metadata, held
        )


class PreviousDecisions(NamedTuple):
    desired: list[str]
    """Nodes where the volume was to be attached."""
    minor: int | None
    secret: str
    size: int
    """Bytes."""


NOTHING_DECIDED = PreviousDecisions([], None, "", 0)


@dataclass
class VolumeView:
    """Volume and all that concerns it, at one instant.

    Must not be changed; it is not frozen only because many are made.
    """

    name: str
    volume: Obj
    layout: VolumeLayout
    replicas: list[VolumeReplica]
    """Replicas, at most one on each node."""
    attachments: list[VolumeAttachment]
    """Attachments in the order of their creation."""
    storage_nodes: StorageNodes
    previous: PreviousDecisions = NOTHING_DECIDED
    duplicates: list[VolumeReplica] = field(default_factory=list)
    """Replicas on nodes that already had another one; no agent manages them."""
    deleting: bool = field(init=False)
    active: list[VolumeReplica] = field(init=False)
    diskful: list[VolumeReplica] = field(init=False)
    """Active replicas with a disk."""
    unscheduled: list[VolumeReplica] = field(init=False)
    """Active replicas without a node."""
    members: list[VolumeReplica] = field(init=False)
    unaddressed: list[VolumeReplica] = field(init=False)
    """Members whose agents have not reported an address yet."""
    placements: list[tuple[str, str, ReplicaAddress | None, str]] = field(init=False)
    """Name, node, address and type of each member, for the configuration of its peers."""
    terminating: list[VolumeReplica] = field(init=False)
    """Deleted replicas that are not released yet."""
    attached_nodes: list[str] = field(init=False)
    """Nodes where the volume is Primary."""
    desired_nodes: list[str] = field(init=False)
    """Nodes where the volume is to be attached."""

    def __post_init__(self) -> None:
        self.deleting = "deletionTimestamp" in self.volume["metadata"]
        self.active, self.diskful, self.unscheduled, self.members = [], [], [], []
        self.unaddressed, self.placements, self.terminating, self.attached_nodes = [], [], [], []
        for replica in self.replicas:  # one pass: every reconciliation needs all lists
            if not replica.deleting:
                self.active.append(replica)
                if replica.is_diskful:
                    self.diskful.append(replica)
                if not replica.node:
                    self.unscheduled.append(replica)
            elif replica.held:
                self.terminating.append(replica)
            if replica.is_member:
                self.members.append(replica)
                self.placements.append((replica.name, replica.node, replica.address, replica.type))
                if not replica.address:
                    self.unaddressed.append(replica)
            if replica.primary:
                self.attached_nodes.append(replica.node)
        self.desired_nodes = self._choose_desired() if self.attachments else []

    def _choose_desired(self) -> list[str]:
        """Return the nodes to attach to: earlier choices are kept, then the oldest attachments. A
        volume that is being deleted gets no new ones.
        """
        wanted = [
            attachment.node
            for attachment in self.attachments
            if not attachment.deleting and self.may_be_on(attachment.node)
        ]
        desired = [node for node in self.previous.desired if node in wanted]
        if not self.deleting:
            new = [node for node in dict.fromkeys(wanted) if node not in desired]
            desired += new[: max(0, self.layout.attachments - len(desired))]
        return desired

    def may_be_on(self, node: str) -> bool:
        """Return True if the class allows using the volume on this node: local access needs a
        replica with a disk there.
        """
        if not self.layout.is_local:
            return True
        replica = self.on(node)
        return replica is not None and replica.is_diskful

    @cached_property
    def reporting(self) -> list[VolumeReplica]:
        return [replica for replica in self.members if not self.host(replica).problem]

    def on(self, node: str) -> VolumeReplica | None:
        for replica in self.replicas:
            if replica.node == node:
                return replica
        return None

    def host(self, replica: VolumeReplica) -> StorageNode:
        return self.storage_nodes.host(replica.node)


def duplicates_of(replicas: list[VolumeReplica]) -> list[VolumeReplica]:
    """Return the replicas on nodes that another one had before. The one with the controller's
    finalizer counts as the first.
    """
    if len({one.node for one in replicas}) == len(replicas):
        return []
    taken: dict[str, VolumeReplica] = {}
    by_arrival = sorted(
        (one for one in replicas if one.node), key=lambda one: not (one.held or one.deleting)
    )
    return [one for one in by_arrival if taken.setdefault(one.node, one) is not one]


LOCAL, ANY = "Local", "Any"
ZONAL, TRANS_ZONAL = "Zonal", "TransZonal"


@dataclass(frozen=True, slots=True)
class VolumeLayout:
    """Layout that a volume's class requires: numbers and places of replicas, and the number of
    nodes that may use the volume.
    """

    diskful: int
    io_ready: int
    """Number of replicas with disks that have to be ready for I/O."""
    redundancy: int
    """Number of copies that have to be UpToDate for a write."""
    failures: int
    """Number of replicas that may fail."""
    access: str = "PreferablyLocal"
    topology: str = "Ignored"
    zones: tuple[str, ...] = ()
    attachments: int = 2
    guards_diskless: bool = True
    """True if a diskless replica, too, stays until the others can do without it."""

    @property
    def is_local(self) -> bool:
        return self.access == LOCAL


class QuorumSettings(NamedTuple):
    votes: int
    redundancy: int


class ReplicaChanges(NamedTuple):
    tie_breakers: int
    access: int
    converted: list[VolumeReplica]
    """Tie-breakers that become Access replicas."""
    surplus: list[VolumeReplica]


def plan_changes(
    view: VolumeView,
    new_disk_nodes: Sequence[str],
    tie_breakers: Callable[[VolumeLayout, int, int], int],
) -> ReplicaChanges:
    """Return the faults of the replicas, given new disks on the nodes `homes`.

    `tie_breakers` returns the number needed for a layout and its numbers of diskful and access
    replicas.
    """
    remote = [] if view.layout.is_local else view.desired_nodes
    access: list[VolumeReplica] = []
    kept: list[VolumeReplica] = []
    converted: list[VolumeReplica] = []
    for replica in view.active:
        if replica.type == ACCESS:
            access.append(replica)
        elif replica.type == TIE_BREAKER:
            (converted if replica.node in remote else kept).append(replica)
    bare = [node for node in remote if view.on(node) is None and node not in new_disk_nodes]
    waiting = [replica for replica in access if not replica.node][: len(bare)] if bare else []
    idle = [
        one
        for one in access
        if one.node not in view.desired_nodes
        and one.node not in view.attached_nodes
        and one not in waiting
    ]
    new = len(bare) - len(waiting)
    needed = tie_breakers(
        view.layout,
        len(view.diskful) + len(new_disk_nodes),
        len(access) - len(idle) + len(converted) + new,
    )
    spare = []
    if len(kept) > needed:
        spare = sorted(kept, key=lambda replica: (bool(replica.node), -replica.number))[
            : len(kept) - needed
        ]
    return ReplicaChanges(max(0, needed - len(kept)), new, converted, [*idle, *spare])


def free_number(taken: Sequence[int]) -> int | None:
    return next((number for number in range(REPLICAS) if number not in taken), None)


def choose_node(
    view: VolumeView, type_: str, taken: Sequence[str], load: Callable[[str], int], chance: Stream
) -> str:
    """Return a node for a new replica: ready, without another replica, the least loaded; empty if
    there is none. Ties are drawn.
    """
    if type_ == ACCESS:
        return next((node for node in view.desired_nodes if node not in taken), "")
    free = [
        host
        for name, host in sorted(view.storage_nodes.hosts.items())
        if name not in taken and host.takes_replicas and host.problem != NODE_NOT_READY
    ]
    layout = view.layout
    if layout.zones:
        free = [host for host in free if host.zone in layout.zones]
    used = [view.storage_nodes.host(node).zone for node in taken]
    if layout.topology == ZONAL and used:
        free = [host for host in free if host.zone == used[0]]
    elif layout.topology == TRANS_ZONAL and free:
        fewest = min(used.count(host.zone) for host in free)
        free = [host for host in free if used.count(host.zone) == fewest]
    if type_ == DISKFUL and layout.access != ANY:
        free = [host for host in free if host.name in view.desired_nodes] or free
    elif type_ == TIE_BREAKER:
        free = [host for host in free if host.name not in view.desired_nodes] or free
    if not free:
        return ""
    loads = [load(host.name) for host in free]
    least = min(loads)
    return chance.choice(
        [host for host, much in zip(free, loads, strict=True) if much == least]
    ).name
